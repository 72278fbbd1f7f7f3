"""Screening pairs of vectors by their first principal components.

A PCA rotation moves most of the variance into the first dimensions. The distance of two vectors is at least that of
their leading components, so a product of narrow matrices rules out nearly all pairs that are farther apart than a
threshold. The remaining pairs must be computed from whole vectors. Rounding errors are bounded, so no pair within its
threshold is ruled out. Knows nothing of known and unknown entries.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.distances import EPSILON, CenteredVectors, product_error, sum_error

_WIDTHS = (16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128)
_TRAINING_ROWS = 20_000
_ROWS_AT_ONCE = 8192
_PAIRS_AT_ONCE = 1024  # pairs of projections that stay in the cache of a core
# Measured costs in units of one multiplication: of a pair that passes, and of any pair in addition to its product.
_COST_OF_PASSING = 6_000.0
_COST_OF_PAIR = 12.0

_ROWS_TRIED, _COLUMNS_TRIED = 64, 2048
# The computed rotation is not exactly orthonormal; its error is far smaller than this.
_STRETCH = 1 + 1e-5


def find_rotation(
    keys: CenteredVectors, rows: int, rng: np.random.Generator
) -> torch.Tensor:  # (dimension, components)
    """Return the first principal components of a sample of the keys, one in each column."""
    drawn = np.sort(rng.choice(rows, size=min(rows, _TRAINING_ROWS), replace=False)).astype(np.int64)
    sample = keys.gather(drawn)
    vectors: torch.Tensor = torch.linalg.eigh((sample.T @ sample).double()).eigenvectors
    return vectors.flip(1)[:, : _WIDTHS[-1]].float().contiguous()


class Projections:
    """The leading components of vectors, in memory.

    :param order: Row numbers of the vectors. Positions below are positions in this order.
    """

    def __init__(self, vectors: CenteredVectors, order: NDArray[np.int64], rotation: torch.Tensor) -> None:
        self.order, self._vectors = order, vectors
        self.components = rotation.shape[1]
        self._rows = torch.empty(len(order), self.components)
        self._lengths = torch.empty(len(order))
        for start in range(0, len(order), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            some = vectors.gather(order[part])
            torch.mm(some, rotation, out=self._rows[part])
            torch.linalg.vector_norm(some, dim=1, out=self._lengths[part])
        self.longest = float(self._lengths.max()) if len(order) else 0.0

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of leading components that may be compared; the last is the whole vector."""
        dimension, most = self._vectors.dimension, self.components
        return (*(width for width in _WIDTHS if width < most), most, *([dimension] if most < dimension else []))

    def left_side(self, part: slice, width: int, thresholds: NDArray[np.float64], longest: float) -> torch.Tensor:
        """Return a matrix whose product with a :meth:`right_side` is negative only for pairs that are ruled out.

        :param thresholds: Squared distance of each row within which pairs must pass.
        :param longest: Length of the longest vector on the right side.
        """
        left = torch.empty(part.stop - part.start, width + 2)
        left[:, :width] = self._leading(part, width)
        half = (self.radius(part, width, thresholds, longest) - left[:, :width].square().sum(1)) / 2
        reach = (self._lengths[part].double() + longest).square()
        left[:, width] = half + product_error(width) * (reach + half.abs())
        left[:, width + 1] = 1
        return left

    def right_side(self, part: slice, width: int) -> torch.Tensor:
        """Return the right side of a product: half of the threshold minus the distance of the leading components."""
        right = torch.empty(part.stop - part.start, width + 2)
        right[:, :width] = self._leading(part, width)
        right[:, width] = 1
        torch.sum(right[:, :width].square(), 1, out=right[:, width + 1]).mul_(-0.5)
        return right

    def radius(
        self, part: slice | NDArray[np.int64], width: int, thresholds: NDArray[np.float64], longest: float
    ) -> torch.Tensor:
        """Return the largest squared distance of leading components whose vectors may be within the threshold."""
        whole = width == self._vectors.dimension > self.components
        # A component is a float32 sum of `dimension` products; a whole vector is only centered.
        error = 8 * EPSILON if whole else width**0.5 * sum_error(self._vectors.dimension)
        blur = error * (self._lengths[part].double() + longest)
        return (torch.from_numpy(thresholds).sqrt() * _STRETCH + blur).square()

    def distances(
        self, positions: NDArray[np.int64], other: Projections, others: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return squared distances of all components, pair by pair."""
        distances = np.empty(len(positions), np.float32)
        for start in range(0, len(positions), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            difference = self._rows.numpy().take(positions[part], axis=0)
            difference -= other._rows.numpy().take(others[part], axis=0)
            np.einsum("pd,pd->p", difference, difference, out=distances[part])
        return distances

    def best_width(
        self, part: slice, thresholds: NDArray[np.float64], other: Projections, sample: NDArray[np.int64]
    ) -> int:
        """Choose the width with the lowest cost on a sample: wider products let fewer pairs pass."""
        tried = np.linspace(part.start, part.stop - 1, min(_ROWS_TRIED, part.stop - part.start)).astype(np.int64)
        costs: list[float] = []
        for width in self.widths:
            if costs and width >= min(costs):
                break  # the product alone costs more
            rows, columns = self._leading(tried, width), other._leading(sample, width)
            distances = torch.cdist(rows, columns).square()
            radius = self.radius(tried, width, thresholds[tried - part.start], other.longest)
            passing = float((distances <= radius.unsqueeze(1)).double().mean())
            costs.append(width + _COST_OF_PAIR + _COST_OF_PASSING * passing)
        return self.widths[int(np.argmin(costs))]

    def _leading(self, part: slice | NDArray[np.int64], width: int) -> torch.Tensor:
        if width <= self.components:
            return self._rows[part, :width]
        return self._vectors.gather(self.order[part])


def draw_columns(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the sample of positions for :meth:`Projections.best_width`."""
    return np.sort(rng.choice(count, size=min(count, _COLUMNS_TRIED), replace=False)).astype(np.int64)


class Screen:
    """Multiplies blocks of projections and finds the pairs that pass. Reuses its buffers."""

    def __init__(self, rows: int, columns: int) -> None:
        self._products = torch.empty(rows * columns)
        self._passing = np.empty(rows * columns, dtype=np.bool_)

    def passing(self, left: torch.Tensor, right: torch.Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the row in ``left`` and the row in ``right`` of each pair that is not ruled out."""
        pairs = len(left) * len(right)
        products = self._products[:pairs]
        torch.mm(left, right.T, out=products.view(len(left), len(right)))
        np.greater_equal(products.numpy(), 0, out=self._passing[:pairs])
        row, column = np.divmod(np.flatnonzero(self._passing[:pairs]), len(right))
        return row, column
