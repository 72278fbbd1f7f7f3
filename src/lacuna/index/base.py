"""The index protocol: batches of float32 queries in, ids and squared L2 distances out.

An id is a row number of the store and never changes. An index that finds fewer than ``k`` neighbors returns id -1 at
distance infinity in the remaining places. Knows nothing of models and stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import IndexingError

MISSING = -1

_MAX_SEED = (1 << 31) - 1


class Neighborhood(NamedTuple):
    """The nearest entries of each query, nearest first, ties by id. All that an index can tell: it has keys only.

    :param distances: Squared L2, never negative; infinity where there is no neighbor. # (queries, k)
    :param ids: Row numbers of the store; -1 where there is no neighbor. # (queries, k)
    """

    distances: NDArray[np.float32]
    ids: NDArray[np.int64]


class VectorIndex(Protocol):
    """Finds the nearest keys of a store. Several threads may search at once."""

    @property
    def kind(self) -> str:
        """``exact``, or a faiss factory string."""

    @property
    def size(self) -> int:
        """Number of keys."""

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        """Find the ``k`` nearest keys of each query; shape (queries, dimension)."""


class KeyColumn(Protocol):
    """The float16 keys of a store, on disk."""

    @property
    def rows(self) -> int:
        """Number of keys."""

    @property
    def dimension(self) -> int:
        """Dimension of a key."""

    def gather(self, ids: NDArray[np.int64]) -> NDArray[np.float16]:
        """Read the keys of these rows; shape (ids, dimension)."""

    def blocks(self, rows: int) -> Iterator[tuple[int, NDArray[np.float16]]]:
        """Iterate over all keys in order: the first row number of each block, and at most ``rows`` keys."""


class KeyStore(Protocol):
    """The part of a store that an index needs."""

    @property
    def path(self) -> Path:
        """The store's folder; the index is in ``index`` under it."""

    @property
    def keys(self) -> KeyColumn:
        """The keys."""

    @property
    def mean(self) -> NDArray[np.float32]:
        """The mean key; it is subtracted wherever distances come from matrix products."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """A number of each entry that edits do not change; ascending."""

    @property
    def segments(self) -> Sequence[KeySegment] | None:
        """The segments of an edited memory, each with an index of its own; ``None`` for any other store."""


class KeySegment(Protocol):
    """A segment of an edited memory."""

    @property
    def store(self) -> KeyStore:
        """The segment with all of its rows."""

    @property
    def live(self) -> NDArray[np.int64] | None:
        """The rows that are entries of the memory, sorted; ``None`` for all."""


def check_queries(queries: NDArray[np.float32], k: int, dimension: int) -> NDArray[np.float32]:
    """Return queries as contiguous float32.

    :raises IndexingError: ``k``, the shape or a value is not valid.
    """
    if k < 1:
        raise IndexingError(f"k: got {k}; ask for 1 neighbor or more")
    if queries.ndim != 2 or queries.shape[1] != dimension:
        shape = " x ".join(map(str, queries.shape))
        raise IndexingError(
            f"queries: got an array of shape {shape}, but the keys are {dimension}-dimensional; "
            f"pass (queries, {dimension}) from the model that built the store"
        )
    with np.errstate(over="ignore"):
        checked = np.ascontiguousarray(queries, dtype=np.float32)
    broken = ~np.isfinite(checked).all(axis=1)
    if broken.any():
        raise IndexingError(
            f"queries: {int(broken.sum()):,} of {len(checked):,} contain NaN or infinity, the first is number "
            f"{int(broken.argmax())}; check the model for overflow (float16?)"
        )
    return checked


def check_seed(seed: int) -> None:
    """Check a seed before slow work starts.

    :raises IndexingError: NumPy or faiss does not accept it.
    """
    if not 0 <= seed <= _MAX_SEED:
        raise IndexingError(f"seed: got {seed}; allowed: 0 to {_MAX_SEED}")
