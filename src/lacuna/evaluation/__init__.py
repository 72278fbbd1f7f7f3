"""Scores of translations (BLEU, chrF, TER, COMET) and significance tests by paired bootstrap."""

from lacuna.evaluation.comet import CometScorer, SegmentScorer, SegmentScores
from lacuna.evaluation.file_evaluation import evaluate_files
from lacuna.evaluation.scores import (
    RunsDifference,
    SampledScore,
    Score,
    SystemScore,
    TextScore,
    check_target_language,
    compare_runs,
    compare_sampled,
    evaluate_systems,
    sample_bleu,
    score_texts,
)
from lacuna.evaluation.sentence_gains import sentence_gains
from lacuna.evaluation.significance import bleu_of_sums, decline_p, resample_means, resample_sums, two_sided_p
from lacuna.evaluation.terms import TermAccuracy, term_accuracy

__all__ = [
    "CometScorer",
    "RunsDifference",
    "SampledScore",
    "Score",
    "SegmentScorer",
    "SegmentScores",
    "SystemScore",
    "TermAccuracy",
    "TextScore",
    "bleu_of_sums",
    "check_target_language",
    "compare_runs",
    "compare_sampled",
    "decline_p",
    "evaluate_files",
    "evaluate_systems",
    "resample_means",
    "resample_sums",
    "sample_bleu",
    "score_texts",
    "sentence_gains",
    "term_accuracy",
    "two_sided_p",
]
