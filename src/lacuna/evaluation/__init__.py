"""How good translations are, and whether one system is better than another: BLEU, chrF, TER, paired bootstrap."""

from lacuna.evaluation.files import evaluate_files
from lacuna.evaluation.scores import Score, SystemScore
from lacuna.evaluation.significance import bleu_of_sums, decline_p, resample_sums, two_sided_p
from lacuna.evaluation.systems import evaluate_systems

__all__ = [
    "Score",
    "SystemScore",
    "bleu_of_sums",
    "decline_p",
    "evaluate_files",
    "evaluate_systems",
    "resample_sums",
    "two_sided_p",
]
