"""Search of a memory with several segments: every index is asked, and the nearest neighbors overall are kept.

Small segments that are searched exactly are searched as one: all of them together cost as much as one of their size.
Knows nothing of stores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lacuna.index.base import MISSING, KeySegment, KeyStore, Neighborhood, VectorIndex, check_queries
from lacuna.index.distances import SelectedVectors, empty_neighborhood, nearest
from lacuna.index.exact import ExactIndex
from lacuna.index.filtered import FilteredIndex
from lacuna.index.kinds import EXACT_BELOW


class SegmentedIndex:
    """Finds the nearest live rows of all segments; ids are row numbers of the joined store.

    :param store: The joined store.
    :param open_segment: Opens the index of a segment.
    :ivar opened: The index of each segment.
    """

    def __init__(self, store: KeyStore, open_segment: Callable[[KeyStore], VectorIndex]) -> None:
        self._dimension = store.keys.dimension
        self._size = store.keys.rows
        self._parts: list[tuple[VectorIndex, NDArray[np.int64]]] = []
        self.opened: dict[KeyStore, VectorIndex] = {}
        exact: list[tuple[int, int]] = []  # first row and number of rows in the joined store
        first = 0
        for segment in store.segments or ():
            index, rows = open_segment(segment.store), _live_rows(segment)
            self.opened[segment.store] = index
            # The cache of a large segment is worth keeping for the next time that the memory is opened.
            if index.kind == ExactIndex.kind and index.size * self._dimension < EXACT_BELOW:
                exact.append((first, rows))
            else:
                self._parts.append(_searched(index, segment, first))
            first += rows
        if exact:
            ids = np.concatenate([np.arange(start, start + rows) for start, rows in exact])
            self._parts.append((ExactIndex(_SelectedStore(store, ids)), ids))

    @property
    def kind(self) -> str:
        """The different kinds of the indexes that are asked, joined by ``+``."""
        return "+".join(dict.fromkeys(index.kind for index, _ in self._parts)) or ExactIndex.kind

    @property
    def size(self) -> int:
        """Number of live rows."""
        return self._size

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        """Find the ``k`` nearest live rows of each query; shape (queries, dimension)."""
        queries = check_queries(queries, k, self._dimension)
        if not self._parts:
            return empty_neighborhood(len(queries), k)
        neighborhoods = [_in_store(index.search(queries, k), ids) for index, ids in self._parts]
        if len(neighborhoods) == 1:
            return neighborhoods[0]
        distances, ids = (np.concatenate(columns, axis=1) for columns in zip(*neighborhoods, strict=True))
        return nearest(distances, ids, k)


def opened_indexes(store: KeyStore, index: VectorIndex) -> dict[KeyStore, VectorIndex]:
    """Return the indexes of the segments of an open memory; a store that was never edited is its own segment."""
    return index.opened if isinstance(index, SegmentedIndex) else {store: index}


def _live_rows(segment: KeySegment) -> int:
    return segment.store.keys.rows if segment.live is None else len(segment.live)


def _searched(index: VectorIndex, segment: KeySegment, first: int) -> tuple[VectorIndex, NDArray[np.int64]]:
    """Return an index of the live rows of a segment, and the id in the joined store of each row of the segment."""
    rows = segment.store.keys.rows
    if segment.live is None:
        return index, np.arange(first, first + rows)
    keep, ids = np.zeros(rows, np.bool_), np.full(rows, MISSING, np.int64)
    keep[segment.live] = True
    ids[segment.live] = np.arange(first, first + len(segment.live))
    return FilteredIndex(index, keep), ids


def _in_store(neighbors: Neighborhood, ids: NDArray[np.int64]) -> Neighborhood:
    return Neighborhood(
        neighbors.distances, np.where(neighbors.ids < 0, MISSING, ids[neighbors.ids]) if len(ids) else neighbors.ids
    )


@dataclass(frozen=True, eq=False)
class _SelectedStore:
    """Some rows of a store, for an index of their own.

    :param ids: The rows, sorted.
    """

    store: KeyStore
    ids: NDArray[np.int64]

    @property
    def path(self) -> Path:
        return self.store.path

    @property
    def keys(self) -> SelectedVectors:
        return SelectedVectors(self.store.keys, self.ids)

    @property
    def mean(self) -> NDArray[np.float32]:
        return self.store.mean

    @property
    def rows(self) -> NDArray[np.int64]:
        return self.store.rows[self.ids]

    @property
    def segments(self) -> None:
        return None
