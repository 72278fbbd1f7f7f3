"""Isotonic regression: the nondecreasing table that comes nearest to what was seen. Numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A point of the table stands for at least so many observations where there are many: fewer are mostly noise.
_MOST_POINTS = 100


def pool_adjacent_violators(values: Floats, weights: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Find the nondecreasing sequence with the least weighted squared distance to the values.

    Blocks of values that fall are replaced by their mean until none falls.

    :param weights: Above 0.
    :return: The sequence as blocks: the mean of each, and where each begins.
    """
    means: list[float] = []
    totals: list[float] = []
    starts: list[int] = []
    for place, (mean, total) in enumerate(zip(values.tolist(), weights.tolist(), strict=True)):
        start = place
        while means and means[-1] >= mean:
            before = totals.pop()
            mean = (means.pop() * before + mean * total) / (before + total)
            total += before
            start = starts.pop()
        means.append(mean)
        totals.append(total)
        starts.append(start)
    return np.array(means), np.array(starts, np.int64)


def fit_table(scores: Floats, outcomes: NDArray[Any]) -> tuple[Floats, Floats]:
    """Fit a table of points, to be read by linear interpolation: scores that rise, and means that do not fall.

    :param scores: One per observation.
    :param outcomes: 0 or 1, or any number.
    """
    cuts = np.unique(np.quantile(scores, np.linspace(0, 1, _MOST_POINTS + 1)[1:-1]))
    group = np.searchsorted(cuts, scores)  # equal scores are never parted
    sizes = np.bincount(group, minlength=len(cuts) + 1).astype(np.float64)
    used = sizes > 0
    sums = (np.bincount(group, weights=column, minlength=len(sizes))[used] for column in (scores, outcomes))
    score_sums, outcome_sums = sums
    sizes = sizes[used]
    means, starts = pool_adjacent_violators(outcome_sums / sizes, sizes)
    return np.add.reduceat(score_sums, starts) / np.add.reduceat(sizes, starts), means
