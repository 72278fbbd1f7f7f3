"""How well probabilities keep what they promise. Numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
