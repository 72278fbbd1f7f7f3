"""A memory is a store with its index, or a collection in Milvus. Several are searched as one: neighbors are merged.

Does not know models, except for the fingerprint that a store was built with.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection as Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store, open_store
from lacuna.errors import SettingError
from lacuna.index import FilteredIndex, VectorIndex, open_index
from lacuna.index.milvus import CollectionIndex
from lacuna.index.segmented import opened_indexes
from lacuna.milvus import Collection, MilvusAddress, open_collection_store
from lacuna.milvus.address import is_address
from lacuna.milvus.schema import tag_filter


class FoundEntries(NamedTuple):
    """The nearest entries of each query in one memory: (queries, k) each.

    :param ids: Numbers of entries; -1 where there is no neighbor.
    :param values: Their values; -1 where there is no neighbor.
    :param weights: How many entries each one represents; ``None`` for one each.
    """

    distances: NDArray[np.float32]
    ids: NDArray[np.int64]
    values: NDArray[Any]
    weights: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Memory:
    """A store with its index, and a name for explanations."""

    name: str
    store: Store
    index: VectorIndex

    def search(self, queries: NDArray[np.float32], k: int) -> FoundEntries:
        """Find the ``k`` nearest entries of each query; shape (queries, dimension)."""
        distances, ids = self.index.search(queries, k)
        weights = None if self.store.weights is None else _read(self.store.weights, ids, 1.0)
        return FoundEntries(distances, ids, _read(self.store.values, ids, -1), weights)

    def excluding(self, sentences: Container[int]) -> Memory:
        """Return the memory without the entries of these sentences."""
        return self._keeping(~np.isin(self.store.sentence, np.asarray(sorted(sentences))))

    def tagged(self, tag: str) -> Memory:
        """Return only the entries of pairs with this label.

        :raises SettingError: There are none.
        """
        chosen = [number for number, pair in self.store.sentences.present() if pair.origin.tag == tag]
        if not chosen:
            raise _no_tag(tag, self.store)
        return self._keeping(np.isin(self.store.sentence, np.asarray(chosen)))

    def reopening(self) -> tuple[Callable[..., Memory], tuple[object, ...]]:
        """Say how another process opens this memory; see :class:`~lacuna.workers.Reopened`.

        :raises SettingError: Some of its entries are left out, which another process would not know.
        """
        if isinstance(self.index, FilteredIndex):
            raise SettingError(f"{self.name}: workers cannot leave out entries of a memory in files; use no workers")
        return index_memory, (self.name, self.store)

    def _keeping(self, keep: NDArray[np.bool_]) -> Memory:
        return Memory(self.name, self.store, FilteredIndex(self.index, keep))


@dataclass(frozen=True, eq=False)
class CollectionMemory(Memory):
    """A memory that is a collection in Milvus: entries are searched and read there, without files."""

    index: CollectionIndex

    def search(self, queries: NDArray[np.float32], k: int) -> FoundEntries:
        """Find the ``k`` nearest entries of each query; shape (queries, dimension)."""
        weighted = self.index.collection.info.weighted
        hits = self.index.search_with(queries, k, ["value", "weight"] if weighted else ["value"])
        missing = hits.ids < 0
        hits.fields["value"][missing] = -1
        if weighted:
            hits.fields["weight"][missing] = 1.0
        return FoundEntries(hits.distances, hits.ids, hits.fields["value"], hits.fields.get("weight"))

    def excluding(self, sentences: Container[int]) -> Memory:
        """Return the memory without the entries of these sentences."""
        return self._where(f"sentence not in {sorted(sentences)}")

    def tagged(self, tag: str) -> Memory:
        """Return only the entries of pairs with this label.

        :raises SettingError: There are none.
        """
        if not self.index.collection.count(tag_filter(tag)):
            raise _no_tag(tag, self.store)
        return self._where(tag_filter(tag))

    def reopening(self) -> tuple[Callable[..., Memory], tuple[object, ...]]:
        """Say how another process opens this memory; see :class:`~lacuna.workers.Reopened`."""
        return open_collection_memory, (self.index.collection.address, self.name, self.index.condition)

    def _where(self, condition: str) -> Memory:
        return CollectionMemory(self.name, self.store, self.index.where(condition))


def _no_tag(tag: str, store: Store) -> SettingError:
    return SettingError(
        f"tag: got {tag!r}, but no sentence of {store.name} has it; name a label that was given to pairs"
    )


def open_memory(path: str | Path, name: str | None = None, *, before: Memory | None = None) -> Memory:
    """Open a store with its index; the default name is that of the folder, or of the collection.

    :param path: Folder of the store, or the address of a collection such as ``milvus://host:19530/it``.
    :param before: The same memory, opened earlier: what has not changed is taken from it, and only the rest is read.
    """
    if is_address(str(path)):
        return open_collection_memory(MilvusAddress.parse(str(path)), name)
    if before is None:
        return index_memory(name or Path(path).name, open_store(path))
    store = open_store(path, before=before.store)
    return Memory(name or before.name, store, open_index(store, opened=opened_indexes(before.store, before.index)))


def index_memory(name: str, store: Store) -> Memory:
    """Return a memory of an open store, with its index."""
    return Memory(name, store, open_index(store))


def open_collection_memory(address: MilvusAddress, name: str | None = None, condition: str = "") -> CollectionMemory:
    """Open a memory in Milvus; the default name is that of the collection.

    :param condition: Only entries that meet this filter expression of Milvus are found; empty for all.
    """
    collection = Collection.open(address)
    index = CollectionIndex(collection, condition)
    return CollectionMemory(name or address.collection, open_collection_store(collection), index)


def _read(column: NDArray[Any], entries: NDArray[np.int64], missing: float) -> NDArray[Any]:  # of the shape of entries
    """Read a column of a store; ``missing`` where there is no neighbor."""
    if not len(column):
        return np.full(entries.shape, missing)
    result = column[entries]
    if len(entries) and entries[:, -1].min() < 0:  # missing neighbors are last
        result[entries < 0] = missing
    return result
