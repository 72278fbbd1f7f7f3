"""Cluster-based pruning (Wang et al., 2022): keep some of the entries with the same n-gram and a similar cost.

Entries are similar if they have the same value after the same tokens (an n-gram) and the model gives the phrase a
similar cost. Differences from the released code: n-grams are compared token by token (there, a float represents them),
and groups of every size are clustered in the same way (there, groups of over 10,000 use Birch, because the code builds
a square matrix per group; but costs are one-dimensional, so the neighbors of a cost are a range of the sorted costs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import SettingError
from lacuna.pruning.base import EntryTable, Pruning, count_groups, drop_count, limit_drops, seeded_rng

# Entries kept of each cluster, or all of a smaller one.
MIN_KEPT = 2

_NOTHING = -1
# Added to a probability before its logarithm, as in the released code; the largest cost is 11.6.
_FLOOR = 1e-5
# Costs are compared as integer multiples of 2**-20, and the costs of two groups are 2**25 apart, more than any cost or
# threshold. One sorted array can therefore hold all groups, without a rounding error.
_TICK_BITS, _GROUP_BITS = 20, 25
_FARTHEST = 1 << 24


@dataclass(frozen=True, slots=True)
class Cluster:
    """Keeps the same share of every cluster, and at least two entries of each.

    The share is the largest that drops enough. Because counts are integers, it may drop a few too many; random ones of
    these are kept again.

    :param ngram: Length of the n-grams that must be equal. They end with the value; phrases whose cost counts are at
        most as long. The default is that of the authors' released code.
    :param threshold: Largest difference of translation costs within a group. Costs are compared with that of the
        cluster's center.
    """

    name: ClassVar[str] = "cluster"
    reads_margins: ClassVar[bool] = False
    changes_keys: ClassVar[bool] = False
    ngram: int = 2
    threshold: float = 1.5

    def __post_init__(self) -> None:
        if self.ngram < 1:
            raise SettingError(f"ngram: got {self.ngram}; allowed is 1 or more")
        if not self.threshold >= 0:
            raise SettingError(f"threshold: got {self.threshold}; allowed is 0 or more")

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Cluster all entries and draw the same share of each cluster."""
        total = len(entries.values)
        asked, rng = drop_count(ratio, total, self.name), seeded_rng(seed)
        _refuse_gaps(entries)
        groups = ngram_groups(entries.values, entries.position, self.ngram)
        costs = translation_costs(entries.log_p_gold, entries.position, self.ngram)
        cluster = cost_clusters(groups, costs, self.threshold)
        sizes = np.bincount(cluster)
        count = limit_drops(
            asked,
            total - int(np.minimum(sizes, MIN_KEPT).sum()),
            total,
            f"{MIN_KEPT} entries of each cluster are kept",
            "use a smaller ratio, or larger clusters with a smaller ngram or a larger threshold",
            clamp,
        )
        keep = _draw_shares(cluster, shares(sizes, total - count), rng)
        dropped = np.flatnonzero(~keep)
        keep[rng.choice(dropped, size=len(dropped) - count, replace=False, shuffle=False)] = True
        small = (sizes <= MIN_KEPT)[cluster]
        names = {f"in a cluster of {MIN_KEPT} or fewer": small, f"in a cluster of more than {MIN_KEPT}": ~small}
        return Pruning(keep, count_groups(keep, names))


def ngram_groups(values: NDArray[np.int32], position: NDArray[np.int32], ngram: int) -> NDArray[np.int64]:
    """Return a group number per entry: equal for the same value after the same ``ngram - 1`` tokens.

    The start of a sentence counts as a token that differs from all others.
    """
    groups = np.unique(values, return_inverse=True)[1]
    for back in range(1, ngram):
        before = _before(values, position, back, _NOTHING).astype(np.int64) - _NOTHING
        # No overflow: both factors are counts, of groups and of tokens.
        groups = np.unique(groups * (before.max(initial=0) + 1) + before, return_inverse=True)[1]
    return groups


def translation_costs(log_p_gold: NDArray[np.float32], position: NDArray[np.int32], ngram: int) -> NDArray[np.float64]:
    """Return for each entry the smallest mean cost of the phrases of 1 to ``ngram`` tokens that end with it.

    The cost of a token is ``-log(p + 1e-5)``. A phrase does not cross the start of a sentence. (In the released code it
    may, at the cost of an impossible token, which is never the smallest; and token 0 counts as no token there.)
    """
    cost = -np.log(np.exp(log_p_gold.astype(np.float64)) + _FLOOR)
    lowest, total = cost.copy(), cost.copy()
    for back in range(1, ngram):
        total += _before(cost, position, back, np.inf)
        np.minimum(lowest, total / (back + 1), out=lowest)
    return lowest


