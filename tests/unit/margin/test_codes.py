"""Codes rule out no pair within its threshold, and products in int8 and float32 are the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lacuna.index.distances import VectorArray
from lacuna.margin import codes
from lacuna.margin.codes import Coder, make_coders, passing
from lacuna.margin.screening import Screening


def drawn(seed: int, rows: int, dimension: int, outliers: int) -> NDArray[np.float32]:
    """Draw vectors of decreasing variance: some equal, some zero, and some far longer than the others."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(rows, dimension)) * np.linspace(3, 0.1, dimension)
    vectors[rng.integers(rows, size=rows // 8)] = vectors[0]
    vectors[rng.integers(rows, size=rows // 8)] = 0
    vectors[rng.integers(rows, size=outliers)] *= 3000
    return vectors.astype(np.float16).astype(np.float32)


def coders_of(vectors: NDArray[np.float32], rows: int) -> list[Coder]:
    """Return coders that have seen the first vectors only."""
    screening = Screening(VectorArray(vectors), np.zeros(vectors.shape[1], np.float32), len(vectors))
    return make_coders(screening.rotation, torch.from_numpy(vectors[:rows]), np.random.default_rng(0))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1, 2, 31, 40, 150]), st.sampled_from([0, 0, 3]), st.integers(1, 60))
def test_no_pair_within_its_threshold_is_ruled_out(seed: int, dimension: int, outliers: int, seen: int) -> None:
    vectors = drawn(seed, 60, dimension, outliers)
    wide = vectors.astype(np.float64)
    distances = ((wide[:, None] - wide) ** 2).sum(axis=2)
    # The threshold of each row is one of its distances, so that pairs are exactly on it.
    thresholds = np.sort(distances, axis=1)[np.arange(60), np.arange(60) % 40]
    longest = float(np.sqrt((wide**2).sum(axis=1)).max())
    for coder in coders_of(vectors, seen):
        coded = coder.encode(torch.from_numpy(vectors))
        found = np.zeros((60, 60), bool)
        found[passing(coder.left_side(coded, thresholds, longest), coded.right)] = True
        assert found[distances <= thresholds[:, None]].all()


def test_distant_pairs_are_ruled_out() -> None:
    vectors = drawn(1, 400, 150, 0)
    wide = vectors.astype(np.float64)
    distances = ((wide[:, None] - wide) ** 2).sum(axis=2)
    thresholds = np.partition(distances, 20, axis=1)[:, 20]
    passed = []
    for coder in coders_of(vectors, 400):
        coded = coder.encode(torch.from_numpy(vectors))
        passed.append(len(passing(coder.left_side(coded, thresholds, 100.0), coded.right)[0]))
    assert passed == sorted(passed, reverse=True)
    assert passed[-1] < 2 * int((distances <= thresholds[:, None]).sum())


@pytest.mark.parametrize("dimension", [40, 900])
def test_products_are_the_same_in_int8_and_float32(monkeypatch: pytest.MonkeyPatch, dimension: int) -> None:
    vectors = drawn(2, 200, dimension, 2)
    thresholds = np.full(200, float(dimension))
    for coder in coders_of(vectors, 100):
        coded = coder.encode(torch.from_numpy(vectors))
        left = coder.left_side(coded, thresholds, 100.0)
        found = []
        for fast in (True, False):
            monkeypatch.setattr(codes, "has_fast_int8", lambda fast=fast: fast)
            found.append(passing(left, coded.right))
        assert np.array_equal(found[0], found[1])
        exact = left.numpy().astype(np.int64) @ coded.right.numpy().astype(np.int64).T
        assert np.array_equal(found[0], np.nonzero(exact >= 0))
