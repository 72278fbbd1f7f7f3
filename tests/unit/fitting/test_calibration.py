"""What a calibration learns from made-up tokens, and how estimates are compared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import CorpusError
from lacuna.fitting.calibration import DevTokens, compare, fit_calibration

MOST = 32


def made_up_tokens(count: int, seed: int = 0) -> DevTokens:
    """Tokens at which model and margin each know something of whether the model is right; the model is too sure."""
    rng = np.random.default_rng(seed)
    odds, margins = rng.normal(0.5, 1.5, count), rng.integers(0, 2 * MOST, count)
    truth = odds + np.log2(1 + np.minimum(margins, MOST)) - 2
    right = rng.random(count) < 1 / (1 + np.exp(-truth))
    return DevTokens(np.arange(count) // 10, margins, 1 / (1 + np.exp(-2 * odds)), right)


TOKENS = made_up_tokens(2_000)


@given(st.integers(0, 100), st.integers(0, 100), st.floats(0.01, 1), st.floats(0.01, 1))
def test_knowing_more_never_makes_it_less_sure(margin: int, more: int, p: float, other: float) -> None:
    calibration = fit_calibration(TOKENS, MOST)
    low, high = sorted([p, other])
    told = calibration.probability(np.array([margin, margin + more]), np.array([low, high]))
    assert 0 <= told[0] <= told[1] <= 1


def test_both_signs_tell_more_than_either() -> None:
    measured = {one.name: one for one in compare(made_up_tokens(20_000), MOST, seed=1)}
    assert list(measured) == ["max probability", "margin", "max probability, calibrated", "both"]
    assert measured["max probability"].ece > 0.1
    for name in ("margin", "max probability, calibrated", "both"):
        assert measured[name].ece < 0.02
    assert measured["both"].brier < measured["margin"].brier - 0.01
    assert measured["both"].brier < measured["max probability, calibrated"].brier - 0.01
    assert measured["both"].sentence_error < measured["max probability"].sentence_error


def test_each_sentence_is_judged_by_what_was_fitted_to_the_others() -> None:
    # Nothing but the share of right tokens can be learned, and the two sentences have the opposite to tell.
    tokens = DevTokens(np.repeat([0, 1], 10), np.zeros(20, np.int64), np.full(20, 0.5), np.arange(20) < 10)
    raw, *fitted = compare(tokens, MOST, seed=1)
    assert (raw.brier, raw.ece, raw.sentence_error) == (0.25, 0.0, 0.5)
    for one in fitted:
        assert (one.brier, one.ece, one.sentence_error) == (1.0, 1.0, 1.0)


def test_one_sentence_is_too_few() -> None:
    with pytest.raises(CorpusError, match=r"1 sentence.*2 or more"):
        compare(DevTokens(np.zeros(5, np.int64), np.arange(5), np.full(5, 0.5), np.ones(5, np.bool_)), MOST, seed=1)
