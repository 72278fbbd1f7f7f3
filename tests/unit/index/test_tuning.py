"""Tuning: recall of several indexes against brute force, and the choice among them."""

from pathlib import Path

import numpy as np
import pytest

from lacuna.errors import IndexingError
from lacuna.index import SearchSettings
from lacuna.index.recall import IndexTrial, best_trial, try_indexes

from .fakes import FakeStore, clustered

KEYS, _ = clustered(600, 16)
KINDS = ("IVF8,PQ8x4fs,Refine(SQfp16)", "HNSW8", "SQ8")


def true_recall(store: FakeStore, rows: np.ndarray, found: np.ndarray, k: int) -> float:
    keys = np.asarray(store.keys.gather(np.arange(len(KEYS))), np.float64)
    shares = []
    for row, ids in zip(rows, found, strict=True):
        distances = ((keys - keys[row]) ** 2).sum(1)
        distances[row] = np.inf
        shares.append((distances[ids[ids >= 0]] <= np.sort(distances)[k - 1]).sum() / k)
    return float(np.mean(shares))


def test_all_settings_are_searched_and_measured(tmp_path: Path) -> None:
    store = FakeStore(tmp_path / "store", KEYS)
    trials = try_indexes(store, 4, sample=50, kinds=KINDS)
    assert [trial.kind for trial in trials].count("HNSW8") == 4
    assert trials[0] == IndexTrial("exact", SearchSettings(), 0.0, 1.0, trials[0].queries_per_second)
    by_nprobe = {(t.settings.nprobe, t.settings.rerank): t.recall for t in trials if t.kind.startswith("IVF8")}
    assert set(by_nprobe) == {(8, 4), (8, 8)}  # there are eight lists, so no more can be read
    assert by_nprobe[8, 8] >= 0.97
    assert all(0 < trial.recall <= 1 and trial.queries_per_second > 0 for trial in trials)


def test_recall_is_that_of_a_plain_loop(tmp_path: Path) -> None:
    from lacuna.index.distances import leave_self_out
    from lacuna.index.faiss import FaissIndex, make_index
    from lacuna.index.kinds import choose_kind, search_settings
    from lacuna.index.recall import draw_own_keys

    store = FakeStore(tmp_path / "store", KEYS)
    kind = choose_kind("HNSW8", len(KEYS), 16).kind
    trial = next(t for t in try_indexes(store, 4, sample=40, kinds=("HNSW8",)) if t.settings.ef_search == 16)
    index = FaissIndex(make_index(store, kind, 1, None)[0], store, kind, search_settings(kind, ef_search=16))
    own = draw_own_keys(store, 40, 1)
    found = leave_self_out(index.search(store.keys.gather(own).astype(np.float32), 5), own)
    assert trial.recall == pytest.approx(true_recall(store, own, found.ids, 4), abs=0.02)


def test_the_fastest_with_enough_recall_is_chosen() -> None:
    slow, fast, poor = (
        IndexTrial("exact", SearchSettings(), 0.0, 1.0, 10.0),
        IndexTrial("IVF8,Flat", SearchSettings(nprobe=4), 1.0, 0.96, 50.0),
        IndexTrial("IVF8,Flat", SearchSettings(nprobe=1), 1.0, 0.5, 90.0),
    )
    trials = [slow, fast, poor]
    assert best_trial(trials, 0.95) == fast
    assert best_trial(trials, 0.4) == poor
    assert best_trial(trials, 1.0) == slow
    with pytest.raises(IndexingError, match=r"least_recall: got 1\.5"):
        best_trial(trials, 1.5)


def test_nothing_is_written(tmp_path: Path) -> None:
    store = FakeStore(tmp_path / "store", KEYS)
    before = sorted(tmp_path.rglob("*"))
    try_indexes(store, 2, sample=20, kinds=("HNSW8",))
    assert sorted(tmp_path.rglob("*")) == before


def test_queries_of_the_caller_leave_nothing_out(tmp_path: Path) -> None:
    store = FakeStore(tmp_path / "store", KEYS)
    queries = KEYS[:30].astype(np.float32) + np.float32(0.01)
    trials = try_indexes(store, 4, queries=queries, kinds=("IVF8,Flat",))
    assert trials[-1].recall == 1.0  # all eight lists are read, and nothing is left out
    with pytest.raises(IndexingError, match="16-dimensional"):
        try_indexes(store, 4, queries=queries[:, :8], kinds=())
