"""Tests of non-inferiority: that a system is worse than another one by less than a stated margin.

A decline that is not significant does not show that there is none: with few sentences, no decline is significant. This
test turns the question around. The system passes if the lower bound of the confidence interval of the difference is
above the margin, so few sentences make it fail, and more sentences let it pass. BLEU and chrF must both pass. Knows
nothing of pruning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import SettingError
from lacuna.evaluation.scores import LEVEL, bleu_statistics
from lacuna.evaluation.significance import SAMPLES, SEED, Floats, bleu_of_sums, resample_sums

_CHRF_ORDERS, _BETA = 6, 2  # as chrF2 of sacreBLEU


@dataclass(frozen=True, slots=True)
class NonInferiority:
    """The test of one metric.

    :param metric: ``BLEU`` or ``chrF2``.
    :param baseline: Score of the other system.
    :param score: Score of the system.
    :param lowest: Lower bound of the difference in score, one-sided, with 95 % confidence.
    :param max_drop: The margin: the largest drop that is accepted.
    """

    metric: str
    baseline: float
    score: float
    lowest: float
    max_drop: float

    @property
    def holds(self) -> bool:
        """Whether the system is worse by less than the margin, with 95 % confidence."""
        return self.lowest > -self.max_drop


class SampledScore(NamedTuple):
    """A corpus score, and the scores of the bootstrap samples of the same corpus."""

    value: float
    samples: Floats


def measure_drops(
    references: Sequence[str],
    baseline: Sequence[str],
    lines: Sequence[str],
    *,
    max_drop: float,
    target_language: str | None = None,
) -> tuple[NonInferiority, NonInferiority]:
    """Test BLEU and chrF by a paired bootstrap over sentences.

    :param baseline: Translations of the system to compare with.
    :param lines: Translations of the system that may be worse.
    :param max_drop: Largest drop that is accepted, in points of BLEU and of chrF.
    """
    check_drop(max_drop)
    bleu = [sample_bleu(references, each, target_language) for each in (baseline, lines)]
    chrf = [sample_chrf(references, each) for each in (baseline, lines)]
    return _compared("BLEU", bleu[0], bleu[1], max_drop), _compared("chrF2", chrf[0], chrf[1], max_drop)


def check_drop(max_drop: float) -> None:
    """Check the margin; called before slow work."""
    if not 0 < max_drop <= 100:
        raise SettingError(f"max_drop: got {max_drop:g}; allowed is a number of points above 0; 1 is usual")


def upper_bound(samples: Floats, level: float = LEVEL) -> float:
    """Return the smallest sample that a share of at least ``1 - level`` of the samples does not exceed."""
    # The tolerance is for products such as 0.95 * 1000, which may be just above the whole number.
    rank = int(np.ceil((1 - level) * len(samples) - 1e-9))
    return float(np.sort(samples)[max(rank, 1) - 1])


def sample_bleu(references: Sequence[str], lines: Sequence[str], target_language: str | None = None) -> SampledScore:
    """Score a corpus and its bootstrap samples with BLEU."""
    return _sampled(bleu_statistics(references, lines, target_language), bleu_of_sums)


def sample_chrf(
    references: Sequence[str], lines: Sequence[str], *, samples: int = SAMPLES, seed: int = SEED
) -> SampledScore:
    """Score a corpus and its bootstrap samples with chrF2."""
    statistics = np.array([_chrf_statistics(*each) for each in zip(references, lines, strict=True)])
    return _sampled(statistics, chrf_of_sums, samples, seed)


def _sampled(
    statistics: NDArray[np.int64], score: Callable[[Floats], Floats], samples: int = SAMPLES, seed: int = SEED
) -> SampledScore:
    whole = score(statistics.sum(axis=0, keepdims=True).astype(np.float64))[0]
    return SampledScore(float(whole), score(resample_sums(statistics, samples, seed)))


def chrf_of_sums(sums: Floats) -> Floats:
    """Compute corpus chrF2 from each row of summed statistics: n-grams of the line, of the reference, and matches."""
    ours, theirs, matches = np.moveaxis(sums.reshape(len(sums), _CHRF_ORDERS, 3), 2, 0)
    counted = (ours > 0) & (theirs > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision = np.divide(matches, ours, out=np.zeros_like(matches), where=counted).sum(axis=1) / orders
    recall = np.divide(matches, theirs, out=np.zeros_like(matches), where=counted).sum(axis=1) / orders
    below = _BETA**2 * precision + recall
    score: Floats = np.zeros(len(sums))
    np.divide((1 + _BETA**2) * precision * recall, below, out=score, where=below > 0)
    return 100 * score


def _chrf_statistics(reference: str, line: str) -> list[int]:
    row: list[int] = []
    for order in range(1, _CHRF_ORDERS + 1):
        theirs, ours = _ngrams(reference, order), _ngrams(line, order)
        # As sacreBLEU: n-grams of the line do not count where the reference is too short to have any.
        row += [ours.total() if theirs else 0, theirs.total(), (ours & theirs).total()]
    return row


def _ngrams(text: str, order: int) -> Counter[str]:
    joined = "".join(text.split())
    return Counter(joined[start : start + order] for start in range(len(joined) - order + 1))


def _compared(metric: str, baseline: SampledScore, system: SampledScore, max_drop: float) -> NonInferiority:
    drop = upper_bound(baseline.samples - system.samples)
    return NonInferiority(metric, baseline.value, system.value, 0.0 - drop, max_drop)
