"""Search of a store by its collection in Milvus.

The collection finds candidates; their distances come from the keys on disk, so they are the same as those of any other
index. Entries that the store does not have any more, or not yet, are left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lacuna.index.base import MISSING, KeyStore, Neighborhood, check_queries
from lacuna.index.distances import empty_neighborhood, nearest, true_distances
from lacuna.milvus import Collection, CollectionKind, CollectionLink
from lacuna.milvus.schema import MAX_RESULTS

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
        candidates = min(self.size, MAX_RESULTS, k * self._kind.rerank + _SPARE)
        ids = self._in_store(self.collection.search(queries, candidates)["id"])
        return nearest(true_distances(self._keys, queries, ids), ids, k)

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
