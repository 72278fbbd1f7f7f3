"""Search of a collection in Milvus: as the index of a store, or by itself.

As the index of a store it finds candidates; their distances come from the keys on disk, so they are the same as those
of any other index. Entries that the store does not have any more, or not yet, are left out. By itself, ids are the
numbers of entries in the collection.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lacuna.index.base import MISSING, KeyStore, Neighborhood, check_queries
from lacuna.index.distances import empty_neighborhood, nearest, true_distances
from lacuna.milvus import Collection, CollectionKind, CollectionLink, Hits
from lacuna.milvus.schema import MOST_RESULTS

# Candidates besides the neighbors: rounding on the server may exchange the last ones.
_SPARE = 4


class MilvusIndex:
    """Finds the nearest keys of a store by its collection.

    :param store: The store that was published.
    :param kind: Search settings.
    """

    def __init__(self, collection: Collection, store: KeyStore, kind: CollectionKind) -> None:
        self.collection = collection
        collection.kind = kind
        self._keys, self._kind, self._rows = store.keys, kind, store.rows

    @property
    def kind(self) -> str:
        """``milvus``, a colon and the kind of index of the collection."""
        return self._kind.name

    @property
    def size(self) -> int:
        """Number of keys."""
        return self._keys.rows

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        """Find approximately the ``k`` nearest keys of each query; shape (queries, dimension).

        Milvus returns at most 16,384 neighbors; there are no others then.
        """
        queries = check_queries(queries, k, self._keys.dimension)
        if not len(queries) or not self.size:
            return empty_neighborhood(len(queries), k)
        candidates = min(self.size, MOST_RESULTS, k * self._kind.rerank + _SPARE)
        found = self._in_store(self.collection.search(queries, candidates).ids)
        return nearest(true_distances(self._keys, queries, found), found, k)

    def _in_store(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each entry in the store; -1 for entries that it does not have."""
        places = np.minimum(np.searchsorted(self._rows, ids), len(self._rows) - 1)
        return np.where(self._rows[places] == ids, places, MISSING)


def open_linked(
    store: KeyStore,
    link: CollectionLink,
    *,
    nprobe: int | None = None,
    ef_search: int | None = None,
    rerank: int | None = None,
    opened: Collection | None = None,
) -> MilvusIndex:
    """Open the collection of a store. Search settings that are not given are those of the link.

    :param opened: The same collection, opened earlier.
    """
    kind = CollectionKind.parse(
        link.collection_kind.name,
        link.ef if ef_search is None else ef_search,
        link.nprobe if nprobe is None else nprobe,
        link.rerank if rerank is None else rerank,
    )
    if opened is None or opened.address != link.address:
        opened = Collection.open(link.address)
    return MilvusIndex(opened, store, kind)


class CollectionIndex:
    """Finds the nearest entries of a collection.

    :param condition: Only entries that meet this filter expression of Milvus are found; empty for all.
    """

    def __init__(self, collection: Collection, condition: str = "") -> None:
        self.collection, self.condition = collection, condition

    @property
    def kind(self) -> str:
        """``milvus``, a colon and the kind of index of the collection."""
        return self.collection.kind.name

    @property
    def size(self) -> int:
        """Number of entries that can be found."""
        return self.collection.count(self.condition)

    def where(self, condition: str) -> CollectionIndex:
        """Return the index of those entries that also meet this condition."""
        return CollectionIndex(
            self.collection, f"({self.condition}) and ({condition})" if self.condition else condition
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
            return _ordered(self.collection.search(queries, k, fields, self.condition), k)
        found = self.collection.search(queries, min(MOST_RESULTS, k * rerank), fields, self.condition, keys=True)
        difference = found.fields.pop("key").astype(np.float64) - queries[:, None, :]
        true = np.einsum("qkd,qkd->qk", difference, difference).astype(np.float32)
        return _ordered(Hits(np.where(found.ids == MISSING, np.inf, true), found.ids, found.fields), k)


def _ordered(found: Hits, k: int) -> Hits:
    """Return the nearest ``k``, nearest first, ties by id."""
    order = np.lexsort((found.ids, found.distances), axis=1)[:, :k]
    fields = {name: np.take_along_axis(field, order, axis=1) for name, field in found.fields.items()}
    distances, ids = nearest(found.distances, found.ids, k)
    return Hits(distances, ids, fields)
