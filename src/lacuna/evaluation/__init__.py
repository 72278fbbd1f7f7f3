"""Scores of translations (BLEU, chrF, TER, COMET) and significance tests by paired bootstrap."""

from lacuna.evaluation.comet import CometScorer, SegmentScorer, SegmentScores
from lacuna.evaluation.file_evaluation import evaluate_files
from lacuna.evaluation.scores import Score, SystemScore, evaluate_systems, share_at_least
from lacuna.evaluation.significance import bleu_of_sums, decline_p, resample_means, resample_sums, two_sided_p

__all__ = [
    "CometScorer",
    "Score",
    "SegmentScorer",
    "SegmentScores",
    "SystemScore",
    "bleu_of_sums",
    "decline_p",
    "evaluate_files",
    "evaluate_systems",
    "resample_means",
    "resample_sums",
    "share_at_least",
    "two_sided_p",
]
