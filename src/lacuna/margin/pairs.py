"""Distances of single pairs, by difference: quick ones that are nearly right, and slow ones that decide.

A difference of two keys keeps its digits however long the keys are, which a matrix product does not; so the quick
distance is off by a known, small share of itself, and only pairs closer to a threshold than that are computed again
in float64. Knows nothing of which pairs matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lacuna.margin.points import EPSILON, Points, wide

# What is computed at once should stay in a core's cache.
_PAIRS_AT_ONCE = 1024


class PairDistances:
    """Squared distances between points on the left and points on the right, pair by pair.

    :param left: Where the first of each pair is found.
    :param right: Where the second is found.
    """

    def __init__(self, left: Points, right: Points) -> None:
        self._left, self._right = left, right
        # Twice the bound for a sum of squares in float32, whatever the order of its terms (Higham 2002, section 3.1).
        self.relative_error = (left.dimension + 8) * EPSILON

    def quick(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float32]:
        """Compute in float32; off by at most ``relative_error`` of the distance."""
        distances = np.empty(len(left), np.float32)
        for start in range(0, len(left), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            difference = wide(self._left.gather(left[part])).sub_(wide(self._right.gather(right[part]))).numpy()
            distances[part] = np.einsum("pd,pd->p", difference, difference)
        return distances

    def exact(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute in float64; equal pairs of points have equal distances."""
        distances = np.empty(len(left), np.float64)
        for start in range(0, len(left), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            difference = self._left.gather(left[part]).astype(np.float64)
            difference -= self._right.gather(right[part])
            distances[part] = np.einsum("pd,pd->p", difference, difference)
        return distances

    def below(
        self,
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        quick: NDArray[np.float32],
        thresholds: NDArray[np.float64],
    ) -> NDArray[np.bool_]:
        """Tell which pairs are truly nearer than their thresholds, given their quick distances."""
        nearer: NDArray[np.bool_] = quick < thresholds
        doubtful = np.flatnonzero(np.abs(quick - thresholds) <= self.relative_error * thresholds)
        nearer[doubtful] = self.exact(left[doubtful], right[doubtful]) < thresholds[doubtful]
        return nearer
