"""Codes: leading components of vectors, rounded to int8, whose products rule out pairs of distant vectors.

The distance of two vectors is at least that of their leading components together with the lengths of the rest, and that
is at least the distance of the rounded ones minus the two rounding errors, which are known. Products of codes are sums
of integers: exact in any order, and several times as fast as float32 where the processor has instructions for them.
Elsewhere they are computed in float32, with the same result. Knows nothing of stores.
"""

from __future__ import annotations

import timeit
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.distances import EPSILON, CenteredVectors
from lacuna.workers import WorkerPool, one_thread

# Numbers of leading components. Up to 768, sums of products are below 2^24, where float32 is exact, too.
WIDTHS = (32, 64, 128, 256, 512, 768)
ROWS_AT_ONCE = 1024  # rows that stay in the cache of a core

# Allows for rounding in float32 or float64, where it is far smaller than this.
_STRETCH = 1 + 1e-5

# Measured costs in nanoseconds: of a pair that passes; of a new code for each dimension of its vector; and for each
# dimension and component.
PASSING_COST, READING_COST, ENCODING_COST = 700.0, 4.5, 0.055

_MAX_CODE = 127  # of int8, in both directions
_MAX_SQUARE = _MAX_CODE**2


@dataclass(frozen=True, eq=False)
class Codes:
    """Vectors in int8.

    :param right: The right side of a product: codes, and digits of half their squared length. # (rows, columns)
    :param squares: Squared lengths of the codes.
    :param errors: Distances of the codes from the components, with ``step`` as unit.
    :param lengths: Lengths of the vectors.
    """

    right: torch.Tensor
    squares: NDArray[np.int64]
    errors: NDArray[np.float64]
    lengths: NDArray[np.float64]

    def __getitem__(self, ids: NDArray[np.int64] | slice) -> Codes:
        right = self.right[ids if isinstance(ids, slice) else torch.from_numpy(ids)]
        return Codes(right, self.squares[ids], self.errors[ids], self.lengths[ids])


