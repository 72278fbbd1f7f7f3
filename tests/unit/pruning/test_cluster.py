"""Cluster pruning: groups, costs and clusters compared with slow versions, and the minimum of each cluster."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import SettingError
from lacuna.pruning import Cluster
from lacuna.pruning.cluster import cost_clusters, ngram_groups, shares, translation_costs
from unit.pruning.tables import RATIOS, SEEDS, Table, tables


def partition(numbers: np.ndarray) -> set[frozenset[int]]:
    members = defaultdict(set)
    for row, number in enumerate(numbers.tolist()):
        members[number].add(row)
    return {frozenset(rows) for rows in members.values()}


@given(tables(), st.integers(1, 4))
def test_groups_have_the_same_phrase(table: Table, ngram: int) -> None:
    phrases = defaultdict(set)
    for row, place in enumerate(table.position.tolist()):
        start = row - min(place, ngram - 1)
        phrases[tuple(table.values[start : row + 1].tolist())].add(row)
    # A phrase cut short by the start of its sentence is shorter, so it equals no other.
    found = partition(ngram_groups(table.values, table.position, ngram))
    assert found == {frozenset(rows) for rows in phrases.values()}


def test_costs_worked_by_hand() -> None:
    log_p = np.log(np.array([0.5, 0.1, 0.9, 0.2], np.float32))
    position = np.array([0, 1, 2, 0], np.int32)
    single = [-math.log(p + 1e-5) for p in (0.5, 0.1, 0.9, 0.2)]
    assert single[:2] == pytest.approx([0.69313, 2.30249], abs=1e-5)
    assert translation_costs(log_p, position, 1).tolist() == pytest.approx(single, abs=1e-6)
    # The second is cheaper together with the first (2.99562 / 2); the third alone; the fourth has nothing before it.
    assert translation_costs(log_p, position, 2).tolist() == pytest.approx(
        [0.69313, 1.49781, single[2], single[3]], abs=1e-5
    )


@given(tables(), st.integers(1, 5))
def test_costs_are_the_least_mean(table: Table, ngram: int) -> None:
    token = [-math.log(math.exp(value) + 1e-5) for value in table.log_p_gold.tolist()]
    least = [
        min(sum(token[row - n + 1 : row + 1]) / n for n in range(1, min(ngram, place + 1) + 1))
        for row, place in enumerate(table.position.tolist())
    ]
    assert translation_costs(table.log_p_gold, table.position, ngram).tolist() == pytest.approx(least)


def greedy(costs: dict[int, float], threshold: float) -> set[frozenset[int]]:
    """Cluster one group as the paper's code does, with every pair compared."""
    left, clusters = dict(sorted(costs.items(), key=lambda item: item[1])), set()
    while left:
        near = {row: {other for other in left if abs(left[other] - left[row]) <= threshold} for row in left}
        best = max(near.values(), key=len)  # the first of equals
        clusters.add(frozenset(best))
        left = {row: cost for row, cost in left.items() if row not in best}
    return clusters


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 92)), min_size=1, max_size=60),
    st.sampled_from([0, 0.125, 1.5, 3, math.inf]),
)
def test_clusters_are_the_greedy_ones(entries: list[tuple[int, int]], threshold: float) -> None:
    groups = np.array([group for group, _ in entries])
    costs = np.array([eighths / 8 for _, eighths in entries])  # so that many are equal, and some just within reach
    wanted: set[frozenset[int]] = set()
    for group in set(groups.tolist()):
        wanted |= greedy({int(row): float(costs[row]) for row in np.flatnonzero(groups == group)}, threshold)
    cluster = cost_clusters(groups, costs, threshold)
    assert partition(cluster) == wanted
    assert set(cluster.tolist()) == set(range(len(wanted)))


