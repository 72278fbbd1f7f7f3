"""What an index is: batches of float32 queries in, ids and squared L2 distances out.

Knows nothing of tokens, models or files. An id is a row number of the store and never changes; an index that
cannot fill all ``k`` places says so with id -1 at distance infinity, and never with a made-up neighbor.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import IndexingError

MISSING = -1

# Elements of float64 that a re-computation of distances holds at once (32 MiB).
_ELEMENTS = 1 << 22

_LARGEST_SEED = (1 << 31) - 1


class Neighborhood(NamedTuple):
    """The nearest entries of each query, nearest first, equal distances by id.

    :param distances: Squared L2, never negative; infinity where there is no neighbor. # (queries, k)
    :param ids: Row numbers of the store; -1 where there is no neighbor. # (queries, k)
    """

    distances: NDArray[np.float32]
    ids: NDArray[np.int64]


class VectorIndex(Protocol):
    """Anything that finds the nearest keys of a store. Searches may run in several threads at once."""

    @property
    def kind(self) -> str:
        """What it is: ``exact``, or a faiss factory string."""

    @property
    def size(self) -> int:
        """How many keys it holds."""

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        """Find the ``k`` nearest keys of each query; shape (queries, dimension)."""


class KeyColumn(Protocol):
    """The keys of a store, float16, on disk."""

    @property
    def rows(self) -> int:
        """How many keys."""

    @property
    def dimension(self) -> int:
        """How many numbers a key has."""

    def gather(self, ids: NDArray[np.int64]) -> NDArray[np.float16]:
        """Read the keys of these rows; shape (ids, dimension)."""

    def blocks(self, rows: int) -> Iterator[tuple[int, NDArray[np.float16]]]:
        """Go through all keys in order, at most ``rows`` at once, each block with its first row number."""


class KeyStore(Protocol):
    """As much of a store as an index needs."""

    @property
    def path(self) -> Path:
        """The store's folder; the index lives in ``index`` under it."""

    @property
    def keys(self) -> KeyColumn:
        """The keys."""

    @property
    def mean(self) -> NDArray[np.float32]:
        """The mean key; it is subtracted wherever distances come from matrix products."""


def check_queries(queries: NDArray[np.float32], k: int, dimension: int) -> NDArray[np.float32]:
    """Refuse queries that no index can answer; return the others as contiguous float32."""
    if k < 1:
        raise IndexingError(f"k: got {k}; ask for 1 neighbor or more")
    if queries.ndim != 2 or queries.shape[1] != dimension:
        shape = " x ".join(map(str, queries.shape))
        raise IndexingError(
            f"queries: got an array of {shape}, the keys have {dimension} numbers; "
            f"pass (queries, {dimension}) from the model that built the store"
        )
    with np.errstate(over="ignore"):
        checked = np.ascontiguousarray(queries, dtype=np.float32)
    broken = ~np.isfinite(checked).all(axis=1)
    if broken.any():
        raise IndexingError(
            f"queries: {int(broken.sum()):,} of {len(checked):,} hold NaN or infinity, the first is number "
            f"{int(broken.argmax())}; look for an overflow in the model (float16?)"
        )
    return checked


def check_seed(seed: int) -> None:
    """Refuse a seed that numpy or faiss cannot take; callers ask this before slow work."""
    if not 0 <= seed <= _LARGEST_SEED:
        raise IndexingError(f"seed: got {seed}; allowed: 0 to {_LARGEST_SEED}")


def empty_neighborhood(queries: int, k: int) -> Neighborhood:
    """Return a neighborhood in which every place is missing."""
    return Neighborhood(np.full((queries, k), np.inf, np.float32), np.full((queries, k), MISSING, np.int64))


def nearest(distances: NDArray[np.float32], ids: NDArray[np.int64], k: int) -> Neighborhood:
    """Order candidates by distance, then id, and keep ``k``; what is missing stands last."""
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    result = empty_neighborhood(len(ids), k)
    result.distances[:, : order.shape[1]] = np.take_along_axis(distances, order, axis=1)
    result.ids[:, : order.shape[1]] = np.take_along_axis(ids, order, axis=1)
    return result


def true_distances(
    keys: KeyColumn, queries: NDArray[np.float32], ids: NDArray[np.int64]
) -> NDArray[np.float32]:  # (queries, candidates)
    """Compute distances from the float16 keys by difference, so that a key's own distance is exactly 0.

    :param ids: Candidates of each query; -1 gives infinity. # (queries, candidates)
    """
    distances = np.full(ids.shape, np.inf, np.float32)
    step = max(1, _ELEMENTS // max(1, ids.shape[1] * keys.dimension))
    for start in range(0, len(ids), step):
        part = slice(start, start + step)
        found = ids[part] >= 0
        owners = np.nonzero(found)[0]
        distances[part][found] = pair_distances(keys, queries[part], owners, ids[part][found])
    return distances


def pair_distances(
    keys: KeyColumn, queries: NDArray[np.float32], owners: NDArray[np.int64], ids: NDArray[np.int64]
) -> NDArray[np.float32]:  # (pairs,)
    """Compute the distance of query ``owners[i]`` to key ``ids[i]``.

    float64 costs no more than float32 here (reading float16 takes the time), and makes equal keys equal.
    """
    difference = keys.gather(ids).astype(np.float64)
    difference -= queries[owners]
    return np.asarray(np.einsum("pd,pd->p", difference, difference), dtype=np.float32)


# How many times more neighbors each round asks for.
_GROWTH = 4


class FilteredIndex:
    """Finds the nearest of the entries that are kept.

    :param index: Of all entries.
    :param keep: Whether an entry may be found.
    """

    def __init__(self, index: VectorIndex, keep: NDArray[np.bool_]) -> None:
        self._index, self._keep = index, keep
        self._kept = int(np.count_nonzero(keep))

    @property
    def kind(self) -> str:
        """What the whole index is."""
        return self._index.kind

    @property
    def size(self) -> int:
        """How many entries are kept."""
        return self._kept

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        """Find the ``k`` nearest kept entries of each query; shape (queries, dimension)."""
        result = self._kept_of(queries, k, k)
        asked = k
        while asked < self._index.size:
            lacking = np.flatnonzero((result.ids >= 0).sum(axis=1) < min(k, self._kept))
            if not len(lacking):
                break
            asked = min(self._index.size, _GROWTH * asked)
            more = self._kept_of(queries[lacking], asked, k)
            result.distances[lacking], result.ids[lacking] = more
        return result

    def _kept_of(self, queries: NDArray[np.float32], asked: int, k: int) -> Neighborhood:
        distances, ids = self._index.search(queries, asked)
        gone = (ids < 0) | ~self._keep[ids]
        return nearest(np.where(gone, np.float32(np.inf), distances), np.where(gone, -1, ids), k)
