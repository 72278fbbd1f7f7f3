"""A memory is a store with its index. Several memories are searched as one: neighbors are merged by distance.

Does not know models, except for the fingerprint that a store was built with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners import Neighbors
from lacuna.datastore import Store, open_store
from lacuna.errors import SettingError
from lacuna.index import VectorIndex, open_index
from lacuna.index.segmented import opened_indexes


@dataclass(frozen=True, eq=False, slots=True)
class Memory:
    """A store with its index, and a name for explanations."""

    name: str
    store: Store
    index: VectorIndex

    def reopening(self) -> tuple[Callable[[str, Store], Memory], tuple[str, Store]]:
        """Say how another process opens this memory; see :class:`~lacuna.workers.Reopened`."""
        return index_memory, (self.name, self.store)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The neighbors of a batch of queries over all memories, nearest first.

    :param neighbors: The input of combiners, on the device of the queries.
    :param memories: Number of the memory that each neighbor comes from: (queries, k).
    :param entries: Its row in the store of that memory; -1 where there is no neighbor: (queries, k).
    """

    neighbors: Neighbors
    memories: NDArray[np.int64]
    entries: NDArray[np.int64]


def open_memory(path: str | Path, name: str | None = None, *, before: Memory | None = None) -> Memory:
    """Open a store with its index; the default name is that of the folder.

    :param before: The same memory, opened earlier: what has not changed is taken from it, and only the rest is read.
    """
    if before is None:
        return index_memory(name or Path(path).name, open_store(path))
    store = open_store(path, before=before.store)
    return Memory(name or before.name, store, open_index(store, opened=opened_indexes(before.store, before.index)))


def index_memory(name: str, store: Store) -> Memory:
    """Return a memory of an open store, with its index."""
    return Memory(name, store, open_index(store))


def find_neighbors(memories: Sequence[Memory], queries: torch.Tensor, k: int) -> Retrieval:
    """Search every memory and keep the k nearest overall; at equal distance, earlier memories come first."""
    if not memories:
        raise SettingError("no memory to search; give at least one store")
    rows, device = queries.float().cpu().numpy(), queries.device
    found = [memory.index.search(rows, k) for memory in memories]
    values = [_read(memory.store.values, one.ids, -1) for memory, one in zip(memories, found, strict=True)]
    columns: list[NDArray[Any]] = [
        np.concatenate([one.distances for one in found], axis=1),
        np.concatenate([one.ids for one in found], axis=1),
        np.repeat(np.arange(len(memories)), k)[None, :].repeat(len(rows), axis=0),
        np.concatenate(values, axis=1, dtype=np.int64),
    ]
    if any(memory.store.weights is not None for memory in memories):
        weights = [_read(memory.store.weights, one.ids, 1.0) for memory, one in zip(memories, found, strict=True)]
        columns.append(np.log(np.concatenate(weights, axis=1, dtype=np.float32)))
    if len(memories) > 1:
        nearest = np.argsort(columns[0], axis=1, kind="stable")[:, :k]
        columns = [np.take_along_axis(column, nearest, 1) for column in columns]
    distances, entries, owners, tokens, *log_weights = columns
    neighbors = Neighbors(
        torch.from_numpy(distances).to(device),
        torch.from_numpy(tokens).to(device),
        torch.from_numpy(log_weights[0]).to(device) if log_weights else None,
        queries,
        lambda: read_keys(memories, owners, entries, device),
    )
    return Retrieval(neighbors, owners, entries)


def _read(
    column: NDArray[Any] | None, entries: NDArray[np.int64], missing: float
) -> NDArray[Any]:  # of the shape of entries
    """Read a column of a store; ``missing`` where there is no neighbor, or no such column."""
    if column is None or not len(column):
        return np.full(entries.shape, missing)
    result = column[entries]
    if len(entries) and entries[:, -1].min() < 0:  # missing neighbors are last
        result[entries < 0] = missing
    return result


def read_keys(
    memories: Sequence[Memory], owners: NDArray[np.int64], entries: NDArray[np.int64], device: torch.device
) -> torch.Tensor:
    """Read the keys of neighbors; zeros where there is no neighbor: (queries, k, dimension)."""
    keys = np.zeros((*entries.shape, memories[0].store.dimension), np.float16)
    for number, memory in enumerate(memories):
        chosen = (owners == number) & (entries >= 0)
        keys[chosen] = memory.store.keys.gather(entries[chosen])
    return torch.from_numpy(keys).to(device).float()
