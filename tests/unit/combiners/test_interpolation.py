"""The forms of the interpolation agree with each other and with the formula, token by token."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuna.combiners.base import first_ranks
from lacuna.combiners.interpolation import Weighing, gold_probability, interpolate, mix_tokens, retrieved_gains
from lacuna.likely_tokens import NextTokens
from unit.combiners.neighborhoods import mix_densely

VOCABULARY, K = 7, 4


def naive(p_model: list[float], mass: list[float], values: list[int]) -> list[float]:
    """The formula, with plain loops."""
    knn_weight = sum(mass)
    said = [sum(one for one, value in zip(mass, values, strict=True) if value == token) for token in range(VOCABULARY)]
    return [(1 - knn_weight) * p + more for p, more in zip(p_model, said, strict=True)]


@given(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=K, max_size=K),
    st.lists(st.floats(0, 1).map(lambda share: round(share, 9)), min_size=K, max_size=K),  # products do not underflow
    st.floats(0.0, 0.99),
    st.integers(0, 2**31),
)
def test_all_forms_are_the_formula(values: list[int], shares: list[float], knn_weight: float, seed: int) -> None:
    total = sum(shares)
    mass = [knn_weight * share / total if total else 0.0 for share in shares]
    p_model = np.random.default_rng(seed).dirichlet(np.ones(VOCABULARY)) * 0.99 + 0.01 / VOCABULARY
    expected = naive(p_model.tolist(), mass, values)
    log_probs, places = torch.tensor(p_model).log()[None], torch.tensor([values])
    masses = torch.tensor([mass], dtype=torch.float64)
    mixed = mix_densely(log_probs, masses, places)
    assert mixed[0].exp().tolist() == pytest.approx(expected, abs=3e-7)  # masses are added up in float32
    weighing = Weighing.of(masses)
    gains = retrieved_gains(weighing, log_probs.gather(1, places), first_ranks(places))
    for place, value in enumerate(values):
        first = values.index(value) == place
        log_p = float(weighing.log_model_share[0] + log_probs[0, value] + gains[0, place])
        if first:
            assert np.exp(log_p) == pytest.approx(expected[value], abs=1e-9)
        else:
            assert float(gains[0, place]) == 0.0
    for token in range(VOCABULARY):
        found = gold_probability(torch.tensor(p_model[token : token + 1]), masses, places == token)
        assert float(found[0]) == pytest.approx(expected[token], abs=1e-12)
        said = sum(one for one, value in zip(mass, values, strict=True) if value == token)
        weight = np.array(sum(mass))
        p_knn = np.array(said / weight if weight else 0.0)
        assert float(interpolate(np.array(p_model[token]), p_knn, weight)) == pytest.approx(expected[token], abs=1e-12)


Made = tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]


@st.composite
def mixtures(draw: st.DrawFn) -> Made:
    """Log-probabilities (rows, vocabulary), masses and values (rows, k), and banned tokens."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, k, size = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(3, 30))
    p = rng.dirichlet(np.full(size, draw(st.sampled_from([0.1, 1.0]))), rows).clip(1e-30)
    values = rng.integers(0, min(size, draw(st.integers(1, 30))), (rows, k))  # repeated ones
    mass = rng.dirichlet(np.ones(k), rows) * draw(st.sampled_from([0.0, 0.3, 0.999, 1.0]))
    if draw(st.booleans()):
        mass[rng.random(mass.shape) < 0.3] = 0.0
    missing = rng.random((rows, k)) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    values[missing], mass[missing] = -1, 0.0
    banned = rng.choice(size, draw(st.integers(0, 2)), replace=False).tolist()
    return np.log(p).astype(np.float32), mass.astype(np.float32), values, banned


