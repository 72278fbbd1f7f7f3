"""The nearest of the entries that are kept, against brute force over those alone."""

from pathlib import Path

import numpy as np
import pytest

from lacuna.index import FilteredIndex, build_index, open_index

from .fakes import FakeStore, brute_force, clustered


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 0.998, 1.0])
@pytest.mark.parametrize("k", [1, 8, 40])
def test_it_finds_the_nearest_of_those_kept(share: float, k: int, tmp_path: Path) -> None:
    keys, queries = clustered(600, 16)
    store = FakeStore(tmp_path / "store", keys)
    build_index(store, "exact")
    keep = np.random.default_rng(3).random(len(keys)) >= share
    found = FilteredIndex(open_index(store), keep)
    distances, ids = found.search(queries, k)
    rows = np.flatnonzero(keep)
    true_distances, true_ids = brute_force(keys[rows], queries, k)
    expected = np.where(true_ids < 0, -1, rows[true_ids] if len(rows) else -1)
    assert np.array_equal(ids, expected)
    assert np.allclose(distances, true_distances, rtol=1e-6)
    assert found.size == len(rows)
