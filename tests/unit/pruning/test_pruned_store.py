"""A pruned store is valid and has the kept rows of the original, which does not change."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.datastore import Store, build_store, open_store, verify_store
from lacuna.datastore import copying as module
from lacuna.datastore.columns import COLUMNS
from lacuna.errors import IndexingError, LacunaError, SettingError, StoreError
from lacuna.index import open_index
from lacuna.margin.storage import write_margins
from lacuna.pruning import (
    PRUNERS,
    AllKnown,
    Cluster,
    Known,
    Merge,
    Plac,
    Pruning,
    Random,
    Reverse,
    make_pruner,
    prune_store,
)
from lacuna.pruning.base import EntryTable, Group
from lacuna.pruning.pruned_store import StoreEntries
from made_up import make_pairs
from unit.datastore.disk import contents
from unit.datastore.numpy_model import NumpyModel


@dataclass(frozen=True)
class Fixed:
    """Keeps every entry whose number is not among those given."""

    name: ClassVar[str] = "fixed"
    dropped: list[int]

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        keep = np.ones(len(entries.values), bool)
        keep[self.dropped] = False
        return Pruning(keep, {"any": Group(int(keep.sum()), len(self.dropped))})


def assert_rows(pruned: Store, parent: Store, keep: np.ndarray, *, same_keys: bool = True) -> None:
    rows = np.flatnonzero(keep)
    for name in COLUMNS:
        assert np.array_equal(getattr(pruned, name), getattr(parent, name)[rows])
    keys = pruned.keys.gather(np.arange(pruned.entries))
    assert np.array_equal(keys, parent.keys.gather(rows)) == same_keys
    np.testing.assert_allclose(pruned.mean, keys.astype(np.float64).mean(axis=0), rtol=1e-6)
    assert list(pruned.sentences) == list(parent.sentences)


@pytest.mark.parametrize("method", PRUNERS)
def test_every_method_makes_a_sound_store_of_the_kept_rows(method: str, store: Store, tmp_path: Path) -> None:
    before = contents(store.path)
    pruner, ratio = make_pruner(method), None if method == "all_known" else 0.1
    report = prune_store(store, pruner, tmp_path / "small", ratio=ratio, seed=5)
    pruned = open_store(tmp_path / "small")
    pruning = pruner.prune(StoreEntries(store, module.SILENT), ratio=ratio, seed=5)
    assert verify_store(pruned.path).problems == ()
    assert_rows(pruned, store, pruning.keep, same_keys=not pruner.changes_keys)
    assert (report.entries, report.kept, report.into) == (store.entries, pruned.entries, pruned.path)
    assert np.array_equal(report.store.values, pruned.values)
    assert report.store.fingerprint == pruned.fingerprint
    if ratio is not None:
        assert report.dropped == round(0.1 * store.entries)
    assert report.groups == pruning.groups
    assert open_index(pruned).size == pruned.entries
    assert contents(store.path) == before
    if method in ("merge", "distill"):
        assert pruned.weights is not None
        assert pruned.weights.sum() == store.entries
    else:
        assert pruned.weights is None


def test_it_says_where_it_came_from(store: Store, tmp_path: Path) -> None:
    prune_store(store, Plac(min_margin=4), tmp_path / "small", ratio=0.2, seed=7)
    pruned = open_store(tmp_path / "small").manifest
    assert pruned.parent is not None
    assert (pruned.parent.fingerprint, pruned.parent.entries) == (store.fingerprint, store.entries)
    assert pruned.parent.made_by == "prune"
    assert pruned.parent.settings == {
        "method": "plac", "ratio": 0.2, "seed": 7, "clamp": False, "min_margin": 4, "order": "random",
    }  # fmt: skip
    assert (pruned.model, pruned.corpus, pruned.sentences) == (
        store.manifest.model,
        store.manifest.corpus,
        store.manifest.sentences,
    )


@pytest.mark.parametrize("pruner", [Plac(), Cluster(ngram=1), Merge()])
def test_the_same_seed_gives_the_same_files(pruner: Plac | Cluster | Merge, store: Store, tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        prune_store(store, pruner, tmp_path / name, ratio=0.1, seed=seed)
    assert contents(tmp_path / "one") == contents(tmp_path / "same")
    assert contents(tmp_path / "one") != contents(tmp_path / "other")


@settings(max_examples=10)
@given(st.data())
def test_any_rows_can_go(data: st.DataObject) -> None:
    with TemporaryDirectory() as place:
        parent = build_store(NumpyModel(), make_pairs(6), Path(place) / "store", shard_rows=20)
        rows = st.integers(0, parent.entries - 1)
        dropped = data.draw(st.sets(rows, max_size=parent.entries - 1))
        prune_store(parent, Fixed(sorted(dropped)), Path(place) / "small")
        pruned = open_store(Path(place) / "small")
        assert verify_store(pruned.path).problems == ()
        assert_rows(pruned, parent, ~np.isin(np.arange(parent.entries), list(dropped)))


def test_a_shard_may_lose_all_its_rows(store: Store, tmp_path: Path) -> None:
    first = store.manifest.shards[0].rows
    prune_store(store, Fixed(list(range(first))), tmp_path / "small", index="exact")
    pruned = open_store(tmp_path / "small")
    assert pruned.manifest.shards[0].rows == 0
    assert verify_store(pruned.path).problems == ()
    found = open_index(pruned).search(store.keys.gather(np.array([first])).astype(np.float32), 1)
    assert found.distances[0, 0] == 0


def test_a_pruned_store_can_be_pruned_and_weights_are_kept(store: Store, tmp_path: Path) -> None:
    prune_store(store, Merge(), tmp_path / "merged", ratio=0.2)
    merged = open_store(tmp_path / "merged")
    prune_store(merged, Random(), tmp_path / "drawn", ratio=0.5, seed=3)
    drawn = open_store(tmp_path / "drawn")
    keep = Random().prune(StoreEntries(merged, module.SILENT), ratio=0.5, seed=3).keep
    assert merged.weights is not None
    assert np.array_equal(drawn.weights, merged.weights[keep])  # type: ignore[arg-type]
    assert_rows(drawn, merged, keep)
    assert drawn.manifest.parent.fingerprint == merged.fingerprint  # type: ignore[union-attr]
    prune_store(merged, Merge(k=9), tmp_path / "again", ratio=0.05)
    again = open_store(tmp_path / "again")
    assert again.weights is not None
    assert again.weights.sum() == store.entries
    assert verify_store(again.path).problems == ()
    with pytest.raises(SettingError, match="pruned before"):
        prune_store(merged, Cluster(), tmp_path / "clustered", ratio=0.1)


def test_without_an_index(store: Store, tmp_path: Path) -> None:
    report = prune_store(store, Random(), tmp_path / "small", ratio=0.5, index=None)
    assert report.index is None
    assert not (tmp_path / "small" / "index").exists()
    with pytest.raises(IndexingError, match="lacuna index"):
        prune_store(open_store(tmp_path / "small"), Merge(), tmp_path / "merged", ratio=0.1)


def test_margins_must_have_been_measured(unmeasured: Store, tmp_path: Path) -> None:
    with pytest.raises(LacunaError, match="lacuna margin"):
        prune_store(unmeasured, Plac(), tmp_path / "small", ratio=0.1)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("method", PRUNERS)
def test_a_method_reads_margins_if_and_only_if_it_says_so(method: str, unmeasured: Store, tmp_path: Path) -> None:
    pruner, ratio = make_pruner(method), None if method == "all_known" else 0.1
    expected = pytest.raises(StoreError, match="has no margins") if pruner.reads_margins else nullcontext()
    with expected:
        prune_store(unmeasured, pruner, tmp_path / "small", ratio=ratio, index=None)


@pytest.mark.parametrize("pruner", [Plac(32), Reverse(32)])
def test_margins_must_go_far_enough(pruner: Plac | Reverse, unmeasured: Store, tmp_path: Path) -> None:
    write_margins(unmeasured, np.full(unmeasured.entries, 16, np.uint16), max_margin=16)
    with pytest.raises(SettingError, match="measured only up to 16"):
        prune_store(unmeasured, pruner, tmp_path / "small", ratio=0.1)


def test_margins_are_not_taken_over(store: Store, tmp_path: Path) -> None:
    assert (store.path / "margin").is_dir()
    prune_store(store, Random(), tmp_path / "small", ratio=0.1)
    assert {path.name for path in (tmp_path / "small").iterdir()} == {"manifest.json", "mean.npy", "shards", "index"}


def test_an_empty_folder_will_do_and_missing_ones_are_made(store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "a" / "b"):
        assert prune_store(store, Random(), place, ratio=0.5).kept == open_store(place).entries


def test_places_that_are_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    before = contents(tmp_path)
    for place in (store.path, tmp_path / "file", tmp_path / "full", store.path / "small"):
        with pytest.raises(StoreError, match="name a"):
            prune_store(store, Random(), place, ratio=0.5)
    assert contents(tmp_path) == before


def test_what_cannot_be_done_leaves_nothing(store: Store, tmp_path: Path) -> None:
    everything = Fixed(list(range(store.entries)))
    for pruner, arguments, words in (
        (everything, {}, "all .* entries would be dropped"),
        (Known(), {"ratio": 0.9}, "at most"),
        (AllKnown(), {"index": "nonsense"}, "kind: got 'nonsense'"),
        (AllKnown(), {"index": "IVF5,NSG8"}, "NSG is not for stores"),
        (AllKnown(), {"seed": -1}, "seed: got -1"),
    ):
        with pytest.raises(LacunaError, match=words):
            prune_store(store, pruner, tmp_path / "out" / "small", **arguments)  # type: ignore[arg-type]
        assert not (tmp_path / "out" / "small").exists()
        assert not list(tmp_path.glob("out/.*"))


def test_a_damaged_store_is_not_pruned(store: Store, tmp_path: Path) -> None:
    path = store.path / "shards" / "00001" / "keys.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"00001/keys\.npy: changed or damaged"):
        prune_store(store, Random(), tmp_path / "small", ratio=0.5)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_run_that_fails_leaves_nothing(
    error: type[BaseException] | OSError, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at_second_shard(monkeypatch, error)
    with pytest.raises(StoreError if isinstance(error, OSError) else KeyboardInterrupt, match=r"No space|^$"):
        prune_store(store, Random(), tmp_path / "small", ratio=0.5)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_what_a_killed_run_leaves_is_no_store_and_the_next_run_sweeps_it_away(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prune_store(store, Random(), tmp_path / "whole", ratio=0.5)
    with monkeypatch.context() as patch:
        fail_at_second_shard(patch, KeyboardInterrupt)
        patch.setattr(shutil, "rmtree", lambda *arguments, **settings: None)  # a killed process removes nothing
        with pytest.raises(KeyboardInterrupt):
            prune_store(store, Random(), tmp_path / "small", ratio=0.5)
    left = [path for path in tmp_path.iterdir() if path.name not in ("store", "whole")]
    assert [path.name[0] for path in left] == ["."]
    with pytest.raises(StoreError, match="not a store"):
        open_store(left[0])
    prune_store(store, Random(), tmp_path / "small", ratio=0.5)
    assert contents(tmp_path / "small") == contents(tmp_path / "whole")
    assert not left[0].exists()


def fail_at_second_shard(patch: pytest.MonkeyPatch, error: type[BaseException] | BaseException) -> None:
    real, calls = module.write_shard_files, count()

    def failing(folder: Path, *rest: object) -> object:
        if next(calls) == 1:
            raise error
        return real(folder, *rest)  # type: ignore[arg-type]

    patch.setattr(module, "write_shard_files", failing)
