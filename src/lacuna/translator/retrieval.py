"""Search of several memories as one: their neighbors are merged into the tensors that combiners read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners import Neighbors
from lacuna.errors import SettingError
from lacuna.memory import Memory
from lacuna.memory.base import ColumnName, FoundEntries


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The neighbors of a batch of queries over all memories, nearest first.

    :class:`~lacuna.combiners.Neighbors` are tensors for a combiner, which must not know memories; this adds where each
    of them is stored.

    :param neighbors: The input of combiners, on the device of the queries.
    :param memories: Number of the memory that each neighbor comes from: (queries, k).
    :param entries: Its number in that memory; -1 where there is no neighbor: (queries, k).
    """

    neighbors: Neighbors
    memories: NDArray[np.int64]
    entries: NDArray[np.int64]

    def columns(self, memories: Sequence[Memory], *names: ColumnName) -> dict[str, NDArray[np.int64]]:
        """Read columns of the neighbors; 0 where there is no neighbor: (queries, k) each."""
        columns: dict[str, NDArray[np.int64]] = {name: np.zeros(self.entries.shape, np.int64) for name in names}
        for number, memory in enumerate(memories):
            own = (self.memories == number) & (self.entries >= 0)
            for name, column in memory.columns(self.entries[own], *names).items():
                columns[name][own] = column
        return columns


def find_neighbors(memories: Sequence[Memory], queries: torch.Tensor, k: int) -> Retrieval:
    """Search every memory and keep the k nearest overall; at equal distance, earlier memories come first."""
    if not memories:
        raise SettingError("no memory to search; give at least one store")
    rows, device = queries.float().cpu().numpy(), queries.device
    found = [memory.search(rows, k) for memory in memories]
    owners: NDArray[np.int64] = np.zeros((len(rows), k), np.int64)
    if len(found) == 1:  # every decoding step waits for this, and each call costs
        distances, entries, tokens = found[0].distances, found[0].ids, found[0].values.astype(np.int64)
        log_weights = None if found[0].weights is None else np.log(found[0].weights, dtype=np.float32)
    else:
        distances, entries, owners, tokens, log_weights = _merge(found, k)
    neighbors = Neighbors(
        torch.from_numpy(distances).to(device),
        torch.from_numpy(tokens).to(device),
        None if log_weights is None else torch.from_numpy(log_weights).to(device),
        queries,
        lambda: read_keys(memories, owners, entries, device),
    )
    return Retrieval(neighbors, owners, entries)


def _merge(
    found: Sequence[FoundEntries], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float32] | None]:
    """Return distances, entries, owners, tokens and log-weights of the k nearest entries in all memories."""
    distances = np.concatenate([near.distances for near in found], axis=1)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]

    def keep(columns: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
        return np.take_along_axis(np.concatenate(columns, axis=1, dtype=dtype), nearest, 1)

    log_weights = None
    if any(near.weights is not None for near in found):
        weights = [np.ones(near.ids.shape) if near.weights is None else near.weights for near in found]
        log_weights = np.log(keep(weights, np.float32))
    owners = [np.full(near.ids.shape, number) for number, near in enumerate(found)]
    return (
        np.take_along_axis(distances, nearest, 1),
        keep([near.ids for near in found], np.int64),
        keep(owners, np.int64),
        keep([near.values for near in found], np.int64),
        log_weights,
    )


def read_keys(
    memories: Sequence[Memory], owners: NDArray[np.int64], entries: NDArray[np.int64], device: torch.device
) -> torch.Tensor:
    """Read the keys of neighbors; zeros where there is no neighbor: (queries, k, dimension)."""
    keys = np.zeros((*entries.shape, memories[0].dimension), np.float16)
    for number, memory in enumerate(memories):
        chosen = (owners == number) & (entries >= 0)
        keys[chosen] = memory.keys(entries[chosen])
    return torch.from_numpy(keys).to(device).float()
