"""Search of a collection in Milvus by itself, without the files of a store. Ids are the numbers of entries there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lacuna.index.base import MISSING, Neighborhood, check_queries
from lacuna.index.distances import nearest
from lacuna.milvus import Collection, Hits
from lacuna.milvus.schema import MOST_RESULTS


class CollectionIndex:
    """Finds the nearest entries of a collection.

    :param condition: Only entries that meet this filter expression of Milvus are found; empty for all.
    """

    def __init__(self, collection: Collection, condition: str = "") -> None:
        self.collection, self._condition = collection, condition

    @property
    def kind(self) -> str:
        """``milvus``, a colon and the kind of index of the collection."""
        return self.collection.kind.name

    @property
    def size(self) -> int:
        """Number of entries that can be found."""
        return self.collection.count(self._condition)

    def where(self, condition: str) -> CollectionIndex:
        """Return the index of those entries that also meet this condition."""
        return CollectionIndex(
            self.collection, f"({self._condition}) and ({condition})" if self._condition else condition
        )

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        """Find approximately the ``k`` nearest entries of each query; shape (queries, dimension)."""
        found = self.search_with(queries, k, ())
        return Neighborhood(found.distances, found.ids)

    def search_with(self, queries: NDArray[np.float32], k: int, fields: Sequence[str]) -> Hits:
        """Find the nearest entries of each query, and read their fields in the same request.

        Kinds with lossy codes find more candidates, which are re-ranked by their keys.
        """
        queries = check_queries(queries, k, self.collection.info.dimension)
        rerank = self.collection.kind.rerank
        if rerank == 1 or not len(queries):
            return _ordered(self.collection.search(queries, k, fields, self._condition), k)
        found = self.collection.search(queries, min(MOST_RESULTS, k * rerank), fields, self._condition, keys=True)
        difference = found.fields.pop("key").astype(np.float64) - queries[:, None, :]
        true = np.einsum("qkd,qkd->qk", difference, difference).astype(np.float32)
        return _ordered(Hits(np.where(found.ids == MISSING, np.inf, true), found.ids, found.fields), k)


def _ordered(found: Hits, k: int) -> Hits:
    """Return the nearest ``k``, nearest first, ties by id."""
    order = np.lexsort((found.ids, found.distances), axis=1)[:, :k]
    fields = {name: np.take_along_axis(field, order, axis=1) for name, field in found.fields.items()}
    distances, ids = nearest(found.distances, found.ids, k)
    return Hits(distances, ids, fields)
