"""The compiled search of faiss's lists, against NumPy and against faiss itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lacuna.index import FilteredIndex, Neighborhood, build_index, inverted_file, open_index
from lacuna.index.faiss import FaissIndex
from lacuna.index.inverted_file import read_lists
from lacuna.kernels import load_list_search

from .fakes import FakeStore, brute_force, clustered

_FAISS: Any = faiss
DIMENSION, LISTS, CODES = 64, 24, 16
KIND = f"PCAR{2 * CODES},IVF{LISTS},PQ{CODES}x4fs,Refine(SQfp16)"
KEYS, QUERIES = clustered(2500, DIMENSION)

pytestmark = pytest.mark.skipif(load_list_search() is None, reason="needs numba and AVX2")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FakeStore:
    made = FakeStore(tmp_path_factory.mktemp("lists") / "store", KEYS)
    build_index(made, KIND)
    return made


@pytest.fixture(scope="module")
def index(store: FakeStore) -> FaissIndex:
    opened = open_index(store)
    assert isinstance(opened, FaissIndex)
    return opened


def search(index: FaissIndex, queries: NDArray[np.float32], k: int, nprobe: int, candidates: int) -> Neighborhood:
    lists = read_lists(index._index, index._mean)
    assert lists is not None
    return lists.search(queries, k, nprobe, candidates)


def naive(
    index: FaissIndex, mean: NDArray[np.float32], queries: NDArray[np.float32], k: int, nprobe: int, candidates: int
) -> Neighborhood:
    """Encode all keys again, and compare each query with all codes of the nearest lists, one by one."""
    outer = _FAISS.downcast_index(index._index.base_index)
    rotation, inner = _FAISS.downcast_VectorTransform(outer.chain.at(0)), _FAISS.downcast_index(outer.index)
    centered = KEYS.astype(np.float32) - mean
    rotated = rotation.apply(centered)
    homes = inner.quantizer.search(rotated, 1)[1][:, 0]
    bytes_ = inner.pq.compute_codes(rotated)
    codes = np.stack([bytes_ & 15, bytes_ >> 4], axis=2).reshape(len(KEYS), -1)
    books = _FAISS.vector_to_array(inner.pq.centroids).reshape(CODES, 16, 2).astype(np.float64)
    centroids = inner.quantizer.reconstruct_n(0, LISTS).astype(np.float64)
    halves = index._index.refine_index.reconstruct_n(0, len(KEYS)).astype(np.float64)  # rounded by faiss
    distances, ids = np.full((len(queries), k), np.inf, np.float32), np.full((len(queries), k), -1, np.int64)
    for number, query in enumerate(queries - mean):
        place = rotation.apply(query[None])[0].astype(np.float64)
        lists = np.argsort(((centroids - place) ** 2).sum(axis=1), kind="stable")[:nprobe]
        tables = ((place.reshape(CODES, 1, 2) - books) ** 2).sum(axis=2)
        tables -= tables.min(axis=1, keepdims=True)
        tables = np.floor(tables * (255 / tables.max()) + 0.5)
        rows = np.concatenate([np.flatnonzero(homes == each) for each in lists])
        sums = tables[np.arange(CODES), codes[rows]].sum(axis=1)
        chosen = np.sort(rows[np.argsort(sums, kind="stable")[:candidates]])
        true = ((halves[chosen] - query) ** 2).sum(axis=1).astype(np.float32)
        order = np.argsort(true, kind="stable")[:k]
        distances[number, : len(order)], ids[number, : len(order)] = true[order], chosen[order]
    return Neighborhood(distances, ids)


@pytest.mark.parametrize("k", [1, 8, 11])
@pytest.mark.parametrize("nprobe", [1, 2, 5, LISTS])
@pytest.mark.parametrize("candidates", [11, 64, 1024])
def test_it_is_the_naive_search(store: FakeStore, index: FaissIndex, k: int, nprobe: int, candidates: int) -> None:
    found = search(index, QUERIES, k, nprobe, candidates)
    expected = naive(index, store.mean, QUERIES, k, nprobe, candidates)
    # A table entry halfway between two bytes may be rounded to the other one, which changes the last candidates.
    same = (found.ids == expected.ids).all(axis=1)
    assert same.mean() >= (1.0 if candidates == 1024 else 0.9)
    assert np.allclose(found.distances[same], expected.distances[same], rtol=1e-5, atol=1e-6)


def test_all_lists_and_enough_candidates_find_the_true_neighbors(index: FaissIndex) -> None:
    found = search(index, QUERIES, 8, LISTS, 1024)
    distances, ids = brute_force(KEYS, QUERIES, 8)
    assert (found.ids == ids).mean() > 0.99  # keys are rounded once more after the mean is subtracted
    assert np.allclose(found.distances, distances, rtol=2e-3)


def test_faiss_finds_the_same(store: FakeStore, index: FaissIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = index.search(QUERIES, 8)
    monkeypatch.setattr(inverted_file, "load_list_search", lambda: None)
    without = open_index(store).search(QUERIES, 8)
    same = ours.ids == without.ids
    assert same.mean() > 0.97
    assert np.allclose(ours.distances[same], without.distances[same], rtol=1e-5)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(1, 40), k=st.integers(1, 20), nprobe=st.integers(1, LISTS), data=st.data())
def test_laws(index: FaissIndex, rows: int, k: int, nprobe: int, data: st.DataObject) -> None:
    candidates = data.draw(st.integers(k, 300))
    queries = np.concatenate([QUERIES, KEYS[:20].astype(np.float32)])[-rows:]
    distances, ids = search(index, queries, k, nprobe, candidates)
    assert np.array_equal(ids < 0, np.isinf(distances))
    later, nearer = distances[:, 1:], distances[:, :-1]
    tied = (later == nearer) & np.isfinite(later)
    assert (later >= nearer).all()
    assert (np.diff(ids, axis=1)[tied] > 0).all()
    alone = search(index, queries[:1], k, nprobe, candidates)
    assert np.array_equal(alone.ids[0], ids[0])
    assert np.array_equal(alone.distances[0], distances[0])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1), k=st.integers(1, 20), nprobe=st.integers(1, LISTS), seed=st.integers(0, 99))
def test_kept_rows_are_found_as_if_the_others_did_not_exist(
    index: FaissIndex, share: float, k: int, nprobe: int, seed: int
) -> None:
    keep = np.random.default_rng(seed).random(len(KEYS)) < share
    lists = read_lists(index._index, index._mean)
    assert lists is not None
    distances, ids = lists.keeping(keep).search(QUERIES, k, nprobe, 1024)
    every, every_ids = lists.search(QUERIES, 1024, nprobe, 1024)
    for row, (near, numbers) in enumerate(zip(every, every_ids, strict=True)):
        left = (numbers >= 0) & keep[numbers]
        expected = np.full(k, -1)
        expected[: min(k, left.sum())] = numbers[left][:k]
        # All keys of the lists are candidates if there are at most 1,024 of them.
        if (numbers >= 0).sum() < 1024:
            assert np.array_equal(ids[row], expected)
            assert np.array_equal(distances[row][expected >= 0], near[left][:k])
        assert keep[ids[row][ids[row] >= 0]].all()


@pytest.mark.parametrize("share", [0.0, 0.003, 0.1, 0.6, 1.0])
def test_a_filtered_index_reads_more_lists_until_there_are_enough_neighbors(index: FaissIndex, share: float) -> None:
    keep = np.random.default_rng(1).random(len(KEYS)) < share
    filtered, rows = FilteredIndex(index, keep), np.flatnonzero(keep)
    distances, ids = filtered.search(QUERIES, 8)
    assert ((ids >= 0).sum(axis=1) == min(8, len(rows))).all()
    assert keep[ids[ids >= 0]].all()
    assert np.array_equal(ids < 0, np.isinf(distances))
    true = brute_force(KEYS[rows], QUERIES, 8)[1]
    expected = np.where(true < 0, -1, rows[true] if len(rows) else -1)
    assert (ids == expected).mean() > 0.85  # as many as the index finds without a filter
    assert filtered.search(QUERIES, 300).ids.shape == (len(QUERIES), 300)  # too many for the compiled search


def test_empty_lists_have_nothing(tmp_path: Path) -> None:
    keys = np.repeat(KEYS[:2], 300, axis=0)  # two different keys, so most of the lists are empty
    store = FakeStore(tmp_path / "store", keys)
    build_index(store, KIND)
    distances, ids = open_index(store).search(keys[:1].astype(np.float32), 5)
    assert ids.tolist() == [[0, 1, 2, 3, 4]]
    assert (distances < 1e-3).all()


@pytest.mark.parametrize("kind", ["IVF16,Flat", "IVF16,PQ16x4fs,Refine(SQfp16)", "PCAR32,IVF16,PQ15x4fs", "HNSW8"])
def test_other_kinds_are_for_faiss(tmp_path: Path, kind: str) -> None:
    if "PQ15" in kind:
        kind = "PCAR30,IVF16,PQ15x4fs,Refine(SQfp16)"  # an odd number of codes
    store = FakeStore(tmp_path / "store", KEYS)
    opened = build_index(store, kind).index
    assert isinstance(opened, FaissIndex)
    assert read_lists(opened._index, store.mean) is None


def test_a_processor_without_512_bit_registers_finds_the_same(
    store: FakeStore, index: FaissIndex, tmp_path: Path
) -> None:
    np.save(tmp_path / "queries.npy", QUERIES)
    _FAISS.write_index(index._index, str(tmp_path / "index"))
    np.save(tmp_path / "mean.npy", store.mean)
    script = """if True:
        import sys, faiss, numpy as np
        from pathlib import Path
        from lacuna.index.inverted_file import read_lists
        from lacuna.kernels import list_search
        folder = Path(sys.argv[1])
        lists = read_lists(faiss.read_index(str(folder / "index")), np.load(folder / "mean.npy"))
        found = lists.search(np.load(folder / "queries.npy"), 8, 5, 64)
        np.savez(folder / "found.npz", distances=found.distances, ids=found.ids, columns=list_search.COLUMNS)
    """
    narrow = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+f16c,+fma,+popcnt,+bmi,+bmi2"}
    environment = {**os.environ, **narrow, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, env=environment)
    found = np.load(tmp_path / "found.npz")
    here = search(index, QUERIES, 8, 5, 64)
    assert found["columns"] == 16
    assert (found["ids"] == here.ids).mean() > 0.99
    assert np.allclose(found["distances"], here.distances, rtol=1e-5)
