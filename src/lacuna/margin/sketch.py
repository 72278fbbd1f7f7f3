"""Sketches: the first few principal components of each key, and what they prove about distances.

Turned so that the leading numbers hold most of the variance, two keys whose first numbers are far apart are at least
as far apart as a whole. So a product of narrow matrices rules out nearly all pairs; what it lets pass must be looked
at more closely. Nothing nearer than its threshold is ever ruled out: every rounding is allowed for. Knows nothing of
known and unknown entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.margin.points import EPSILON, Centered

_WIDTHS = (16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128)
_TRAINING_ROWS = 20_000
_ROWS_AT_ONCE = 8192
_PAIRS_AT_ONCE = 1024  # of whole sketches: what stays in the cache of a core
# What a pair that passes costs, and what a pair costs apart from the product, in numbers multiplied.
_COST_OF_PASSING = 6_000.0
_COST_OF_PAIR = 12.0

_ROWS_TRIED, _COLUMNS_TRIED = 64, 2048
# The components are computed, so not quite at right angles and not quite of length one: far less off than this.
_STRETCH = 1 + 1e-5


@dataclass(frozen=True)
class Basis:
    """Principal components.

    :param vectors: One in each column, the strongest first. # (dimension, widest)
    """

    vectors: torch.Tensor

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """How many of the leading numbers may be compared: some, all of a sketch, or last the whole keys."""
        dimension, widest = self.vectors.shape
        return (*(width for width in _WIDTHS if width < widest), widest, *([dimension] if widest < dimension else []))


def find_basis(keys: Centered, rows: int, rng: np.random.Generator) -> Basis:
    """Find the principal components of a sample."""
    drawn = np.sort(rng.choice(rows, size=min(rows, _TRAINING_ROWS), replace=False)).astype(np.int64)
    sample = keys.gather(drawn)
    _, vectors = torch.linalg.eigh((sample.T @ sample).double())
    return Basis(vectors.flip(1)[:, : _WIDTHS[-1]].float().contiguous())


class Sketch:
    """Sketches of points in an order of one's choice.

    :param order: Which points, in which order; positions below are places in it.
    """

    def __init__(self, keys: Centered, order: NDArray[np.int64], basis: Basis) -> None:
        self.basis, self.order, self._keys = basis, order, keys
        self._rows = torch.empty(len(order), basis.vectors.shape[1])
        self._lengths = torch.empty(len(order))
        for start in range(0, len(order), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            points = keys.gather(order[part])
            torch.mm(points, basis.vectors, out=self._rows[part])
            torch.linalg.vector_norm(points, dim=1, out=self._lengths[part])
        self.longest = float(self._lengths.max()) if len(order) else 0.0

    def rows(self, part: slice, width: int, thresholds: NDArray[np.float64], longest: float) -> torch.Tensor:
        """Return the left side of a product with :meth:`columns` that is negative only for pairs ruled out.

        :param thresholds: How far the other point of a pair may be.
        :param longest: Length of the longest point on the other side.
        """
        left = torch.empty(part.stop - part.start, width + 2)
        left[:, :width] = self._leading(part, width)
        half = (self.radius(part, width, thresholds, longest) - left[:, :width].square().sum(1)) / 2
        rounding = (width + 16) * EPSILON * ((self._lengths[part].double() + longest).square() + half.abs())
        left[:, width] = half + rounding
        left[:, width + 1] = 1
        return left

    def columns(self, part: slice, width: int) -> torch.Tensor:
        """Return the right side: a product is half of what is left of the threshold after the sketch's distance."""
        right = torch.empty(part.stop - part.start, width + 2)
        right[:, :width] = self._leading(part, width)
        right[:, width] = 1
        torch.sum(right[:, :width].square(), 1, out=right[:, width + 1]).mul_(-0.5)
        return right

    def radius(
        self, part: slice | NDArray[np.int64], width: int, thresholds: NDArray[np.float64], longest: float
    ) -> torch.Tensor:
        """Return how far apart the leading numbers may be if the points themselves are within the threshold."""
        # A number of a sketch is a sum of `dimension` products, each rounded (Higham 2002, section 3.1), taken twofold.
        terms = 8 if width == self._keys.dimension > len(self._rows.T) else width**0.5 * (self._keys.dimension + 8)
        blur = terms * EPSILON * (self._lengths[part].double() + longest)
        return (torch.from_numpy(thresholds).sqrt() * _STRETCH + blur).square()

    def distances(self, positions: NDArray[np.int64], other: Sketch, others: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return squared distances between whole sketches, pair by pair."""
        distances = np.empty(len(positions), np.float32)
        for start in range(0, len(positions), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            difference = self._rows.numpy().take(positions[part], axis=0)
            difference -= other._rows.numpy().take(others[part], axis=0)
            np.einsum("pd,pd->p", difference, difference, out=distances[part])
        return distances

    def best_width(self, part: slice, thresholds: NDArray[np.float64], other: Sketch, sample: NDArray[np.int64]) -> int:
        """Weigh the work of wider products against that of more pairs that pass, on a sample."""
        tried = np.linspace(part.start, part.stop - 1, min(_ROWS_TRIED, part.stop - part.start)).astype(np.int64)
        costs: list[float] = []
        for width in self.basis.widths:
            if costs and width >= min(costs):
                break  # the product alone costs more
            rows, columns = self._leading(tried, width), other._leading(sample, width)
            apart = torch.cdist(rows, columns).square()
            radius = self.radius(tried, width, thresholds[tried - part.start], other.longest)
            passing = float((apart <= radius.unsqueeze(1)).double().mean())
            costs.append(width + _COST_OF_PAIR + _COST_OF_PASSING * passing)
        return self.basis.widths[int(np.argmin(costs))]

    def _leading(self, part: slice | NDArray[np.int64], width: int) -> torch.Tensor:
        if width <= self._rows.shape[1]:
            return self._rows[part, :width]
        return self._keys.gather(self.order[part])


def draw_columns(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw positions for :meth:`Sketch.best_width`."""
    return np.sort(rng.choice(count, size=min(count, _COLUMNS_TRIED), replace=False)).astype(np.int64)


class Screen:
    """Multiplies blocks of sketches, and finds what passes; its memory is used again and again."""

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
