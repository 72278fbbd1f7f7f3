"""Isotonic and logistic regression, and measures of calibration.

Arrays in, numbers out. Knows nothing of models and margins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Largest number of points of a fitted table: with few observations per point, they are mostly noise.
_MAX_POINTS = 100


def pool_adjacent_violators(values: Floats, weights: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Find the nondecreasing sequence with the least weighted squared distance to the values.

    Adjacent blocks that decrease are replaced by their mean until none does.

    :param weights: Positive.
    :return: The sequence as blocks: mean and first position of each.
    """
    means: list[float] = []
    totals: list[float] = []
    starts: list[int] = []
    for position, (mean, total) in enumerate(zip(values.tolist(), weights.tolist(), strict=True)):
        start = position
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
    """Fit a nondecreasing table by isotonic regression: rising scores and mean outcomes, to be interpolated linearly.

    :param scores: One per observation.
    :param outcomes: 0 or 1, or any number.
    """
    cuts = np.unique(np.quantile(scores, np.linspace(0, 1, _MAX_POINTS + 1)[1:-1]))
    group = np.searchsorted(cuts, scores)  # equal scores share a group
    sizes = np.bincount(group, minlength=len(cuts) + 1).astype(np.float64)
    used = sizes > 0
    sums = (np.bincount(group, weights=column, minlength=len(sizes))[used] for column in (scores, outcomes))
    score_sums, outcome_sums = sums
    sizes = sizes[used]
    means, starts = pool_adjacent_violators(outcome_sums / sizes, sizes)
    return np.add.reduceat(score_sums, starts) / np.add.reduceat(sizes, starts), means


_NEWTON_STEPS = 30
# Keeps the weights finite where the features separate the outcomes; negligible otherwise.
_RIDGE = 1e-3


def fit_logistic(features: Floats, outcomes: NDArray[Any]) -> Floats:
    """Return the maximum-likelihood weights of the features, followed by the intercept.

    :param features: (observations, features).
    :param outcomes: 0 or 1: (observations,).
    """
    columns = np.column_stack([features, np.ones(len(features))])
    weights = np.zeros(columns.shape[1])
    for _ in range(_NEWTON_STEPS):
        p = 1 / (1 + np.exp(-np.clip(columns @ weights, -30, 30)))
        gradient = columns.T @ (outcomes - p) - _RIDGE * weights
        curvature = (columns * (p * (1 - p))[:, None]).T @ columns + _RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curvature, gradient)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return weights


_BINS = 15  # as in Guo et al. (2017)


def calibration_error(probabilities: NDArray[Any], right: NDArray[Any]) -> float:
    """Return the expected calibration error, with bins of equal width; 0 is perfect.

    It is the mean over bins, weighted by size, of the difference between mean probability and accuracy.
    """
    bins = np.minimum((probabilities * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, weights=probabilities - right.astype(np.float64), minlength=_BINS)
    return float(np.abs(gaps).sum() / len(probabilities))


def brier_score(probabilities: NDArray[Any], right: NDArray[Any]) -> float:
    """Return the mean squared error of the probabilities; less is better, and 0.25 is the score of always 0.5."""
    return float(np.mean((probabilities - right.astype(np.float64)) ** 2))
