"""Paired bootstrap resampling on sufficient statistics, to test differences in score.

This module works on numbers only, without text or a metric library. A corpus score is a function of sums over segments,
so a resampled corpus needs no rescoring: draw how often each segment occurs, multiply by the matrix of statistics, and
score the sums of all samples at once. The draws are those of sacreBLEU for the same seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import SettingError

Floats = NDArray[np.float64]

SAMPLES = 1000  # as in sacreBLEU, like the seed, so that the p-values are equal
SEED = 12345
ORDERS = 4  # longest n-gram of BLEU
BLEU_COLUMNS = 2 + 2 * ORDERS  # system length, reference length, matches per order, n-grams per order

_CELLS = 4_000_000  # draws per block: 32 MB of indices, whatever the size of the test set


def resample_sums(statistics: NDArray[Any], samples: int = SAMPLES, seed: int = SEED) -> Floats:
    """Sum the statistics of segments over corpora drawn with replacement.

    All columns are resampled in the same way; columns of several systems side by side make the test paired.

    :param statistics: One row per segment; any columns that add up over segments.
    :param samples: Number of corpora to draw, each of the size of the original.
    :param seed: Seed of the draws.
    :return: One row of sums per sample.
    """
    check_draws(samples, seed)
    segments, columns = statistics.shape
    matrix = statistics.astype(np.float64)
    rng = np.random.default_rng(seed)
    sums = np.empty((samples, columns))
    block = max(1, _CELLS // max(segments, 1))
    for start in range(0, samples, block):
        # Drawing in blocks continues one stream, so the draws are those of a single call.
        rows = min(block, samples - start)
        drawn = rng.choice(segments, size=(rows, segments), replace=True)
        drawn += np.arange(rows)[:, None] * segments
        counts = np.bincount(drawn.ravel(), minlength=rows * segments).reshape(rows, segments)
        sums[start : start + rows] = counts.astype(np.float64) @ matrix
    return sums


def resample_means(scores: NDArray[Any], samples: int = SAMPLES, seed: int = SEED) -> Floats:
    """Average segment scores over the corpora that :func:`resample_sums` draws.

    :param scores: One row per segment, one column per system.
    :return: One row of means per sample.
    """
    return resample_sums(scores, samples, seed) / len(scores)


def check_draws(samples: int, seed: int) -> None:
    """Check the bootstrap settings; called before slow work."""
    if samples < 1:
        raise SettingError(f"samples: got {samples}; allowed is 1 or more; {SAMPLES} is usual")
    if seed < 0:
        raise SettingError(f"seed: got {seed}; allowed is 0 or more")


def bleu_of_sums(sums: NDArray[Any]) -> Floats:
    """Compute corpus BLEU with exponential smoothing from each row of summed statistics.

    Precisions are float32 as in the bootstrap of sacreBLEU, because near a tie this decides the p-value.

    :param sums: Rows of ``BLEU_COLUMNS`` sums: system length, reference length, matches and n-grams of orders 1 to 4.
    """
    lengths, references = sums[:, 0].astype(np.float64), sums[:, 1].astype(np.float64)
    correct = sums[:, 2 : 2 + ORDERS].astype(np.float32)
    total = sums[:, 2 + ORDERS : BLEU_COLUMNS].astype(np.float32)
    # Each order without a match halves the smoothing value of the one before (Chen and Cherry, 2014, method 3).
    halvings = np.cumsum(correct == 0, axis=1).astype(np.float32)
    smoothing = np.exp2(halvings)
    hundred = np.float32(100)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(correct == 0, hundred / (smoothing * total), hundred * correct / total)
        mean_log = np.log(precision.astype(np.float64)).sum(axis=1) / ORDERS
        brevity = np.where(lengths < references, np.exp(1 - references / lengths), 1.0)
        scores: Floats = brevity * np.exp(mean_log)
    undefined = (total == 0).any(axis=1) | (correct == 0).all(axis=1)
    scores[undefined] = 0.0
    return scores


def two_sided_p(baseline: Floats, system: Floats, difference: float) -> float:
    """Test whether two systems differ, as ``sacrebleu --paired-bs`` does.

    The differences of the samples minus their mean estimate the null distribution; the p-value is the share of them
    beyond the real difference. One change: if no sample shows any difference, p is 1; in sacreBLEU it is
    1 / (samples + 1), by which a system is significantly different from itself.

    :param baseline: Scores of the first system, one per sample.
    :param system: Scores of the other system on the same samples.
    :param difference: Difference of the scores on the whole test set, of either sign.
    """
    differences = np.abs(system - baseline)
    if not differences.any():
        return 1.0
    beyond = int(np.count_nonzero(differences - differences.mean() > abs(difference)))
    return (beyond + 1) / (len(differences) + 1)


def decline_p(baseline: Floats, system: Floats) -> float:
    """Test whether ``system`` is worse than ``baseline``: the share of samples in which it is not (Koehn, 2004).

    Below 0.05 the decline is significant; near 1 the system is better or equal.

    :param baseline: Scores of the first system, one per sample; higher is better.
    :param system: Scores of the other system on the same samples.
    """
    return float(np.mean(system >= baseline))
