"""Distillation, compared with a slow version that moves keys at every merge; and new keys in the pruned store."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.datastore import Store, open_store, verify_store
from lacuna.datastore.columns import COLUMNS, Keys
from lacuna.datastore.merged_keys import MergedKeys
from lacuna.errors import SettingError
from lacuna.progress import SILENT
from lacuna.pruning import PRUNERS, Distill, Pruning, make_pruner, prune_store
from lacuna.pruning.pruned_store import StoreEntries
from unit.datastore.disk import contents
from unit.pruning.tables import RATIOS, SEEDS, Table, tables

DIMENSION = 3


def slow_distill(
    table: Table, keys: np.ndarray, settings: Distill, seed: int, enough: int
) -> tuple[list[float], np.ndarray]:
    """Merge entries one by one; return the weights, 0 for those gone, and the keys."""
    weights = [1.0] * len(keys) if table.weights is None else table.weights.tolist()
    degrees = Counter(near for row in table.near for near in row[: settings.degree_k].tolist())
    order = np.random.default_rng(seed).permutation(len(keys)) if settings.visits == "random" else range(len(keys))
    keys, gone = keys.astype(np.float64), 0
    for rank in range(settings.k):
        for entry in order:
            near = table.near[entry, rank] if rank < table.near.shape[1] else -1
            alike = near >= 0 and table.values[near] == table.values[entry] and weights[entry] and weights[near]
            if gone == enough or not alike:
                continue
            a, b = degrees[entry], degrees[near]
            mean = (a * keys[entry] + b * keys[near]) / (a + b)
            drop, stay = (entry, near) if a <= b else (near, entry)
            keys[stay], degrees[stay], gone = mean, a + b, gone + 1
            weights[stay] += weights[drop]
            weights[drop] = 0
    return weights, keys


def new_keys(pruning: Pruning, keys: np.ndarray) -> np.ndarray:
    assert pruning.keys is not None
    half = keys.astype(np.float16)
    return pruning.keys.apply(half, Keys([half], half.shape[1]))


@given(
    tables(), st.integers(1, 5), st.integers(0, 30), st.sampled_from(["random", "corpus"]), RATIOS, SEEDS, st.booleans()
)
def test_it_is_the_slow_distillation(
    table: Table, k: int, more: int, visits: str, ratio: float, seed: int, merged_before: bool
) -> None:
    entries, rng = len(table.values), np.random.default_rng(seed)
    if merged_before:
        table = replace(table, weights=rng.integers(1, 4, entries).astype(np.float32))
    keys = rng.integers(-64, 64, (entries, DIMENSION)).astype(np.float16)
    pruner = Distill(k, k + more, visits)  # type: ignore[arg-type]
    wanted = round(ratio * entries)
    possible = slow_distill(table, keys, pruner, seed, entries)[0].count(0)
    if wanted > possible:
        with pytest.raises(SettingError, match=f"at most {possible} .*larger k"):
            pruner.prune(table, ratio=ratio, seed=seed)
    pruning = pruner.prune(table, ratio=ratio, seed=seed, clamp=True)
    weights, expected = slow_distill(table, keys, pruner, seed, wanted)
    assert pruning.weights is not None
    assert pruning.weights.tolist() == weights
    assert np.array_equal(pruning.keep, pruning.weights > 0)
    assert np.count_nonzero(~pruning.keep) == min(wanted, possible)
    kept = pruning.keep
    np.testing.assert_allclose(new_keys(pruning, keys)[kept], expected[kept], atol=0.04)  # float16 near 64
    before = np.ones(entries) if table.weights is None else table.weights
    for value in np.unique(table.values):  # nothing is merged across values
        same = table.values == value
        assert pruning.weights[same].sum() == before[same].sum()
    assert sum(group.kept + group.dropped for group in pruning.groups.values()) == entries


@given(tables(), RATIOS, SEEDS)
def test_shares_sum_to_one_and_stay_within_a_value(table: Table, ratio: float, seed: int) -> None:
    pruning = Distill().prune(table, ratio=ratio, seed=seed, clamp=True)
    merged = pruning.keys
    assert merged is not None
    assert (merged.share >= 0).all()
    assert pruning.keep[merged.into].all()
    assert np.array_equal(table.values[merged.into], table.values[merged.source])
    assert len(np.unique(merged.source)) == len(merged.source)  # each old key goes into one new key
    np.testing.assert_allclose(np.bincount(merged.into, merged.share)[np.unique(merged.into)], 1, rtol=1e-5)
    assert set(np.flatnonzero(~pruning.keep)) <= set(merged.source)


def line(*, values: list[int], near: list[list[int]]) -> Table:
    return Table(np.ones(len(values), bool), values=np.array(values, np.int32), near=np.array(near))


def test_worked_example() -> None:
    # Degrees: 0 is a neighbor of 1, 2 and 3; 1 of 0; 2 and 3 of none. All have the same value but 3.
    table = line(values=[5, 5, 5, 6], near=[[1], [0], [0], [0]])
    pruning = Distill(1, 1, "corpus").prune(table, ratio=0.5, seed=1)
    # 0 and 1 merge: 0 stays at (3 * 0 + 1 * 8) / 4 = 2, with degree 4. Then 2 merges into it with a share of 0 / 4.
    assert pruning.weights is not None
    assert pruning.weights.tolist() == [3, 0, 0, 1]
    assert new_keys(pruning, np.array([[0.0], [8], [100], [7]]))[pruning.keep].tolist() == [[2], [7]]
    assert pruning.groups == {"merged into a neighbor": (0, 2), "took in others": (1, 0), "as before": (1, 0)}


def test_a_later_iteration_takes_the_next_neighbor() -> None:
    table = line(values=[5, 6, 5, 6], near=[[1, 2], [0, 3], [3, 0], [2, 1]])
    with pytest.raises(SettingError, match="at most 0"):
        Distill(1, 2).prune(table, ratio=0.5, seed=1)
    pruning = Distill(2, 2).prune(table, ratio=0.5, seed=1)
    assert new_keys(pruning, np.array([[0.0], [10], [4], [30]]))[pruning.keep].tolist() == [[2], [20]]


def test_corpus_order_ignores_the_seed_and_random_order_does_not() -> None:
    rows = 100
    table = line(values=[0] * rows, near=[[(row + 1) % rows] for row in range(rows)])
    for visits, results in (("corpus", 1), ("random", 10)):
        pruner = make_pruner("distill", visits=visits)
        assert len({pruner.prune(table, ratio=0.2, seed=seed).keep.tobytes() for seed in range(10)}) == results


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "k: got 0"),
        ({"k": 9, "degree_k": 8}, r"degree_k: got 8; allowed is 9 \(k\) or more"),
        ({"visits": "sorted"}, "visits: got 'sorted'; allowed: random, corpus"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make_pruner("distill", **settings)


@given(st.integers(1, 40), st.integers(1, 6), SEEDS)
def test_means_do_not_depend_on_blocks_and_parts(entries: int, groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((entries, DIMENSION)).astype(np.float16)
    into = np.minimum(rng.integers(0, groups, entries), entries - 1)
    share = rng.random(entries).astype(np.float32)
    expected = keys.astype(np.float64)
    for target in np.unique(into):
        members = np.flatnonzero(into == target)
        if len(members) > 1:
            expected[target] = share[members] @ keys[members].astype(np.float64)
    plan, old = MergedKeys.of(into, share), Keys([keys], DIMENSION)
    whole = plan.apply(keys, old)
    np.testing.assert_allclose(whole, expected, rtol=2e-3, atol=2e-3)
    cut = int(rng.integers(0, entries + 1))
    parts = [plan.part(first, last).apply(keys[first:last], old) for first, last in ((0, cut), (cut, entries))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_mean_of_more_keys_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = np.arange(20, dtype=np.float16)[:, None]
    plan = MergedKeys.of(np.repeat([0, 7], [7, 13]), np.repeat(np.float32([1 / 7, 1 / 13]), [7, 13]))
    for block in (1, 2, 3, 7, 20):
        monkeypatch.setattr("lacuna.datastore.merged_keys._BLOCK", block)
        result = plan.apply(keys, Keys([keys], 1))
        assert result[[0, 7], 0].tolist() == [3, 13]
        assert np.array_equal(np.delete(result, [0, 7]), np.delete(keys, [0, 7]))


def test_the_pruned_store_has_the_means(store: Store, tmp_path: Path) -> None:
    before = contents(store.path)
    pruner = Distill(k=3, degree_k=16)
    report = prune_store(store, pruner, tmp_path / "small", ratio=0.3, seed=5)
    pruning = pruner.prune(StoreEntries(store, SILENT), ratio=0.3, seed=5)
    assert pruning.weights is not None
    assert pruning.keys is not None
    kept, old = np.flatnonzero(pruning.keep), store.keys.gather(np.arange(store.entries))
    pruned = report.store
    assert verify_store(pruned.path).problems == ()
    assert contents(store.path) == before
    assert pruned.weights is not None
    assert pruned.weights.sum() == store.entries
    for name in COLUMNS:  # a merged entry has the columns of the one that remains
        assert np.array_equal(getattr(pruned, name), getattr(store, name)[kept])
    found = pruned.keys.gather(np.arange(pruned.entries))
    for row, entry in enumerate(kept):
        parts = pruning.keys.source[pruning.keys.into == entry]
        assert len(parts) != 1
        if len(parts):
            mean = pruning.keys.share[pruning.keys.into == entry] @ old[parts].astype(np.float64)
            np.testing.assert_allclose(found[row], mean, rtol=2e-3, atol=1e-3)
        else:
            assert np.array_equal(found[row], old[entry])
    assert len({store.keys.gather(np.array([entry])).tobytes() for entry in pruning.keys.into}) > 1
    np.testing.assert_allclose(pruned.mean, found.astype(np.float64).mean(axis=0), rtol=1e-6)
    shards = np.cumsum([shard.rows for shard in store.manifest.shards])
    homes = [np.searchsorted(shards, rows, side="right") for rows in (pruning.keys.into, pruning.keys.source)]
    assert (homes[0] != homes[1]).any()  # some keys come from another shard


def test_a_distilled_store_can_be_distilled(store: Store, tmp_path: Path) -> None:
    prune_store(store, Distill(), tmp_path / "once", ratio=0.2)
    once = open_store(tmp_path / "once")
    prune_store(once, Distill(), tmp_path / "twice", ratio=0.1)
    twice = open_store(tmp_path / "twice")
    assert twice.weights is not None
    assert twice.weights.sum() == store.entries
    assert verify_store(twice.path).problems == ()


@pytest.mark.parametrize("method", PRUNERS)
def test_a_method_changes_keys_if_and_only_if_it_says_so(method: str, store: Store) -> None:
    pruner = make_pruner(method)
    pruning = pruner.prune(StoreEntries(store, SILENT), ratio=None if method == "all_known" else 0.1, seed=1)
    assert (pruning.keys is not None) == pruner.changes_keys
