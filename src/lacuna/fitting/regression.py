"""Isotonic and logistic regression, and how well probabilities are calibrated. Numbers only."""

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


_ROUNDS = 30
# Keeps the weights finite where the features part right from wrong without fail; moves nothing where there is data.
_RIDGE = 1e-3


def fit_logistic(features: Floats, outcomes: NDArray[Any]) -> Floats:
    """Find the weights of features, and the constant behind them, that make the outcomes most probable.

    :param features: (observations, features).
    :param outcomes: 0 or 1: (observations,).
    """
    columns = np.column_stack([features, np.ones(len(features))])
    weights = np.zeros(columns.shape[1])
    for _ in range(_ROUNDS):
        p = 1 / (1 + np.exp(-np.clip(columns @ weights, -30, 30)))
        gradient = columns.T @ (outcomes - p) - _RIDGE * weights
        curvature = (columns * (p * (1 - p))[:, None]).T @ columns + _RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curvature, gradient)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return weights


_BINS = 15  # as Guo et al. (2017) have them


def calibration_error(probabilities: NDArray[Any], right: NDArray[Any]) -> float:
    """Return the expected calibration error: in bins of equal width, how far mean probability and share right part.

    Bins count by the observations in them; 0 is perfect.
    """
    place = np.minimum((probabilities * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(place, weights=probabilities - right.astype(np.float64), minlength=_BINS)
    return float(np.abs(gaps).sum() / len(probabilities))


def brier_score(probabilities: NDArray[Any], right: NDArray[Any]) -> float:
    """Return the mean squared difference from what came true; less is better, and guessing one half gives 0.25."""
    return float(np.mean((probabilities - right.astype(np.float64)) ** 2))
