"""The forms of the interpolation agree with each other and with the formula, token by token."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuna.combiners.base import first_ranks
from lacuna.combiners.interpolation import Weighing, gold_probability, interpolate, mix_into, retrieved_gains

VOCABULARY, K = 7, 4


def naive(p_model: list[float], mass: list[float], values: list[int]) -> list[float]:
    """The formula, with plain loops."""
    knn_weight = sum(mass)
    said = [sum(one for one, value in zip(mass, values, strict=True) if value == token) for token in range(VOCABULARY)]
    return [(1 - knn_weight) * p + more for p, more in zip(p_model, said, strict=True)]


@given(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=K, max_size=K),
    st.lists(st.floats(0, 1), min_size=K, max_size=K),
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
    mixed = mix_into(log_probs.clone(), masses.clone(), places)
    assert mixed[0].exp().tolist() == pytest.approx(expected, abs=1e-12)
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
