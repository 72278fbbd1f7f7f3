"""Search restricted to some of the entries of an index.

Lists of an IVF index skip the other entries while they are scanned. Any other index is asked for more neighbors until
enough of them are kept.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lacuna.index.base import MISSING, Neighborhood, VectorIndex
from lacuna.index.distances import nearest

# Each round asks for this many times more neighbors.
_GROWTH = 4


class RestrictedSearch(Protocol):
    """Searches some entries of an index."""

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood | None:
        """Find the ``k`` nearest; ``None`` if it cannot find that many."""


@runtime_checkable
class RestrictableIndex(Protocol):
    """An index that can skip entries by itself."""

    def restricted(self, keep: NDArray[np.bool_]) -> RestrictedSearch | None:
        """Return a search of the entries that are kept; ``None`` if this one cannot skip any."""


class FilteredIndex:
    """Finds the nearest of the entries that are kept.

    :param index: Index of all entries.
    :ivar keep: Whether an entry may be found.
    """

    def __init__(self, index: VectorIndex, keep: NDArray[np.bool_]) -> None:
        self._index, self.keep = index, keep
        self._kept = int(np.count_nonzero(keep))
        self._restricted = index.restricted(keep) if isinstance(index, RestrictableIndex) else None

    @property
    def kind(self) -> str:
        """The kind of the underlying index."""
        return self._index.kind

    @property
    def size(self) -> int:
        """Number of entries that are kept."""
        return self._kept

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        """Find the ``k`` nearest kept entries of each query; shape (queries, dimension)."""
        if self._restricted is not None and (found := self._restricted.search(queries, k)) is not None:
            return found
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
        excluded = (ids < 0) | ~self.keep[ids]
        return nearest(np.where(excluded, np.float32(np.inf), distances), np.where(excluded, MISSING, ids), k)
