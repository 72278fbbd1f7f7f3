"""Greedy merging (He et al., 2021; Martins et al., 2022): near entries of the same value become one with a weight.

Knows nothing of how neighbors are found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import SettingError
from lacuna.pruning.base import EntryTable, Pruning, chance, count_groups, wanted, within_reach


@dataclass(frozen=True, slots=True)
class Merge:
    """Visits entries in random order; each takes in those of its neighbors that have its value and stand alone.

    An entry that has taken in others, now or in an earlier merging, is not taken in itself. The survivor keeps its
    key; its weight is the number of entries it stands for. The visits end when enough entries are gone.

    :param k: Neighbors looked at. 5 as in the released code of Martins et al.
    """

    name: ClassVar[str] = "merge"
    k: int = 5

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SettingError(f"k: got {self.k}; allowed is 1 or more")

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Merge until enough entries are gone, or no visit is left."""
        values, rng = entries.values, chance(seed)
        asked = wanted(ratio, len(values), self.name)
        before = np.ones(len(values), np.float32) if entries.weights is None else entries.weights
        starts, candidates = like_neighbors(values, entries.neighbors(self.k))
        order = rng.permutation(len(values))
        weights = merge_greedily(before, order[starts[order] < starts[order + 1]], starts, candidates, asked)
        keep = weights > 0
        within_reach(
            asked,
            int(np.count_nonzero(~keep)),
            len(values),
            f"only the {self.k} nearest neighbors of the same value are merged",
            "ask for less, or look at more neighbors with a larger k",
            clamp,
        )
        groups = {"merged into a neighbor": ~keep, "took in others": weights > before, "as before": weights == before}
        return Pruning(keep, count_groups(keep, groups), weights)


def like_neighbors(
    values: NDArray[np.int32], blocks: Iterable[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Keep of all neighbors those of the same value.

    :param blocks: Neighbors of each entry, nearest first, -1 for none; (entries, k), one block after the other.
    :return: Where the neighbors of each entry start, with the end of the last; and the neighbors.
    """
    counts, found, first = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], 0
    for ids in blocks:
        own = values[first : first + len(ids)]
        like = (ids >= 0) & (values[ids] == own[:, None])
        counts.append(like.sum(axis=1))
        found.append(ids[like].astype(np.int32))
        first += len(ids)
    return np.cumsum(np.concatenate(counts)), np.concatenate(found)


def merge_greedily(
    weights: NDArray[np.float32],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    neighbors: NDArray[np.int32],
    enough: int,
) -> NDArray[np.float32]:
    """Merge entries in this order until ``enough`` are gone; return the new weights, 0 for those gone.

    What a visit may do depends on all the visits before it, so this is a loop; it runs over nothing but pairs of like
    neighbors, and reads plain buffers, which is quicker than reading single numbers of arrays.
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
