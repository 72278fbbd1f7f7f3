"""Calibration error, Brier score and logistic regression against hand-worked numbers."""

from __future__ import annotations

import numpy as np
import pytest

from lacuna.fitting.regression import brier_score, calibration_error, fit_logistic


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
