"""Merging, compared with a slow version: weights sum to the entries, and values are equal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import SettingError
from lacuna.pruning import Merge
from unit.pruning.tables import RATIOS, SEEDS, Table, tables


def slow_merge(table: Table, k: int, seed: int, enough: int) -> list[float]:
    weights = [1.0] * len(table.values) if table.weights is None else table.weights.tolist()
    removed = 0
    for entry in np.random.default_rng(seed).permutation(len(weights)):
        if weights[entry] <= 0:
            continue
        for near in table.near[entry, :k]:
            alike = near >= 0 and near != entry and table.values[near] == table.values[entry]
            if removed < enough and alike and weights[near] == 1:
                weights[near] = 0
                weights[entry] += 1
                removed += 1
    return weights


@given(tables(), st.integers(1, 6), RATIOS, SEEDS, st.booleans())
def test_it_is_the_slow_merge(table: Table, k: int, ratio: float, seed: int, merged_before: bool) -> None:
    if merged_before:
        table = replace(table, weights=np.random.default_rng(seed).integers(1, 3, len(table.values)).astype(np.float32))
    entries = len(table.values)
    wanted, possible = round(ratio * entries), slow_merge(table, k, seed, entries).count(0)
    if wanted > possible:
        with pytest.raises(SettingError, match=f"at most {possible} .*larger k"):
            Merge(k).prune(table, ratio=ratio, seed=seed)
    pruning = Merge(k).prune(table, ratio=ratio, seed=seed, clamp=True)
    assert pruning.weights is not None
    assert pruning.weights.tolist() == slow_merge(table, k, seed, wanted)
    assert np.count_nonzero(~pruning.keep) == min(wanted, possible)
    before = np.ones(entries) if table.weights is None else table.weights
    for value in np.unique(table.values):  # merging moves weight only among entries of one value
        same = table.values == value
        assert pruning.weights[same].sum() == before[same].sum()
    assert np.array_equal(pruning.keep, pruning.weights > 0)
    assert sum(group.kept for group in pruning.groups.values()) == entries - min(wanted, possible)


def test_worked_example() -> None:
    # Entries 0, 1, 2 have one value and see each other; 3 has another and sees all of them.
    near = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
    table = Table(np.ones(4, bool), values=np.array([5, 5, 5, 6], np.int32), near=near)
    for seed in range(10):
        weights = Merge(k=2).prune(table, ratio=0.5, seed=seed).weights
        assert weights is not None
        assert sorted(weights[:3].tolist()) == [0, 0, 3]
        assert weights[3] == 1
        assert weights.sum() == 4
    groups = Merge(k=2).prune(table, ratio=0.5, seed=0).groups
    assert groups == {"merged into a neighbor": (0, 2), "took in others": (1, 0), "as before": (1, 0)}


def test_another_seed_merges_others() -> None:
    rows = 100
    near = np.stack([np.roll(np.arange(rows), -1), np.roll(np.arange(rows), 1)], axis=1)
    table = Table(np.ones(rows, bool), near=near)
    assert len({Merge(k=2).prune(table, ratio=0.2, seed=seed).keep.tobytes() for seed in range(10)}) == 10


def test_too_few_neighbors() -> None:
    with pytest.raises(SettingError, match="k: got 0"):
        Merge(k=0)
