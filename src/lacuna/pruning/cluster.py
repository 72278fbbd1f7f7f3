"""Cluster-based pruning (Wang et al., 2022): of entries with the same phrase and a like cost, some are enough.

Entries are alike if they have the same value after the same tokens (an n-gram), and the model finds the phrase about
as hard. Compared with the released code: n-grams are compared token by token (there, a float stands for them); and
groups of every size are clustered in the same way (there, those of over 10,000 go to Birch, because the code makes a
square matrix of each group; but costs lie on a line, so neighbors are a stretch of the sorted costs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import SettingError
from lacuna.pruning.base import EntryTable, Pruning, chance, count_groups, wanted, within_reach

# Kept of each cluster at least, where it has as many.
LEAST = 2

_NOTHING = -1
# Added to a probability before its logarithm, as the released code has it; so no cost is above 11.6.
_FLOOR = 1e-5
# Costs are compared as whole numbers of 2**-20, and the costs of two groups lie 2**25 apart, which no cost and no
# threshold bridges; so one sorted array holds all groups, without a rounding error.
_TICK_BITS, _GROUP_BITS = 20, 25
_FARTHEST = 1 << 24


@dataclass(frozen=True, slots=True)
class Cluster:
    """Keeps a share of each cluster, the same share of all, and of each at least two entries.

    The share is the largest that drops as much as asked for; what it drops too much, for the share of a cluster is a
    whole number, comes back at random.

    :param ngram: Tokens that must be the same, the value among them; also the longest phrase whose cost is looked at.
        2 as in the authors' released code.
    :param threshold: Entries whose costs are at most so far apart may share a cluster.
    """

    name: ClassVar[str] = "cluster"
    ngram: int = 2
    threshold: float = 1.5

    def __post_init__(self) -> None:
        if self.ngram < 1:
            raise SettingError(f"ngram: got {self.ngram}; allowed is 1 or more")
        if not self.threshold >= 0:
            raise SettingError(f"threshold: got {self.threshold}; allowed is 0 or more")

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Cluster all entries, and draw the same share of each cluster."""
        total = len(entries.values)
        asked, rng = wanted(ratio, total, self.name), chance(seed)
        _refuse_gaps(entries)
        groups = ngram_groups(entries.values, entries.position, self.ngram)
        costs = translation_costs(entries.log_p_gold, entries.position, self.ngram)
        cluster = cost_clusters(groups, costs, self.threshold)
        sizes = np.bincount(cluster)
        count = within_reach(
            asked,
            total - int(np.minimum(sizes, LEAST).sum()),
            total,
            f"{LEAST} entries of each cluster are kept",
            "ask for less, or make clusters larger with a smaller ngram or a larger threshold",
            clamp,
        )
        keep = _draw_shares(cluster, shares(sizes, total - count), rng)
        dropped = np.flatnonzero(~keep)
        keep[rng.choice(dropped, size=len(dropped) - count, replace=False, shuffle=False)] = True
        small = (sizes <= LEAST)[cluster]
        names = {f"in a cluster of {LEAST} or fewer": small, f"in a cluster of more than {LEAST}": ~small}
        return Pruning(keep, count_groups(keep, names))


def ngram_groups(values: NDArray[np.int32], position: NDArray[np.int32], ngram: int) -> NDArray[np.int64]:
    """Give entries with the same value and the same ``ngram - 1`` tokens before it the same number.

    Before the start of a sentence stands nothing, which is like nothing else.
    """
    groups = np.unique(values, return_inverse=True)[1]
    for back in range(1, ngram):
        before = _before(values, position, back, _NOTHING).astype(np.int64) - _NOTHING
        # Both factors are small enough: numbers of groups and of tokens.
        groups = np.unique(groups * (before.max(initial=0) + 1) + before, return_inverse=True)[1]
    return groups


def translation_costs(log_p_gold: NDArray[np.float32], position: NDArray[np.int32], ngram: int) -> NDArray[np.float64]:
    """Give each entry the least of the mean costs of the phrases that end with it, of 1 to ``ngram`` tokens.

    The cost of a token is ``-log(p + 1e-5)``. A phrase does not reach over the start of a sentence. (The released code
    lets it, at the cost of an impossible token, which is never the least; and it takes token 0 as no token at all.)
    """
    cost = -np.log(np.exp(log_p_gold.astype(np.float64)) + _FLOOR)
    least, total = cost.copy(), cost.copy()
    for back in range(1, ngram):
        total += _before(cost, position, back, np.inf)
        np.minimum(least, total / (back + 1), out=least)
    return least


