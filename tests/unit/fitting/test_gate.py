"""Fitting a gate against naive computations: the gains it learns from, and its threshold."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.combiners import Vanilla
from lacuna.fitting.gate import fit_gate, search_gains, set_threshold
from unit.combiners.neighborhoods import REGIONS, VOCABULARY, made_up_gains, make_cache, make_neighbors


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.booleans())
def test_gains_are_those_of_the_whole_vocabulary(seed: int, weights: bool) -> None:
    found = make_neighbors(seed, 6, 4, weights=weights)
    drawn = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(6, VOCABULARY, dtype=torch.float64, generator=drawn).log_softmax(-1)
    gold = torch.randint(0, VOCABULARY, (6,), generator=drawn)
    combiner = Vanilla(k=4, knn_weight=0.6, temperature=20.0)
    gains = search_gains(make_cache(found, log_probs, gold), combiner)
    mass = combiner.mass(found)
    for row in range(6):
        final = [float(log_probs[row, token].exp()) * (1 - float(mass[row].sum())) for token in range(VOCABULARY)]
        for value, share in zip(found.values[row].tolist(), mass[row].tolist(), strict=True):
            if value >= 0:
                final[value] += share
        assert sum(final) == pytest.approx(1)
        expected = math.log(final[int(gold[row])]) - float(log_probs[row, gold[row]])
        assert float(gains[row]) == pytest.approx(expected, abs=1e-4)


def test_it_learns_where_searches_pay() -> None:
    gate = fit_gate(REGIONS, *made_up_gains(400), seed=1)
    features, gains = made_up_gains(400, seed=4)
    bounded = set_threshold(gate, features, gains, 0.02)
    wanted = bounded.gains(features) >= bounded.threshold
    assert float(gains[~wanted].sum()) <= 0.02 * float(gains.sum())
    assert float(wanted.float().mean()) < 0.7  # half of the tokens gain


@settings(deadline=None, max_examples=20)
@given(st.floats(0, 1), st.integers(0, 100))
def test_the_threshold_keeps_its_promise_and_is_the_highest_that_does(loss: float, seed: int) -> None:
    gate = fit_gate(REGIONS, *made_up_gains(60), seed=1)
    features, gains = made_up_gains(50, seed)
    gains = gains + torch.randn(50, generator=torch.Generator().manual_seed(seed)) / 2
    bounded = set_threshold(gate, features, gains, loss)
    allowed = loss * max(0.0, float(gains.double().sum())) + 1e-6
    predicted = gate.gains(features)
    assert float(gains[predicted < bounded.threshold].double().sum()) <= allowed
    for higher in predicted[predicted > bounded.threshold].tolist():
        assert float(gains[predicted < higher].double().sum()) > allowed - 2e-6


def test_a_gate_that_need_not_search_has_a_threshold_above_all() -> None:
    features, gains = made_up_gains(20)
    gate = set_threshold(fit_gate(REGIONS, features, gains, seed=1), features, -gains, 0.5)
    assert math.isfinite(gate.threshold)
    assert not bool((gate.gains(features) >= gate.threshold).any())


def test_the_same_seed_gives_the_same_gate() -> None:
    first, second = (fit_gate(REGIONS, *made_up_gains(30), seed=5) for _ in range(2))
    features, _ = made_up_gains(10, 8)
    assert torch.equal(first.gains(features), second.gains(features))
