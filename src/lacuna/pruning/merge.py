"""Greedy merging (He et al., 2021; Martins et al., 2022): merge near entries of the same value into a weighted one.

This module does not search for neighbors itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import SettingError
from lacuna.pruning.base import EntryTable, Pruning, count_groups, drop_count, limit_drops, seeded_rng


@dataclass(frozen=True, slots=True)
class Merge:
    """Visits entries in random order and merges into each its neighbors that have the same value and weight 1.

    An entry into which others were merged, now or before, is not merged itself. It keeps its key; its weight is the
    number of entries it stands for. The visits end when enough entries are merged.

    :param k: Neighbors to compare with. The default is that of the released code of Martins et al.
    """

    name: ClassVar[str] = "merge"
    reads_margins: ClassVar[bool] = False
    changes_keys: ClassVar[bool] = False
    k: int = 5

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SettingError(f"k: got {self.k}; allowed is 1 or more")

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Merge until enough entries are gone or all were visited."""
        values, rng = entries.values, seeded_rng(seed)
        asked = drop_count(ratio, len(values), self.name)
        before = np.ones(len(values), np.float32) if entries.weights is None else entries.weights
        starts, candidates = same_value_neighbors(values, entries.neighbors(self.k))
        order = rng.permutation(len(values))
        weights = merge_greedily(before, order[starts[order] < starts[order + 1]], starts, candidates, asked)
        keep = weights > 0
        limit_drops(
            asked,
            int(np.count_nonzero(~keep)),
            len(values),
            f"only the {self.k} nearest neighbors of the same value are merged",
            "use a smaller ratio or a larger k",
            clamp,
        )
        groups = {"merged into a neighbor": ~keep, "took in others": weights > before, "as before": weights == before}
        return Pruning(keep, count_groups(keep, groups), weights)


def same_value_neighbors(
    values: NDArray[np.int32], blocks: Iterable[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Select the neighbors that have the same value as their entry.

    :param blocks: Neighbors of each entry in consecutive blocks (entries, k), nearest first, -1 for none.
    :return: The offsets of each entry's neighbors, with a final end offset; and the neighbors.
    """
    counts, neighbors, first = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], 0
    for ids in blocks:
        own = values[first : first + len(ids)]
        same = (ids >= 0) & (values[ids] == own[:, None])
        counts.append(same.sum(axis=1))
        neighbors.append(ids[same].astype(np.int32))
        first += len(ids)
    return np.cumsum(np.concatenate(counts)), np.concatenate(neighbors)


def merge_greedily(
    weights: NDArray[np.float32],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    neighbors: NDArray[np.int32],
    enough: int,
) -> NDArray[np.float32]:
    """Merge entries in this order until ``enough`` are gone; return the new weights, 0 for those gone.

    Each visit depends on all visits before it, so this is a loop. It runs over pairs of neighbors with the same value
    only, and reads plain buffers, which is faster than reading single elements of arrays.
    """
    result = weights.copy()
    weight, start, near = result.data, starts.data, neighbors.data
    gone = 0
    for entry in order.data:
        if not weight[entry]:
            continue
        for place in range(start[entry], start[entry + 1]):
            if gone == enough:
                return result
            other = near[place]
            if weight[other] == 1:
                weight[other] = 0
                weight[entry] += 1
                gone += 1
    return result
