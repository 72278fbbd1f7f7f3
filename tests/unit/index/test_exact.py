from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.index import ExactIndex, exact

from .fakes import FakeStore, brute_force, clustered

CACHES = {"in memory": exact.CACHE_BYTES, "from disk": 0}


def test_by_hand(tmp_path: Path) -> None:
    store = FakeStore(tmp_path / "s", np.array([[0, 0], [3, 4], [1, 0], [0, 1]], np.float16))
    distances, ids = ExactIndex(store).search(np.array([[0, 0], [3, 3]], np.float32), 3)
    assert ids.tolist() == [[0, 2, 3], [1, 2, 3]]
    assert distances.tolist() == [[0, 1, 1], [1, 13, 13]]


@pytest.mark.parametrize("cache_bytes", CACHES.values(), ids=CACHES.keys())
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 60),
    dimension=st.integers(1, 9),
    k=st.integers(1, 70),
    queries=st.integers(1, 7),
    offset=st.sampled_from([0.0, 68.0, -1000.0]),
    coarse=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_it_is_the_brute_force(
    cache_bytes: int, seed: int, rows: int, dimension: int, k: int, queries: int, offset: float, coarse: bool
) -> None:
    rng = np.random.default_rng(seed)
    # Few distinct values make many equal keys and many equal distances.
    points = (
        rng.integers(-1, 2, size=(rows + queries, dimension))
        if coarse
        else rng.normal(size=(rows + queries, dimension))
    )
    points = (points + offset).astype(np.float16)
    asked = points[rows:].astype(np.float32)
    with TemporaryDirectory() as folder:
        index = ExactIndex(FakeStore(Path(folder), points[:rows]), cache_bytes)
        distances, ids = index.search(asked, k)
    true_distances, true_ids = brute_force(points[:rows], asked, k)
    assert np.array_equal(ids, true_ids)
    assert np.allclose(distances, true_distances, rtol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 68.0])
@pytest.mark.parametrize("cache_bytes", CACHES.values(), ids=CACHES.keys())
def test_near_and_exact_duplicates_far_from_the_origin(tmp_path: Path, offset: float, cache_bytes: int) -> None:
    keys, queries = clustered(2500, 64, offset=offset)
    queries = np.concatenate([queries, keys[:60].astype(np.float32), keys[:60].astype(np.float32) + np.float32(1e-3)])
    distances, ids = ExactIndex(FakeStore(tmp_path / "s", keys), cache_bytes).search(queries, 16)
    true_distances, true_ids = brute_force(keys, queries, 16)
    assert np.array_equal(ids, true_ids)
    assert np.allclose(distances, true_distances, rtol=1e-6)
    assert (distances[40:100, 0] == 0).all()


@pytest.mark.parametrize("queries", [1, 3, 4, 700])
def test_more_duplicates_than_candidates_are_told_apart_by_id(tmp_path: Path, queries: int) -> None:
    keys = np.tile(np.random.default_rng(3).normal(size=(1, 24)), (2000, 1)).astype(np.float16)
    keys[::2] += np.float16(0.25)
    asked = np.tile(keys[1:2].astype(np.float32), (queries, 1))
    distances, ids = ExactIndex(FakeStore(tmp_path / "s", keys)).search(asked, 8)
    assert (ids == np.arange(1, 17, 2)).all()
    assert (distances == 0).all()


def test_a_product_that_rounds_badly_is_made_good(tmp_path: Path) -> None:
    """Two far clusters: in float32 the products cannot tell the entries of a cluster apart."""
    rng = np.random.default_rng(5)
    keys = np.concatenate([np.full((300, 8), 30_000), np.full((300, 8), -30_000)]).astype(np.float16)
    keys += (rng.integers(-3, 4, size=keys.shape) * 16).astype(np.float16)
    asked = keys[rng.integers(600, size=50)].astype(np.float32) + np.float32(3)
    distances, ids = ExactIndex(FakeStore(tmp_path / "s", keys)).search(asked, 8)
    true_distances, true_ids = brute_force(keys, asked, 8)
    assert np.array_equal(ids, true_ids)
    assert np.allclose(distances, true_distances)


def test_blocks_are_bounded_and_the_cache_is_filled_once(tmp_path: Path) -> None:
    keys, queries = clustered(2000, 8)
    store = FakeStore(tmp_path / "s", keys)
    index = ExactIndex(store)
    first = index.search(queries, 4)
    store.keys.blocks = None  # type: ignore[method-assign, assignment]
    assert np.array_equal(index.search(queries, 4).ids, first.ids)


def test_float64_and_strided_queries_are_welcome(tmp_path: Path) -> None:
    keys, queries = clustered(500, 8)
    index = ExactIndex(FakeStore(tmp_path / "s", keys))
    wide = np.asfortranarray(queries.astype(np.float64))
    assert np.array_equal(index.search(wide, 4).ids, index.search(queries, 4).ids)  # type: ignore[arg-type]
