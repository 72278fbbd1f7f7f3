"""Radius queries against a loop over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lacuna.index.distances import VectorArray
from lacuna.margin.radius import RadiusCounts, RadiusQuery, RadiusSearch, SelfJoin
from lacuna.margin.screening import Screening
from unit.margin.stores import clustered, in_memory


def naive(
    distances: NDArray[np.float64], known: NDArray[np.bool_], radius: NDArray[np.float64]
) -> tuple[list[float], list[int]]:
    """Return the distance of the nearest unknown entry and the number of known ones, both nearer than the radius."""
    near = distances < radius[:, None]
    nearest = np.where(near & ~known, distances, np.inf).min(axis=1)
    return nearest.tolist(), np.count_nonzero(near & known, axis=1).tolist()


def distances_between(left: NDArray[np.float16], right: NDArray[np.float16]) -> NDArray[np.float64]:
    return np.array([((right.astype(np.float64) - vector) ** 2).sum(axis=1) for vector in left.astype(np.float64)])


def test_a_query_about_the_entries_of_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.margin.radius.BLOCK", 64)
    monkeypatch.setattr("lacuna.margin.radius._PAIRS_AT_ONCE", 100)
    keys, known = clustered(400, 24, 0.7, seed=1)
    entries, rng = in_memory((keys, known)), np.random.default_rng(2)
    distances = distances_between(keys, keys)
    np.fill_diagonal(distances, np.inf)
    radius = np.sort(distances, axis=1)[np.arange(400), rng.integers(30, size=400)]  # exactly that of a pair
    asks_nearest, asks_count = rng.random(400) < 0.6, rng.random(400) < 0.6
    join = SelfJoin(entries, RadiusQuery(radius, asks_nearest, asks_count), Screening(entries.keys, entries.mean, 400))
    counts = RadiusCounts.empty(400)
    for number in range(len(join.sizes)):
        counts.add(*join.run(number))
    nearest, count = naive(distances, known, radius)
    assert np.allclose(counts.unknown_distance, np.where(asks_nearest, nearest, np.inf), rtol=1e-14, atol=0)
    assert counts.known.tolist() == np.where(asks_count, count, 0).tolist()


def test_a_search_among_other_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.margin.radius.COLUMNS_AT_ONCE", 50)
    keys, known = clustered(400, 24, 0.7, seed=3)
    others = VectorArray(keys[300:].astype(np.float32))
    entries = in_memory((keys[:300], known[:300]))
    screening = Screening(entries.keys, entries.mean, 300)
    distances = distances_between(keys[:300], keys[300:])
    radius = np.sort(distances, axis=1)[np.arange(300), np.arange(300) % 20]
    for level, coder in enumerate(screening.coders):
        search = RadiusSearch(coder, screening.coded_keys(level), screening.coded(others, 100, level), radius)
        counts = RadiusCounts.empty(300)
        for block in (slice(0, 128), slice(128, 300)):
            part = RadiusCounts.empty(block.stop - block.start)
            for pairs in search.pairs(block):
                part.add_known(pairs.where(known[300:][pairs.right]), block.start)
                part.add_unknown(pairs.where(~known[300:][pairs.right]), block.start)
            counts.add(np.arange(block.start, block.stop), part)
        nearest, count = naive(distances, known[300:], radius)
        assert np.allclose(counts.unknown_distance, nearest, rtol=1e-14, atol=0)
        assert counts.known.tolist() == count
