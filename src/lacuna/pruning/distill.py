"""Datastore distillation (Dai et al., 2024): merge near entries of the same value, and their keys with them.

Follows the authors' released code (github.com/dirkiedai/datastore_distillation, with the settings of its script); the
article itself is not public. Differences: entries are visited in random order unless ``visits`` says otherwise; a new
key is rounded to float16 once, not at each merge; and pruning ends at exactly the ratio. This module does not search
for neighbors itself, and reads no keys: it says which keys to mix.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.merged_keys import MergedKeys
from lacuna.errors import SettingError
from lacuna.pruning.base import EntryTable, Pruning, count_groups, drop_count, limit_drops, seeded_rng

VisitOrder = Literal["random", "corpus"]
VISIT_ORDERS: tuple[VisitOrder, ...] = ("random", "corpus")


@dataclass(frozen=True, slots=True)
class Distill:
    """Merges entries with their nearest neighbor if it has the same value, then with the second nearest, and so on.

    How often an entry is among the neighbors of others is its degree. Of two merged entries, that of the higher degree
    remains, with its sentence and the model's predictions there (on a tie, the neighbor of the visited one). Its key
    becomes the mean of both, weighted by degree; weights and degrees add up. A neighbor that is gone is passed over.

    :param k: Neighbors to merge with. The n-th iteration visits all entries and compares them with their n-th neighbor.
    :param degree_k: Neighbors of each entry that count for their degrees. Must be k or more.
    :param visits: random or corpus: the order in which entries are visited. The authors' script visits them in corpus
        order; then the end of the corpus stays as it is if one iteration drops enough.
    """

    name: ClassVar[str] = "distill"
    reads_margins: ClassVar[bool] = False
    changes_keys: ClassVar[bool] = True
    k: int = 8
    degree_k: int = 128
    visits: VisitOrder = "random"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SettingError(f"k: got {self.k}; allowed is 1 or more")
        if self.degree_k < self.k:
            raise SettingError(f"degree_k: got {self.degree_k}; allowed is {self.k} (k) or more")
        if self.visits not in VISIT_ORDERS:
            raise SettingError(f"visits: got {self.visits!r}; allowed: {', '.join(VISIT_ORDERS)}")

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Merge until enough entries are gone or all neighbors were tried."""
        values, rng = entries.values, seeded_rng(seed)
        asked = drop_count(ratio, len(values), self.name)
        near, degrees = same_value_ranks(values, entries.neighbors(self.degree_k), self.k)
        order = rng.permutation(len(values)) if self.visits == "random" else np.arange(len(values))
        merges = merge_ranks(near, degrees, order, asked)
        limit_drops(
            asked,
            len(merges.gone),
            len(values),
            f"only the {self.k} nearest neighbors of the same value are merged",
            "use a smaller ratio or a larger k",
            clamp,
        )
        into, share = trace(merges, len(values))
        before = np.ones(len(values), np.float32) if entries.weights is None else entries.weights
        weights = np.bincount(into, before, minlength=len(values)).astype(np.float32)
        keep = weights > 0
        groups = {"merged into a neighbor": ~keep, "took in others": weights > before, "as before": weights == before}
        return Pruning(keep, count_groups(keep, groups), weights, MergedKeys.of(into, share))


class Merges(NamedTuple):
    """Merges of two entries, in the order in which they were made.

    :param gone: The entry that was merged into the other.
    :param into: The other.
    :param share: Share of the key of ``gone`` in the mean of both.
    """

    gone: NDArray[np.int64]
    into: NDArray[np.int64]
    share: NDArray[np.float64]


def same_value_ranks(
    values: NDArray[np.int32], blocks: Iterable[NDArray[np.int64]], k: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the ``k`` nearest neighbors of each entry (k, entries), -1 for another value, and the degrees of entries.

    :param blocks: At least ``k`` neighbors of each entry in consecutive blocks, nearest first, -1 for none.
    """
    near, degrees, first = np.full((k, len(values)), -1, np.int32), np.zeros(len(values), np.int64), 0
    for ids in blocks:
        degrees += np.bincount(ids[ids >= 0], minlength=len(values))
        rows, ranks = slice(first, first + len(ids)), ids[:, :k]
        same = (ranks >= 0) & (values[ranks] == values[rows, None])
        near[: ranks.shape[1], rows] = np.where(same, ranks, -1).T
        first += len(ids)
    return near, degrees


def merge_ranks(near: NDArray[np.int32], degrees: NDArray[np.int64], order: NDArray[np.int64], enough: int) -> Merges:
    """Merge entries with their neighbors, rank by rank and in this order, until ``enough`` are gone.

    Each merge depends on all before it, so this is a loop, over pairs of the same value only.

    :param near: The neighbors (k, entries) of the same value, -1 for none.
    :param degrees: Of each entry; 1 or more for those in ``near``.
    """
    gone, into, shares = list[int](), list[int](), list[float]()
    present, degree = bytearray(b"\x01") * len(order), degrees.tolist()
    for neighbors in near:
        visited = order[neighbors[order] >= 0]
        for entry, other in zip(visited.tolist(), neighbors[visited].tolist(), strict=True):
            if len(gone) == enough:
                break
            if not (present[entry] and present[other]):
                continue
            drop, stay = (entry, other) if degree[entry] <= degree[other] else (other, entry)
            total = degree[entry] + degree[other]
            gone.append(drop)
            into.append(stay)
            shares.append(degree[drop] / total)  # not 0: a neighbor has a degree of 1 or more
            present[drop], degree[stay] = 0, total
    return Merges(np.array(gone, np.int64), np.array(into, np.int64), np.array(shares))


def trace(merges: Merges, entries: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return for each entry the one that it is part of in the end, and its share in the key of that one.

    The last merges come first: what an entry was merged into then, and with which share, is known already.
    """
    into, share = list(range(entries)), [1.0] * entries
    for gone, other, part in zip(*(column[::-1].tolist() for column in merges), strict=True):
        into[gone] = into[other]
        share[gone] = share[other] * part
        share[other] *= 1 - part
    return np.array(into, np.int64), np.array(share, np.float32)
