"""Isotonic regression against the minimax formula; calibration measures and logistic regression by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lacuna.fitting.regression import (
    brier_score,
    calibration_error,
    fit_logistic,
    fit_table,
    pool_adjacent_violators,
)

VALUES = st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 5)), min_size=1, max_size=12)


def minimax(values: NDArray[np.float64], weights: NDArray[np.float64]) -> list[float]:
    """The best value at i is the largest, over a <= i, of the smallest, over b >= i, mean of a..b."""
    count = len(values)

    def mean(first: int, last: int) -> float:
        part = slice(first, last + 1)
        return float((values[part] * weights[part]).sum() / weights[part].sum())

    return [max(min(mean(a, b) for b in range(i, count)) for a in range(i + 1)) for i in range(count)]


@given(VALUES)
def test_isotonic_is_the_nearest_sequence_that_does_not_fall(rows: list[tuple[int, int]]) -> None:
    values, weights = np.array(rows, np.float64).T
    means, starts = pool_adjacent_violators(values, weights)
    lengths = np.diff([*starts, len(values)])
    np.testing.assert_allclose(np.repeat(means, lengths), minimax(values, weights), atol=1e-9)
    assert np.all(np.diff(means) > 0)


def test_isotonic_by_hand() -> None:
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


def test_calibration_error_by_hand() -> None:
    # Bins of 1/15: 0.50 and 0.52 share one (of mean 0.51, half right), 0.9 and 1.0 have their own.
    told, right = np.array([0.50, 0.52, 0.9, 1.0]), np.array([True, False, False, True])
    assert calibration_error(told, right) == pytest.approx((2 * 0.01 + 0.9 + 0.0) / 4)


def test_brier_by_hand() -> None:
    assert brier_score(np.array([0.5, 1.0, 0.2]), np.array([True, False, False])) == pytest.approx(
        (0.25 + 1 + 0.04) / 3
    )


def test_logistic_of_one_sign_is_its_log_odds() -> None:
    # Of those with the sign 3 of 4 are right, of those without 1 of 5.
    sign = np.array([1.0] * 4 + [0.0] * 5)[:, None]
    right = np.array([1, 1, 1, 0, 1, 0, 0, 0, 0])
    weight, constant = fit_logistic(sign, right)
    assert constant == pytest.approx(np.log(1 / 4), abs=0.01)
    assert weight + constant == pytest.approx(np.log(3 / 1), abs=0.01)


def test_logistic_finds_the_weights_that_made_the_data() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40_000, 2))
    right = rng.random(40_000) < 1 / (1 + np.exp(-(features @ [0.8, -1.5] + 0.3)))
    np.testing.assert_allclose(fit_logistic(features, right), [0.8, -1.5, 0.3], atol=0.06)


def test_logistic_stays_finite_where_nothing_overlaps() -> None:
    weights = fit_logistic(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1]))
    assert np.isfinite(weights).all()
    assert weights[0] > 0