class Coder:
    """Rounds the leading components of vectors to int8, with one unit for all.

    Components are turned at random first, so that all have about the same variance. The length of the rest is one more
    component: two rests are at least as far apart as their lengths. Vectors that do not fit become zeros, which pass
    with every other vector.

    :param rotation: All principal components, in float64. # (dimension, dimension)
    :param width: Number of leading components.
    :param sample: Vectors like those that will be rounded.
    """

    def __init__(self, rotation: torch.Tensor, width: int, sample: torch.Tensor, rng: np.random.Generator) -> None:
        self.width = width
        turn: torch.Tensor = torch.linalg.qr(torch.from_numpy(rng.normal(size=(width, width)))).Q
        self._directions = rotation[:, :width] @ turn
        self._length = width + (width < len(rotation))  # of a code
        self._usual_rest = 0.0
        values = self._values(sample)
        if self._length > width:
            self._usual_rest = float(values[:, -1].mean())
            values[:, -1] -= self._usual_rest
        largest = float(values.abs().max()) if len(values) else 0.0
        self._step = (largest or 1.0) / _MAX_CODE
        _, squares, errors = self._rounded(values)
        self._max_error = 1.05 * float(errors.max(initial=0.0))
        halves = squares // 2
        low, high = int(halves.min(initial=0)), int(halves.max(initial=0))
        # Half the squared length of a code, minus the middle, in digits of 127; and the same for the threshold.
        self._middle = (low + high) // 2
        self._digits = (high - low) // (2 * _MAX_SQUARE) + 1
        self._threshold_digits = (high + self._middle) // _MAX_SQUARE + 1

    @property
    def columns(self) -> int:
        """Number of columns of a matrix in a product."""
        return self._length + self._digits + self._threshold_digits + 2

    def encode(self, vectors: torch.Tensor) -> Codes:
        """Round vectors."""
        codes, squares, errors = self._rounded(self._values(vectors))
        halves = squares // 2 - self._middle
        right = torch.empty(len(codes), self.columns, dtype=torch.int8)
        right[:, : self._length] = codes
        end = self._length + self._digits + 1
        right[:, self._length : end] = _digits(halves, self._digits)
        right[:, end:] = _MAX_CODE
        right[:, -1] = 1
        fits = (errors <= self._max_error) & (halves >= -_MAX_SQUARE * self._digits)
        right[torch.from_numpy(~fits)] = 0
        return Codes(right, squares, errors, torch.linalg.vector_norm(vectors, dim=1).double().numpy())

    def encode_all(self, vectors: CenteredVectors, rows: int) -> Codes:
        """Round all of a store's keys."""
        right = torch.empty(rows, self.columns, dtype=torch.int8)
        columns = np.empty(rows, np.int64), np.empty(rows), np.empty(rows)

        def encode(start: int) -> Codes:
            return self.encode(vectors.gather(np.arange(start, min(rows, start + ROWS_AT_ONCE))))

        starts = range(0, rows, ROWS_AT_ONCE)
        for start, block in zip(starts, WorkerPool.of_process().map(encode, starts), strict=True):
            part = slice(start, start + ROWS_AT_ONCE)
            right[part] = block.right
            for column, values in zip(columns, (block.squares, block.errors, block.lengths), strict=True):
                column[part] = values
        return Codes(right, *columns)

    def scored(self, codes: Codes, ids: NDArray[np.int64]) -> torch.Tensor:
        """Return the right side of scores: codes, and digits of half their squared length."""
        return codes.right[:, : self._length + self._digits + 1][torch.from_numpy(ids)]

    def scoring(self, scored: torch.Tensor) -> torch.Tensor:
        """Return the left side of scores: a product with the right side is the larger, the nearer two codes are.

        Vectors that do not fit have distant codes.
        """
        left = scored.clone()
        left[:, self._length :] = -_MAX_CODE
        left[:, -1] = -1
        return left

    def left_side(self, codes: Codes, radius: NDArray[np.float64], max_length: float) -> torch.Tensor:
        """Return a matrix whose product with the right side of codes is negative only for pairs that are ruled out.

        :param radius: Squared distance of each row within which pairs must pass.
        :param max_length: Length of the longest vector on the right side.
        """
        # Vectors are centered in float32, and their components computed in float64.
        blur = 16 * EPSILON * (codes.lengths + max_length)
        reach = (np.sqrt(radius) * _STRETCH + blur) / self._step
        largest = (reach + codes.errors + self._max_error) ** 2
        # The product of two codes must be at least half of: both squared lengths minus this squared distance.
        needed = np.floor((codes.squares - largest * (1 + 1e-9)) / 2) - 1 + self._middle
        fits = needed >= -float(_MAX_SQUARE * self._threshold_digits)
        left = torch.empty_like(codes.right)
        left[:, : self._length] = codes.right[:, : self._length]
        end = self._length + self._digits + 1
        left[:, self._length : end] = -_MAX_CODE
        left[:, end - 1] = -1
        left[:, end:] = -_digits(np.where(fits, needed, 0).astype(np.int64), self._threshold_digits)
        left[torch.from_numpy(~fits)] = 0
        left[codes.right[:, -1] == 0] = 0
        return left

    def _values(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the leading components, turned, and the length of the rest, if there is any."""
        wide = vectors.double()
        leading = wide @ self._directions
        if self._length == self.width:
            return leading
        rest = (wide.square().sum(1) - leading.square().sum(1)).clamp_(min=0).sqrt()
        return torch.column_stack([leading, rest - self._usual_rest])

    def _rounded(self, values: torch.Tensor) -> tuple[torch.Tensor, NDArray[np.int64], NDArray[np.float64]]:
        scaled = values / self._step
        codes = scaled.round().clamp_(-_MAX_CODE, _MAX_CODE)
        errors = torch.linalg.vector_norm(scaled - codes, dim=1).numpy() * _STRETCH
        return codes.to(torch.int8), codes.square().sum(1).numpy().astype(np.int64), errors


def _digits(values: NDArray[np.int64], count: int) -> torch.Tensor:  # (values, count + 1), int8
    """Return digits whose sum, all but the last times 127, is the value; or less, if the value is too large."""
    digits, rest = np.empty((len(values), count + 1), np.int8), values.copy()
    for digit in range(count):
        digits[:, digit] = np.clip(np.rint(rest / _MAX_CODE), -_MAX_CODE, _MAX_CODE)
        rest -= digits[:, digit].astype(np.int64) * _MAX_CODE
    digits[:, count] = np.clip(rest, -_MAX_CODE, _MAX_CODE)
    return torch.from_numpy(digits)


@one_thread()
def make_coders(rotation: torch.Tensor, sample: torch.Tensor, rng: np.random.Generator) -> list[Coder]:
    """Return coders with more and more leading components."""
    dimension = len(rotation)
    narrow = [width for width in WIDTHS if width < dimension]
    widths = [*narrow, dimension] if dimension <= WIDTHS[-1] else narrow
    return [Coder(rotation, width, sample, rng) for width in widths]


def product_cost(columns: int) -> float:
    """Return the nanoseconds for one element of a product with this number of columns, and for comparing it with 0."""
    return 0.12 + (0.0048 if has_fast_int8() else 0.02) * columns


@cache
def has_fast_int8() -> bool:
    """Return whether int8 products are faster than those in float32; both give the same."""
    left, right = torch.ones(512, 128, dtype=torch.int8), torch.ones(512, 128, dtype=torch.int8)
    products = (partial(product, left, right) for product in (_int8_product, _float32_product))
    int8, float32 = (min(timeit.repeat(product, number=1, repeat=4)) for product in products)
    return int8 < float32


def _int8_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch._int_mm(left, right.T)


def _float32_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.mm(left.float(), right.float().T)


def product(left: torch.Tensor, right: torch.Tensor) -> NDArray[Any]:  # (left, right)
    """Return the products of rows: integers, as int32 or float32."""
    return np.asarray((_int8_product if has_fast_int8() else _float32_product)(left, right).numpy())


def passing(left: torch.Tensor, right: torch.Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row in ``left`` and the row in ``right`` of each pair that is not ruled out."""
    row, column = np.divmod(np.flatnonzero(product(left, right).ravel() >= 0), len(right))
    return row, column
