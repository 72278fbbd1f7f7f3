"""Isotonic regression against the minimax formula, which needs no pooling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lacuna.fitting.regression import fit_table, pool_adjacent_violators

VALUES = st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 5)), min_size=1, max_size=12)


def minimax(values: NDArray[np.float64], weights: NDArray[np.float64]) -> list[float]:
    """The best value at i is the largest, over a <= i, of the smallest, over b >= i, mean of a..b."""
    count = len(values)

    def mean(first: int, last: int) -> float:
        part = slice(first, last + 1)
        return float((values[part] * weights[part]).sum() / weights[part].sum())

    return [max(min(mean(a, b) for b in range(i, count)) for a in range(i + 1)) for i in range(count)]


@given(VALUES)
def test_is_the_nearest_sequence_that_does_not_fall(rows: list[tuple[int, int]]) -> None:
    values, weights = np.array(rows, np.float64).T
    means, starts = pool_adjacent_violators(values, weights)
    lengths = np.diff([*starts, len(values)])
    np.testing.assert_allclose(np.repeat(means, lengths), minimax(values, weights), atol=1e-9)
    assert np.all(np.diff(means) > 0)


def test_by_hand() -> None:
    means, starts = pool_adjacent_violators(np.array([1.0, 3.0, 2.0, 4.0, 0.0]), np.array([1.0, 1.0, 3.0, 1.0, 1.0]))
    # 4 and 0 make 2 (weight 2); 3 and 2 make 2.25 (weight 4), which is above: (9 + 4) / 6.
    assert starts.tolist() == [0, 1]
    np.testing.assert_allclose(means, [1.0, 13 / 6])


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=60))
def test_a_table_of_few_scores_is_the_isotonic_regression_of_their_shares(rows: list[tuple[int, bool]]) -> None:
    scores, right = np.array([score for score, _ in rows], np.float64), np.array([is_right for _, is_right in rows])
    points, probabilities = fit_table(scores, right)
    places = np.unique(scores)
    counts = np.array([(scores == place).sum() for place in places], np.float64)
    shares = np.array([right[scores == place].mean() for place in places])
    expected = minimax(shares, counts)
    # Each block of equal values is one point, at the mean of its scores.
    blocks = {value: [] for value in np.round(expected, 9)}
    for place, count, value in zip(places, counts, np.round(expected, 9), strict=True):
        blocks[value].append((place, count))
    np.testing.assert_allclose(probabilities, sorted(blocks), atol=1e-8)
    means = [sum(p * c for p, c in blocks[value]) / sum(c for _, c in blocks[value]) for value in sorted(blocks)]
    np.testing.assert_allclose(points, means)


def test_many_scores_are_put_together_before_they_are_pooled() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=20_000)
    right = rng.random(20_000) < 1 / (1 + np.exp(-scores))
    points, probabilities = fit_table(scores, right)
    assert len(points) <= 100
    asked = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(np.interp(asked, points, probabilities), 1 / (1 + np.exp(-asked)), atol=0.06)


def test_one_observation_is_a_table() -> None:
    points, probabilities = fit_table(np.array([2.0]), np.array([True]))
    assert points.tolist() == [2.0]
    assert probabilities.tolist() == pytest.approx([1.0])
