"""Logistic regression by Newton's method, for a few features. Numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

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