def test_the_fullest_stretch_becomes_the_first_cluster() -> None:
    # Within 1.5 of a cost of 3 are five entries, of no other as many; the entry of cost 0 is left to itself.
    costs = np.array([0, 1.5, 3, 3, 4.5, 4.5])
    assert partition(cost_clusters(np.zeros(6, np.int64), costs, 1.5)) == {frozenset({0}), frozenset({1, 2, 3, 4, 5})}
    # Without the last, 1.5 and 3 have four each: the cheaper becomes the center.
    assert partition(cost_clusters(np.zeros(5, np.int64), costs[:5], 1.5)) == {frozenset({0, 1, 2, 3}), frozenset({4})}


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.floats(0, 1))
def test_shares_are_as_large_as_can_be(sizes: list[int], share: float) -> None:
    def total(part: Fraction) -> int:
        return sum(max(min(2, size), math.floor(part * size)) for size in sizes)

    most = round(total(Fraction(0)) + share * (sum(sizes) - total(Fraction(0))))
    parts = {Fraction(count, size) for size in sizes for count in range(size + 1)}
    counts = shares(np.array(sizes), most)
    assert max(total(part) for part in parts if total(part) <= most) <= counts.sum() <= most
    assert all(min(2, size) <= count <= size for size, count in zip(sizes, counts.tolist(), strict=True))


@given(tables(), st.integers(1, 3), st.sampled_from([0.5, 1.5, 20]), RATIOS, SEEDS)
def test_the_ratio_is_exact_and_each_cluster_keeps_its_least(
    table: Table, ngram: int, threshold: float, ratio: float, seed: int
) -> None:
    pruner, entries = Cluster(ngram, threshold), len(table.values)
    cluster = cost_clusters(
        ngram_groups(table.values, table.position, ngram),
        translation_costs(table.log_p_gold, table.position, ngram),
        threshold,
    ).tolist()
    sizes = Counter(cluster)
    possible = entries - sum(min(2, size) for size in sizes.values())
    wanted = round(ratio * entries)
    if wanted > possible:
        with pytest.raises(SettingError, match=f"at most {possible} .*smaller ngram"):
            pruner.prune(table, ratio=ratio, seed=seed)
    pruning = pruner.prune(table, ratio=ratio, seed=seed, clamp=True)
    assert np.count_nonzero(~pruning.keep) == min(wanted, possible)
    kept = Counter(number for number, keep in zip(cluster, pruning.keep, strict=True) if keep)
    assert all(kept[number] >= min(2, size) for number, size in sizes.items())
    assert np.array_equal(pruning.keep, pruner.prune(table, ratio=ratio, seed=seed, clamp=True).keep)
    assert sum(group.dropped for group in pruning.groups.values()) == min(wanted, possible)


def test_another_seed_draws_others_and_large_clusters_lose_the_same_share() -> None:
    rows = 900
    table = Table(
        np.ones(rows, bool),
        values=np.repeat(np.array([7, 8], np.int32), [600, 300]),
        log_p_gold=np.zeros(rows, np.float32),
        sentence=np.arange(rows, dtype=np.int32),
        position=np.zeros(rows, np.int32),
    )
    masks = [Cluster().prune(table, ratio=0.4, seed=seed).keep for seed in range(5)]
    assert len({mask.tobytes() for mask in masks}) == 5
    assert all((np.count_nonzero(mask[:600]), np.count_nonzero(mask[600:])) == (360, 180) for mask in masks)


def test_a_store_with_gaps_is_refused() -> None:
    position = np.array([0, 1, 2, 0, 1], np.int32)
    table = Table(
        np.ones(5, bool),
        log_p_gold=np.zeros(5, np.float32),
        sentence=np.array([0, 0, 0, 1, 1], np.int32),
        position=position,
    )
    assert Cluster().prune(table, ratio=0, seed=0).keep.all()
    for row in (1, 3):  # a place inside a sentence, and the first of one
        position[row] += 1
        with pytest.raises(SettingError, match=r"before . entries some are missing"):
            Cluster().prune(table, ratio=0, seed=0)
        position[row] -= 1


def test_settings_out_of_range() -> None:
    for settings in ({"ngram": 0}, {"threshold": -1.0}, {"threshold": math.nan}):
        with pytest.raises(SettingError, match="got"):
            Cluster(**settings)
