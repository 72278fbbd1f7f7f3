"""Squared L2 distances, bounds on their rounding errors, and the order of neighbors.

There are three ways to compute a distance. A float32 product of centered vectors is fast; its error is bounded by
:func:`product_error`. A float32 difference is off by a small share of the distance, :func:`sum_error`, however long
the vectors are. A float64 difference is slow and decides what the other two cannot.

Knows nothing of models and stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.base import MISSING, KeyColumn, Neighborhood

EPSILON = float(np.finfo(np.float32).eps)

# Pairs that are gathered at once, and pairs whose differences stay in the cache of a core.
_PAIRS_AT_ONCE, _PAIRS_IN_CACHE = 1024, 256


def sum_error(terms: int) -> float:
    """Bound the relative error of a float32 sum of squares or products.

    This is twice the bound of Higham (2002, section 3.1), which holds for any order of summation.
    """
    return (terms + 8) * EPSILON


def product_error(dimension: int) -> float:
    """Bound the error of a squared distance from a float32 product of centered vectors x and y.

    The result is a multiple of (|x| + |y|)^2. It covers the rounding of the centered vectors, of their squares and of
    the product.
    """
    return sum_error(dimension + 8)


class Vectors(Protocol):
    """Vectors by row number, such as the keys of a store."""

    @property
    def dimension(self) -> int: ...  # noqa: D102

    def gather(self, ids: NDArray[np.int64]) -> NDArray[Any]: ...  # noqa: D102


class VectorArray:
    """Vectors in memory.

    :param array: ``(n, dimension)``.
    """

    def __init__(self, array: NDArray[np.float32]) -> None:
        self._array = array
        self.dimension = array.shape[1]

    def gather(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of these rows."""
        return self._array[ids]