def cost_clusters(groups: NDArray[np.int64], costs: NDArray[np.float64], threshold: float) -> NDArray[np.int64]:
    """Cluster the costs of each group; return the number of each entry's cluster.

    In each group, the entry with the most others within ``threshold`` of its cost (of equals the cheapest) becomes a
    cluster together with them, and so on with those left. All groups take a step at once, and since such centers lie
    more than a threshold apart, there are few steps.
    """
    if not len(groups):
        return np.empty(0, dtype=np.int64)
    ticks = np.rint((costs - costs.min()) * (1 << _TICK_BITS)).astype(np.int64)
    reach = int(min(threshold * (1 << _TICK_BITS), _FARTHEST))
    places = (groups << _GROUP_BITS) + ticks
    order = np.argsort(places, kind="stable")
    places = places[order]
    cluster, clusters = np.empty(len(order), dtype=np.int64), 0
    while len(order):
        first, last = np.searchsorted(places, places - reach, "left"), np.searchsorted(places, places + reach, "right")
        centers = _first_of_most(last - first, places >> _GROUP_BITS)
        first, last = first[centers], last[centers]
        inside = _stretches(first, last, len(order))
        cluster[order[inside]] = clusters + np.repeat(np.arange(len(centers)), last - first)
        clusters += len(centers)
        order, places = order[~inside], places[~inside]
    return cluster


def shares(sizes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Say how many to keep of each cluster: ``max(min(2, size), floor(share * size))``, ``most`` in all or fewer.

    The share is the same for all clusters and as large as can be.
    """
    if sizes.sum() <= most:
        return sizes
    least = np.minimum(sizes, LEAST)
    low, high = 0.0, 1.0
    for _ in range(np.finfo(np.float64).nmant):
        middle = (low + high) / 2
        fits = int(np.maximum(least, np.floor(middle * sizes)).sum()) <= most
        low, high = (middle, high) if fits else (low, middle)
    return np.asarray(np.maximum(least, np.floor(low * sizes)), dtype=np.int64)


def _before(column: NDArray[Any], position: NDArray[np.int32], back: int, missing: float) -> NDArray[Any]:
    """Give each entry the number of the entry ``back`` places before it in its sentence."""
    before = np.full_like(column, missing)
    before[back:] = column[:-back]
    before[position < back] = missing
    return before


def _first_of_most(counts: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the first place in each group, of groups that follow each other, where the count is the highest."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(starts, append=len(groups))
    highest = np.flatnonzero(counts == np.repeat(np.maximum.reduceat(counts, starts), lengths))
    return np.asarray(highest[np.diff(groups[highest], prepend=-1) != 0])


def _stretches(first: NDArray[np.int64], last: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
    """Mark the places from each ``first`` to before its ``last``; stretches do not overlap."""
    steps = np.zeros(length + 1, dtype=np.int8)
    steps[first] += 1
    steps[last] -= 1
    return np.cumsum(steps[:-1], dtype=np.int8).astype(np.bool_)


def _draw_shares(cluster: NDArray[np.int64], counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw so many of each cluster; return a mask of those drawn."""
    order = rng.permutation(len(cluster))
    order = order[np.argsort(cluster[order], kind="stable")]
    mine, sizes = cluster[order], np.bincount(cluster)
    starts = np.cumsum(sizes) - sizes
    keep = np.empty(len(cluster), dtype=np.bool_)
    keep[order] = np.arange(len(cluster)) - starts[mine] < counts[mine]
    return keep


def _refuse_gaps(entries: EntryTable) -> None:
    """Refuse a store in which the tokens before an entry may be missing."""
    if not len(entries.position):
        return
    new = np.diff(entries.sentence, prepend=-1) != 0
    expected = np.where(new, 0, np.append(-1, entries.position[:-1]) + 1)
    gaps = int(np.count_nonzero(entries.position != expected))
    if gaps:
        raise SettingError(
            f"method: cluster needs the tokens before each entry, but at {gaps:,} places some were pruned before; "
            "prune the store that this one was made from"
        )
