"""The knowledge margin of any query, exactly.

Unknown entries with near projections bound the distance of the nearest one; within this bound all entries are
compared. No entry is left out: a query that equals a key of the store finds that entry, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.index.base import check_queries
from lacuna.index.distances import CenteredVectors, PairDistances, VectorArray
from lacuna.margin.codes import passing
from lacuna.margin.screening import Projections, Screening, find_rotation
from lacuna.margin.storage import MAX_MARGIN, check_max_margin

_QUERIES_AT_ONCE = 256
_COLUMNS_AT_ONCE = 4096
_SEED = 1


def margin_of(store: Store, queries: NDArray[np.float32], max_margin: int = MAX_MARGIN) -> NDArray[np.uint16]:
    """Measure the margins of queries.

    :param queries: Decoder states of the model that built the store. # (queries, dimension)
    :param max_margin: Larger margins count as this.
    """
    check_max_margin(max_margin)
    checked = check_queries(queries, 1, store.dimension)
    known = int(np.count_nonzero(store.known))
    if known == store.entries or not len(checked):
        return np.full(len(checked), min(max_margin, known), np.uint16)
    comparison = _QueryComparison(store, checked)
    counts = [
        comparison.run(slice(start, min(len(checked), start + _QUERIES_AT_ONCE)))
        for start in range(0, len(checked), _QUERIES_AT_ONCE)
    ]
    return np.minimum(np.concatenate(counts), max_margin).astype(np.uint16)


class _QueryComparison:
    """Compares blocks of queries with all entries of a store."""

    def __init__(self, store: Store, queries: NDArray[np.float32]) -> None:
        vectors, keys = VectorArray(queries), CenteredVectors(store.keys, store.mean)
        rotation = find_rotation(keys, store.entries, np.random.default_rng(_SEED))
        self._screening = Screening(keys, store.entries, rotation)
        self._vectors = CenteredVectors(vectors, store.mean)
        self._queries = Projections(self._vectors, len(queries), rotation)
        self._pairs = PairDistances(vectors, store.keys)
        self._count = len(queries)
        self._known, self._unknown = store.known, np.flatnonzero(~store.known)

    def run(self, part: slice) -> NDArray[np.int64]:
        """Count the known entries that are nearer to each query than all unknown ones."""
        radius = self._bound(part)
        query, entry, distances = self._near(part, radius)
        known = self._known[entry]
        nearest = radius.copy()
        np.minimum.at(nearest, query[~known] - part.start, self._pairs.exact(query[~known], entry[~known]))
        query, entry, distances = query[known], entry[known], distances[known]
        nearer = self._pairs.below(query, entry, distances, nearest[query - part.start])
        return np.bincount(query[nearer] - part.start, minlength=part.stop - part.start)

    def _bound(self, part: slice) -> NDArray[np.float64]:
        """Return the distance to the nearest of some unknown entries, those with the nearest components."""
        bound, ids = np.full(part.stop - part.start, np.inf), np.arange(part.start, part.stop)
        for others in self._screening.near(self._queries.components[part], self._unknown):
            bound = np.minimum(bound, self._pairs.exact(ids, others))
        return bound

    def _near(
        self, part: slice, radius: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return query, entry and float32 distance of all pairs that may be within the radius."""
        screening, ids = self._screening, np.arange(part.start, part.stop)
        level = screening.best_level(ids, radius, self._count, self._vectors)
        coder, codes = screening.coders[level], screening.codes(level)
        left = coder.left_side(coder.encode(self._vectors.gather(ids)), radius, screening.projections.longest)
        found = []
        for start in range(0, len(self._known), _COLUMNS_AT_ONCE):
            row, entry = passing(left, codes.right[start : start + _COLUMNS_AT_ONCE])
            query, entry = row + part.start, entry + start
            distances = self._pairs.fast(query, entry)
            near = distances <= radius[row] * (1 + self._pairs.relative_error)
            found.append((query[near], entry[near], distances[near]))
        query, entry, distances = (np.concatenate(column) for column in zip(*found, strict=True))
        return query, entry, distances