def cost_clusters(groups: NDArray[np.int64], costs: NDArray[np.float64], threshold: float) -> NDArray[np.int64]:
    """Cluster the costs of each group; return the cluster number of each entry.

    In each group, the entry with the most others within ``threshold`` of its cost (on a tie, the cheapest) forms a
    cluster with them; this repeats with the remaining entries. Each iteration handles all groups, and centers are more
    than a threshold apart, so there are few iterations.
    """
    if not len(groups):
        return np.empty(0, dtype=np.int64)
    ticks = np.rint((costs - costs.min()) * (1 << _TICK_BITS)).astype(np.int64)
    radius = int(min(threshold * (1 << _TICK_BITS), _FARTHEST))
    positions = (groups << _GROUP_BITS) + ticks
    order = np.argsort(positions, kind="stable")
    positions = positions[order]
    cluster, clusters = np.empty(len(order), dtype=np.int64), 0
    while len(order):
        first, last = (
            np.searchsorted(positions, positions - radius, "left"),
            np.searchsorted(positions, positions + radius, "right"),
        )
        centers = _first_of_most(last - first, positions >> _GROUP_BITS)
        first, last = first[centers], last[centers]
        inside = _range_mask(first, last, len(order))
        cluster[order[inside]] = clusters + np.repeat(np.arange(len(centers)), last - first)
        clusters += len(centers)
        order, positions = order[~inside], positions[~inside]
    return cluster


def shares(sizes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return the number of entries to keep of each cluster: ``max(min(2, size), floor(share * size))``.

    The share is the same for all clusters, and the largest for which the numbers sum to at most ``most``.
    """
    if sizes.sum() <= most:
        return sizes
    least = np.minimum(sizes, MIN_KEPT)
    low, high = 0.0, 1.0
    for _ in range(np.finfo(np.float64).nmant):
        middle = (low + high) / 2
        fits = int(np.maximum(least, np.floor(middle * sizes)).sum()) <= most
        low, high = (middle, high) if fits else (low, middle)
    return np.asarray(np.maximum(least, np.floor(low * sizes)), dtype=np.int64)


def _before(column: NDArray[Any], position: NDArray[np.int32], back: int, missing: float) -> NDArray[Any]:
    """Return for each entry the value of the entry ``back`` positions before it in its sentence."""
    before = np.full_like(column, missing)
    before[back:] = column[:-back]
    before[position < back] = missing
    return before


def _first_of_most(counts: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first position of the highest count in each group; groups are contiguous."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(starts, append=len(groups))
    highest = np.flatnonzero(counts == np.repeat(np.maximum.reduceat(counts, starts), lengths))
    return np.asarray(highest[np.diff(groups[highest], prepend=-1) != 0])


def _range_mask(first: NDArray[np.int64], last: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
    """Return the mask of the half-open ranges from ``first`` to ``last``, which do not overlap."""
    steps = np.zeros(length + 1, dtype=np.int8)
    steps[first] += 1
    steps[last] -= 1
    return np.cumsum(steps[:-1], dtype=np.int8).astype(np.bool_)


def _draw_shares(cluster: NDArray[np.int64], counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw ``counts`` entries of each cluster; return their mask."""
    order = rng.permutation(len(cluster))
    order = order[np.argsort(cluster[order], kind="stable")]
    sorted_clusters, sizes = cluster[order], np.bincount(cluster)
    starts = np.cumsum(sizes) - sizes
    keep = np.empty(len(cluster), dtype=np.bool_)
    keep[order] = np.arange(len(cluster)) - starts[sorted_clusters] < counts[sorted_clusters]
    return keep


def _refuse_gaps(entries: EntryTable) -> None:
    """Refuse a store in which tokens before an entry are missing."""
    if not len(entries.position):
        return
    new = np.diff(entries.sentence, prepend=-1) != 0
    expected = np.where(new, 0, np.append(-1, entries.position[:-1]) + 1)
    gaps = int(np.count_nonzero(entries.position != expected))
    if gaps:
        raise SettingError(
            f"method: cluster needs the tokens before each entry, but before {gaps:,} entries some are missing; "
            "cluster the original store, not one that was pruned before"
        )
