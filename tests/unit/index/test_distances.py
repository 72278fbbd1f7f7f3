"""Distances, their error bounds, and leaving an entry out of its own neighbors."""

import numpy as np
import pytest

from lacuna.index import Neighborhood
from lacuna.index.distances import (
    CenteredVectors,
    PairDistances,
    VectorArray,
    leave_self_out,
    nearest,
    other_neighbors,
    product_error,
    true_distances,
)

from .fakes import FakeKeys, clustered


def test_an_entry_is_left_out_of_its_own_neighbors_wherever_it_is() -> None:
    ids = np.array([[7, 1, 2], [1, 8, 2], [1, 2, 9], [1, 2, 3]])
    distances = np.array([[0, 1, 2], [1, 0, 2], [1, 2, 0], [1, 2, 3]], np.float32)
    found = leave_self_out(Neighborhood(distances, ids), np.array([7, 8, 9, 10]))
    assert found.ids.tolist() == [[1, 2]] * 4
    assert found.distances.tolist() == [[1, 2]] * 4


def test_one_place_of_each_row_is_left_out() -> None:
    itself = np.array([[0, 1, 1], [0, 0, 0]], dtype=bool)
    assert other_neighbors(itself).tolist() == [[True, False, True], [True, True, False]]
    assert other_neighbors(np.zeros((0, 4), bool)).shape == (0, 4)


def test_nearest_breaks_ties_by_id_and_puts_missing_ones_last() -> None:
    distances = np.array([[2, 1, np.inf, 1]], np.float32)
    found = nearest(distances, np.array([[5, 9, -1, 3]]), 5)
    assert found.ids.tolist() == [[3, 9, 5, -1, -1]]
    assert found.distances.tolist() == [[1, 1, 2, np.inf, np.inf]]


@pytest.mark.parametrize("k", [1, 4, 8, 11])
def test_nearest_equals_a_sort_of_pairs(k: int) -> None:
    rng = np.random.default_rng(k)
    distances = rng.integers(0, 5, (60, 8)).astype(np.float32)
    ids = np.stack([rng.permutation(8) for _ in range(60)])
    distances[:20].sort(axis=1)  # as faiss returns them, ties in any order
    missing = np.arange(8) >= rng.integers(0, 9, (60, 1))
    distances[missing], ids[missing] = np.inf, -1
    given = distances.copy(), ids.copy()
    found = nearest(distances, ids, k)
    for row in range(60):
        pairs = sorted(zip(distances[row].tolist(), ids[row].tolist(), strict=True))
        pairs = (pairs + [(np.inf, -1)] * k)[:k]
        assert list(zip(found.distances[row].tolist(), found.ids[row].tolist(), strict=True)) == pairs
    assert np.array_equal(given[0], distances)
    assert np.array_equal(given[1], ids)


def test_true_distances_by_hand() -> None:
    keys = FakeKeys(np.array([[0, 0], [3, 4], [1, 0]], np.float16))
    queries = np.array([[0, 0], [3, 3]], np.float32)
    found = true_distances(keys, queries, np.array([[1, -1], [2, 1]]))
    assert found.tolist() == [[25, np.inf], [13, 1]]


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_fast_and_product_distances_stay_within_their_bounds(offset: float) -> None:
    keys, _ = clustered(3000, 64, offset=offset)
    vectors, wide = VectorArray(keys.astype(np.float32)), keys.astype(np.float64)
    rng = np.random.default_rng(2)
    left, right = rng.integers(len(keys), size=(2, 5000))
    truth = ((wide[left] - wide[right]) ** 2).sum(axis=1)
    pairs = PairDistances(vectors, vectors)
    assert np.allclose(pairs.exact(left, right), truth, rtol=1e-13)
    assert (
        np.abs(pairs.fast(vectors.gather(left), np.arange(len(left)), right) - truth) <= pairs.relative_error * truth
    ).all()

    centered = CenteredVectors(vectors, keys.mean(axis=0, dtype=np.float64).astype(np.float32))
    some, others = centered.gather(left[:200]), centered.gather(right[:200])
    squares = some.square().sum(1)[:, None] + others.square().sum(1) - 2 * some @ others.T
    exact = ((wide[left[:200], None] - wide[right[:200]]) ** 2).sum(axis=2)
    reach = some.norm(dim=1)[:, None].numpy() + others.norm(dim=1).numpy()
    assert (np.abs(squares.numpy() - exact) <= product_error(64) * reach**2).all()


def test_pairs_near_their_threshold_are_decided_in_float64() -> None:
    keys = VectorArray(np.array([[0.0, 0.0], [1.0, 1e-4]], np.float32))
    pairs = PairDistances(keys, keys)
    left, right = np.array([0, 0]), np.array([1, 1])
    exact, fast = pairs.exact(left, right), pairs.fast(keys.gather(left), left, right)
    thresholds = np.array([np.nextafter(exact[0], 2), exact[1]])
    assert pairs.below(left, right, fast, thresholds).tolist() == [True, False]