class SelectedVectors:
    """Some rows of other vectors.

    :param ids: The rows.
    """

    def __init__(self, vectors: Vectors, ids: NDArray[np.int64]) -> None:
        self._vectors, self._ids = vectors, ids

    @property
    def rows(self) -> int:
        """Number of vectors."""
        return len(self._ids)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._vectors.dimension

    def gather(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Return the vectors of these rows."""
        return self._vectors.gather(self._ids[ids])

    def blocks(self, rows: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield all vectors in order, as first row and block of at most ``rows`` vectors."""
        for start in range(0, len(self._ids), rows):
            yield start, self._vectors.gather(self._ids[start : start + rows])


class CenteredVectors:
    """Float32 vectors minus their mean. Shorter vectors make matrix products more precise.

    :param mean: Any vector is allowed; the mean gives the smallest errors.
    """

    def __init__(self, vectors: Vectors, mean: NDArray[np.float32]) -> None:
        self._vectors = vectors
        self._mean = torch.from_numpy(np.array(mean, dtype=np.float32))

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._vectors.dimension

    def gather(self, ids: NDArray[np.int64]) -> torch.Tensor:  # (ids, dimension)
        """Return the centered vectors of these rows."""
        return _as_float32(self._vectors.gather(ids)).sub_(self._mean)


class PairDistances:
    """Squared distances of pairs of vectors.

    :param left: Holds the first vector of each pair.
    :param right: Holds the second vector of each pair.
    """

    def __init__(self, left: Vectors, right: Vectors) -> None:
        self._left, self._right = left, right
        self.relative_error = sum_error(left.dimension)

    def fast(
        self, vectors: NDArray[np.float32], rows: NDArray[np.int64], right: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Compute in float32; the error is at most ``relative_error`` of the distance.

        :param vectors: Left vectors in memory, not centered, which many pairs share. # (n, dimension)
        :param rows: The row in ``vectors`` of each pair.
        """
        distances = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _PAIRS_AT_ONCE):
            others = self._right.gather(right[start : start + _PAIRS_AT_ONCE])
            for first in range(0, len(others), _PAIRS_IN_CACHE):
                part = slice(start + first, start + min(len(others), first + _PAIRS_IN_CACHE))
                difference = vectors.take(rows[part], axis=0)
                difference -= _as_float32(others[first : first + _PAIRS_IN_CACHE]).numpy()
                np.einsum("pd,pd->p", difference, difference, out=distances[part])
        return distances

    def exact(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute in float64; equal pairs of vectors have equal distances."""
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
        fast: NDArray[np.float32],
        thresholds: NDArray[np.float64],
    ) -> NDArray[np.bool_]:
        """Return which pairs are nearer than their thresholds; ``fast`` holds their float32 distances."""
        nearer: NDArray[np.bool_] = fast < thresholds
        doubtful = np.flatnonzero(np.abs(fast - thresholds) <= self.relative_error * thresholds)
        nearer[doubtful] = self.exact(left[doubtful], right[doubtful]) < thresholds[doubtful]
        return nearer


def true_distances(
    keys: KeyColumn, queries: NDArray[np.float32], ids: NDArray[np.int64]
) -> NDArray[np.float32]:  # (queries, candidates)
    """Compute distances to the float16 keys in float64, so that the distance of a key to itself is exactly 0.

    :param ids: Candidates of each query; -1 gives infinity. # (queries, candidates)
    """
    distances = np.full(ids.shape, np.inf, np.float32)
    present = ids >= 0
    rows = np.nonzero(present)[0]
    distances[present] = PairDistances(VectorArray(queries), keys).exact(rows, ids[present])
    return distances


def empty_neighborhood(queries: int, k: int) -> Neighborhood:
    """Return a neighborhood without any neighbor."""
    return Neighborhood(np.full((queries, k), np.inf, np.float32), np.full((queries, k), MISSING, np.int64))


def nearest(distances: NDArray[np.float32], ids: NDArray[np.int64], k: int) -> Neighborhood:
    """Return the ``k`` nearest candidates, ties by id, missing ones last."""
    # faiss sorts by distance, so most rows are in order and only need this check.
    nearer, farther = distances[:, :-1], distances[:, 1:]
    wrong = (nearer > farther) | ((nearer == farther) & (ids[:, :-1] > ids[:, 1:]))
    rows = np.flatnonzero(wrong.any(axis=1))
    if len(rows):
        order = np.lexsort((ids[rows], distances[rows]), axis=1)
        distances, ids = distances.copy(), ids.copy()
        distances[rows] = np.take_along_axis(distances[rows], order, axis=1)
        ids[rows] = np.take_along_axis(ids[rows], order, axis=1)
    if ids.shape[1] >= k:
        return Neighborhood(np.ascontiguousarray(distances[:, :k]), np.ascontiguousarray(ids[:, :k]))
    result = empty_neighborhood(len(ids), k)
    result.distances[:, : ids.shape[1]], result.ids[:, : ids.shape[1]] = distances, ids
    return result


def other_neighbors(itself: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Leave each entry out of its own neighbors: return a mask with ``k`` of ``k + 1`` places in every row.

    :param itself: Where the entry was found among its ``k + 1`` neighbors. Where it was not, the last one is left out.
    """
    last = itself.shape[1] - 1
    left_out = np.where(itself.any(axis=1), itself.argmax(axis=1), last)
    return np.asarray(np.arange(last + 1) != left_out[:, None])


def leave_self_out(neighbors: Neighborhood, own: NDArray[np.int64]) -> Neighborhood:
    """Remove entry ``own[i]`` from row ``i``: ``k + 1`` neighbors become ``k``."""
    others = other_neighbors(neighbors.ids == own[:, None])
    shape = (len(own), neighbors.ids.shape[1] - 1)
    return Neighborhood(neighbors.distances[others].reshape(shape), neighbors.ids[others].reshape(shape))


def _as_float32(vectors: NDArray[Any]) -> torch.Tensor:
    """Copy vectors to a float32 tensor; torch converts float16 several times as fast as NumPy."""
    return torch.from_numpy(vectors).to(torch.float32, copy=True)
