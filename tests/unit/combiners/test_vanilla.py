"""Vanilla kNN-MT: golden values, laws, and the sparse mixing against a dense, naive computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lacuna.combiners import Neighbors, Vanilla, token_mass
from lacuna.combiners.vanilla import gold_p_knn
from lacuna.errors import SettingError
from unit.combiners.neighborhoods import mix_densely

VOCABULARY = 9


@st.composite
def neighborhoods(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows, k = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    distances = np.sort(draw(npst.arrays(np.float64, (rows, k), elements=st.floats(0, 300))), axis=1)
    values = draw(npst.arrays(np.int64, (rows, k), elements=st.integers(0, VOCABULARY - 1)))
    for row in range(rows):
        missing = draw(st.integers(0, k))
        distances[row, k - missing :], values[row, k - missing :] = np.inf, -1
    logits = draw(npst.arrays(np.float64, (rows, VOCABULARY), elements=st.floats(-8, 8)))
    return torch.from_numpy(distances), torch.from_numpy(values), torch.from_numpy(logits).log_softmax(-1)


def dense_mix(log_probs: torch.Tensor, mass: torch.Tensor, values: torch.Tensor) -> np.ndarray:
    result = np.zeros(log_probs.shape)
    for row in range(len(log_probs)):
        result[row] = (1 - float(mass[row].sum())) * log_probs[row].exp().numpy()
        for share, value in zip(mass[row].tolist(), values[row].tolist(), strict=True):
            if value >= 0:
                result[row, value] += share
    return result


def test_a_merged_entry_counts_as_often_as_it_stands_for() -> None:
    weights = torch.tensor([[3.0, 1.0]])
    found = Neighbors(torch.tensor([[4.0, 4.0]]), torch.tensor([[5, 7]]), weights.log())
    mass = Vanilla(k=2, knn_weight=1.0, temperature=10.0).mass(found)
    assert mass.tolist() == [pytest.approx([0.75, 0.25])]


def test_golden_value_of_the_reference() -> None:
    distances, values = torch.tensor([[0.0, 10.0, 20.0]]), torch.tensor([[5, 7, 5]])
    mass = Vanilla(k=3, knn_weight=1.0, temperature=10.0).mass(Neighbors(distances, values))
    total = token_mass(mass, values)
    assert total[0].tolist() == pytest.approx([0.7553, 0.2447, 0.7553], abs=5e-5)


@given(neighborhoods(), st.floats(0, 1), st.floats(0.5, 200))
def test_mixing_equals_the_dense_computation_and_sums_to_one(
    case: tuple[torch.Tensor, torch.Tensor, torch.Tensor], weight: float, temperature: float
) -> None:
    distances, values, log_probs = case
    mass = Vanilla(distances.shape[1], weight, temperature).mass(Neighbors(distances, values))
    expected = dense_mix(log_probs, mass, values)
    mixed = mix_densely(log_probs, mass, values).exp().numpy()
    np.testing.assert_allclose(mixed, expected, atol=3e-7)  # masses are added up in float32
    np.testing.assert_allclose(mixed.sum(1), 1.0, atol=2e-6)


@given(neighborhoods())
def test_weight_zero_leaves_every_bit(case: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> None:
    distances, values, log_probs = case
    mass = Vanilla(distances.shape[1], 0.0, 10.0).mass(Neighbors(distances, values))
    assert torch.equal(mix_densely(log_probs, mass, values), log_probs)


@given(neighborhoods())
def test_query_without_neighbors_keeps_the_model(case: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> None:
    distances, values, log_probs = case
    missing, far = torch.full_like(values, -1), torch.full_like(distances, torch.inf)
    mass = Vanilla(distances.shape[1], 0.7, 10.0).mass(Neighbors(far, missing))
    assert torch.equal(mix_densely(log_probs, mass, missing), log_probs)


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"k": 0}, "k: got 0"), ({"knn_weight": 1.2}, "knn_weight: got 1.2"), ({"temperature": 0}, "temperature: got 0")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Vanilla(**settings)  # type: ignore[arg-type]


@given(st.integers(0, 2**32 - 1))
def test_p_knn_of_the_right_token_is_its_share_of_the_masses(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 3, (5, 4))
    values[0] = -1  # no neighbors
    distances = np.where(values < 0, np.inf, np.sort(rng.random((5, 4)) * 30, axis=1)).astype(np.float32)
    weights, gold = rng.integers(1, 4, (5, 4)).astype(np.float32), rng.integers(0, 3, 5)
    says_gold = values == gold[:, None]
    neighbors = Neighbors(*map(torch.from_numpy, (distances, values, np.log(weights))))
    mass = Vanilla(4, knn_weight=1.0, temperature=7.0).mass(neighbors).numpy()
    expected = (mass * says_gold).sum(1)
    np.testing.assert_allclose(gold_p_knn(distances, says_gold, weights, 7.0), expected, rtol=1e-4, atol=1e-6)
