"""Scores of translations (BLEU, chrF, TER, COMET) and significance tests by paired bootstrap."""

from lacuna.evaluation.comet import CometScorer, SegmentScorer, SegmentScores
from lacuna.evaluation.file_evaluation import evaluate_files
from lacuna.evaluation.runs import RunScore, RunsDifference, compare_runs, compare_scored, score_run
from lacuna.evaluation.scores import (
    Score,
    SystemScore,
    TextScore,
    check_target_language,
    evaluate_systems,
    score_texts,
)
from lacuna.evaluation.sentence_gains import sentence_gains
from lacuna.evaluation.significance import bleu_of_sums, decline_p, resample_means, resample_sums, two_sided_p
from lacuna.evaluation.terms import TermAccuracy, term_accuracy

__all__ = [
    "CometScorer",
    "RunScore",
    "RunsDifference",
    "Score",
    "SegmentScorer",
    "SegmentScores",
    "SystemScore",
    "TermAccuracy",
    "TextScore",
    "bleu_of_sums",
    "check_target_language",
    "compare_runs",
    "compare_scored",
    "decline_p",
    "evaluate_files",
    "evaluate_systems",
    "resample_means",
    "resample_sums",
    "score_run",
    "score_texts",
    "sentence_gains",
    "term_accuracy",
    "two_sided_p",
]
