"""The contract of every kind of index, checked against brute force."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faiss
import numpy as np
import pytest

from lacuna.errors import IndexingError
from lacuna.index import VectorIndex, build_index, open_index

from .fakes import FakeStore, brute_force, clustered

# kind, least recall at 8, how far its distances may be from the true ones
KINDS = {
    "exact": (1.0, 2e-5),
    "Flat": (1.0, 2e-5),
    "SQ8": (0.97, 2e-5),
    "HNSW32_SQfp16": (0.97, 2e-3),
    "IVF16,Flat": (0.97, 2e-5),
    "IVF16,PQ8x4fs": (0.9, 2e-5),
    "IVF16,PQ16x4fs,Refine(SQfp16)": (0.97, 2e-3),
    "PCAR24,IVF64_HNSW32,PQ12x4fs,Refine(SQfp16)": (0.9, 2e-3),
    "IVF16,PQ8": (0.3, 0.8),
    "OPQ8,IVF16,PQ8": (0.9, 2e-5),
    "PCA8,IVF16_HNSW8,SQ8": (0.9, 2e-5),
}
UNTRAINED = ["exact", "Flat", "HNSW32_SQfp16"]
KEYS, QUERIES = clustered(3000, 32)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, FakeStore]:
    store = FakeStore(tmp_path_factory.mktemp("contract") / "store", KEYS)
    build_index(store, request.param)
    return request.param, store


@pytest.fixture
def index(case: tuple[str, FakeStore]) -> VectorIndex:
    return open_index(case[1])


def test_it_says_what_it_is(case: tuple[str, FakeStore], index: VectorIndex) -> None:
    assert index.kind == case[0]
    assert index.size == len(KEYS)


def test_types_and_shapes(index: VectorIndex) -> None:
    distances, ids = index.search(QUERIES, 5)
    assert (distances.dtype, ids.dtype) == (np.float32, np.int64)
    assert distances.shape == ids.shape == (len(QUERIES), 5)


def test_nearest_first_ties_by_id_and_none_twice(index: VectorIndex) -> None:
    distances, ids = index.search(np.concatenate([QUERIES, KEYS[:20].astype(np.float32)]), 8)
    assert (distances >= 0).all()
    steps = np.diff(distances, axis=1)
    assert (steps >= 0).all()
    assert (np.diff(ids, axis=1)[steps == 0] > 0).all()
    assert all(len(set(line)) == len(line) for line in ids.tolist())


def test_it_finds_the_neighbors(case: tuple[str, FakeStore], index: VectorIndex) -> None:
    true_distances, true_ids = brute_force(KEYS, QUERIES, 8)
    distances, ids = index.search(QUERIES, 8)
    hits = [len(set(a) & set(b)) / 8 for a, b in zip(ids.tolist(), true_ids.tolist(), strict=True)]
    assert np.mean(hits) >= KINDS[case[0]][0]
    if case[0] == "exact":
        assert np.array_equal(ids, true_ids)
        assert np.allclose(distances, true_distances, rtol=1e-6)


def test_how_true_its_distances_are(case: tuple[str, FakeStore], index: VectorIndex) -> None:
    distances, ids = index.search(QUERIES, 8)
    differences = KEYS[ids].astype(np.float64) - QUERIES[:, None].astype(np.float64)
    assert np.allclose(distances, (differences**2).sum(axis=2), rtol=KINDS[case[0]][1])


def test_a_batch_is_its_queries_one_by_one(index: VectorIndex) -> None:
    together = index.search(QUERIES, 8)
    for number in range(len(QUERIES)):
        alone = index.search(QUERIES[number : number + 1], 8)
        assert np.allclose(alone.distances[0], together.distances[number], rtol=1e-4)
        assert np.array_equal(alone.ids[0], together.ids[number])


def test_threads_get_the_same_answer(index: VectorIndex) -> None:
    # Products summed by another number of threads differ in the last bits, and Flat gives them as they are.
    alone = index.search(QUERIES, 8)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: index.search(QUERIES, 8), range(12)):
            assert np.array_equal(found.ids, alone.ids)
            assert np.allclose(found.distances, alone.distances, rtol=1e-4)


def test_opened_again_it_is_the_same(case: tuple[str, FakeStore], index: VectorIndex) -> None:
    again = open_index(case[1]).search(QUERIES, 8)
    assert np.array_equal(again.ids, index.search(QUERIES, 8).ids)


def test_no_queries_give_no_answers(index: VectorIndex) -> None:
    found = index.search(np.zeros((0, 32), np.float32), 8)
    assert found.ids.shape == found.distances.shape == (0, 8)


def test_more_than_there_are_is_missing_not_made_up(index: VectorIndex) -> None:
    distances, ids = index.search(QUERIES[:2], len(KEYS) + 5)
    assert (ids[:, -5:] == -1).all()
    assert np.isinf(distances[:, -5:]).all()
    assert np.array_equal(ids < 0, np.isinf(distances))
    for line in ids:
        assert len(np.unique(line[line >= 0])) == (line >= 0).sum()


@pytest.mark.parametrize("k", [0, -3])
def test_k_below_one_is_refused(index: VectorIndex, k: int) -> None:
    with pytest.raises(IndexingError, match="k: got"):
        index.search(QUERIES, k)


@pytest.mark.parametrize("shape", [(3, 31), (32,), (2, 3, 32)])
def test_queries_of_another_shape_are_refused(index: VectorIndex, shape: tuple[int, ...]) -> None:
    with pytest.raises(IndexingError, match="32-dimensional"):
        index.search(np.zeros(shape, np.float32), 4)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_broken_queries_are_refused(index: VectorIndex, broken: float) -> None:
    queries = QUERIES.copy()
    queries[7, 3] = broken
    with pytest.raises(IndexingError, match=r"1 of 40 contain NaN or infinity, the first is number 7"):
        index.search(queries, 4)


@pytest.mark.parametrize("kind", UNTRAINED)
def test_an_empty_store_has_no_neighbors(tmp_path: Path, kind: str) -> None:
    store = FakeStore(tmp_path / "empty", np.zeros((0, 32), np.float16))
    build_index(store, kind)
    distances, ids = open_index(store).search(QUERIES, 3)
    assert (ids == -1).all()
    assert np.isinf(distances).all()


@pytest.mark.parametrize("kind", UNTRAINED)
def test_fewer_entries_than_k(tmp_path: Path, kind: str) -> None:
    store = FakeStore(tmp_path / "tiny", KEYS[:3])
    build_index(store, kind)
    distances, ids = open_index(store).search(QUERIES, 5)
    assert np.array_equal(np.sort(ids, axis=1), np.tile([-1, -1, 0, 1, 2], (len(QUERIES), 1)))
    assert np.isinf(distances[:, 3:]).all()
    assert np.isfinite(distances[:, :3]).all()


def test_the_setting_of_faiss_is_put_back(index: VectorIndex) -> None:
    before = faiss.cvar.distance_compute_blas_threshold
    index.search(QUERIES, 8)
    assert faiss.cvar.distance_compute_blas_threshold == before