def model_says(
    log_probs: np.ndarray, values: np.ndarray, banned: list[int], count: int
) -> tuple[NextTokens, np.ndarray]:
    """The best tokens, and the log-probabilities of the values."""
    allowed = log_probs.copy()
    allowed[:, banned] = -np.inf
    order = np.argsort(-allowed, axis=1, kind="stable")[:, :count]
    asked = np.where(values < 0, -np.inf, np.take_along_axis(log_probs, values.clip(0), 1)).astype(np.float32)
    return NextTokens(order, np.take_along_axis(allowed, order, 1)), asked


@given(mixtures(), st.integers(1, 6))
def test_the_best_tokens_are_those_of_the_dense_formula(made: Made, count: int) -> None:
    log_probs, mass, values, banned = made
    best, asked = model_says(log_probs, values, banned, count)
    tokens, mixed = mix_tokens(best, mass, values, asked, banned)
    assert tokens.shape == mixed.shape == best.tokens.shape
    assert (tokens.dtype, mixed.dtype) == (np.int64, np.float32)
    for row in range(len(log_probs)):
        p = np.exp(log_probs[row].astype(np.float64)) * max(0.0, 1 - mass[row].astype(np.float64).sum())
        for share, value in zip(mass[row].tolist(), values[row].tolist(), strict=True):
            if value >= 0:
                p[value] += share
        p[banned] = 0.0
        expected = np.sort(p)[::-1][:count]
        np.testing.assert_allclose(np.exp(mixed[row].astype(np.float64)), expected, rtol=3e-6, atol=1e-7)
        found = mixed[row] > -np.inf
        chosen = tokens[row][found].tolist()
        assert len(set(chosen)) == len(chosen)
        assert not set(chosen) & set(banned)
        np.testing.assert_allclose(np.exp(mixed[row][found].astype(np.float64)), p[chosen], rtol=3e-6, atol=1e-7)


@given(mixtures(), st.integers(1, 6))
def test_without_mass_no_bit_changes(made: Made, count: int) -> None:
    log_probs, mass, values, banned = made
    best, asked = model_says(log_probs, values, banned, count)
    # The model may give other last bits when it is asked for single tokens. Those of the first list are kept.
    tokens, mixed = mix_tokens(best, np.zeros_like(mass), values, np.nextafter(asked, np.float32(-np.inf)), banned)
    real = best.log_probs > -np.inf
    np.testing.assert_array_equal(np.where(real, tokens, 0), np.where(real, best.tokens, 0))
    np.testing.assert_array_equal(mixed, best.log_probs)
    nothing = (
        np.zeros((len(mass), 0), np.float32),
        np.zeros((len(mass), 0), np.int64),
        np.zeros((len(mass), 0), np.float32),
    )
    assert mix_tokens(best, *nothing, banned) == best


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("above", [0.0, 1e-7, 3e-6])
def test_masses_may_add_up_to_one_or_slightly_more(above: float) -> None:
    log_probs, values = np.log(np.full((1, 4), 0.25, np.float32)), np.array([[2, 1, 2]])
    mass = np.array([[0.5, 0.25, 0.25 + above]], np.float32)
    best, asked = model_says(log_probs, values, [], 4)
    tokens, mixed = mix_tokens(best, mass, values, asked)
    assert tokens[0, :2].tolist() == [2, 1]
    assert np.exp(mixed[0]).tolist() == pytest.approx([0.75, 0.25, 0, 0], abs=1e-5)


def test_there_may_be_thousands_of_neighbors() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 50, (2, 1500))
    mass = np.full((2, 1500), 0.5 / 1500, np.float32)
    log_probs = np.log(rng.dirichlet(np.ones(50), 2)).astype(np.float32)
    best, asked = model_says(log_probs, values, [], 5)
    tokens, mixed = mix_tokens(best, mass, values, asked)
    p = 0.5 * np.exp(log_probs.astype(np.float64))
    for row in range(2):
        p[row] += 0.5 * np.bincount(values[row], minlength=50) / 1500
    np.testing.assert_array_equal(tokens, np.argsort(-p, axis=1)[:, :5])
    np.testing.assert_allclose(np.exp(mixed), np.take_along_axis(p, tokens, 1), rtol=1e-5)
