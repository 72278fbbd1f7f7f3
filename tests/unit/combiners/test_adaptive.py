"""Adaptive kNN-MT: golden values, laws, and masses against a naive computation."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuna.combiners import Adaptive, Neighbors
from lacuna.combiners.base import distinct_counts
from lacuna.errors import SettingError
from unit.combiners.neighborhoods import VOCABULARY, make_neighbors, mix_densely, neighborhoods, one_query, single


def always(combiner: Adaptive, *p: float) -> Adaptive:
    """Make a combiner choose with these probabilities whatever it sees."""
    last = combiner.network[2]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor(p).log())
    return combiner


def lively(k: int, temperature: float, seed: int) -> Adaptive:
    """Return a float64 combiner whose choices depend on what it sees."""
    torch.manual_seed(seed)
    combiner = Adaptive(k, temperature)
    with torch.no_grad():
        combiner.network[0].weight[:, :k] *= 10
        combiner.network[2].weight *= 5
    combiner.network.double()
    return combiner


def naive_mass(combiner: Adaptive, found: Neighbors) -> list[list[float]]:
    first, _, last = (layer.requires_grad_(False) for layer in combiner.network)
    result = []
    for row in range(len(found.values)):
        values, distances = found.values[row].tolist(), found.distances[row].tolist()
        present = [place for place in range(combiner.k) if values[place] >= 0]
        farthest = max([distances[place] for place in present], default=0.0)
        seen = [distances[place] if values[place] >= 0 else farthest for place in range(combiner.k)]
        seen += [len({value for value in values[: place + 1] if value >= 0}) for place in range(combiner.k)]
        hidden = [
            math.tanh(sum(w * x for w, x in zip(line.tolist(), seen, strict=True)) + float(bias))
            for line, bias in zip(first.weight, first.bias, strict=True)
        ]
        logits = [sum(w * h for w, h in zip(line.tolist(), hidden, strict=True)) for line in last.weight]
        exps = [math.exp(logit + float(bias)) for logit, bias in zip(logits, last.bias, strict=True)]
        mass = [0.0] * combiner.k
        for number, share in enumerate(exps[1:]):
            chosen = [place for place in present if place < 2**number]
            scores = {
                place: math.exp(-distances[place] / combiner.temperature)
                * (1.0 if found.log_weights is None else math.exp(float(found.log_weights[row, place])))
                for place in chosen
            }
            for place in chosen:
                mass[place] += share / sum(exps) * scores[place] / sum(scores.values())
        result.append(mass)
    return result


def test_golden_value_of_the_reference() -> None:
    found = Neighbors(torch.tensor([[10.0, 20.0]]), torch.tensor([[4, 6]]))
    mass = always(Adaptive(k=2, temperature=10.0), 0.2, 0.3, 0.5).mass(found)
    assert mass[0].tolist() == pytest.approx([0.6655, 0.1345], abs=5e-5)
    assert float(mass.sum()) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([5, 5, 7, 9], [1, 1, 2, 3]),
        ([0, 5, 0, 7], [1, 2, 2, 3]),
        ([0, 0, 0, 0], [1, 1, 1, 1]),
        ([3, 4, -1, -1], [1, 2, 2, 2]),
        ([-1, -1, -1, -1], [0, 0, 0, 0]),
    ],
)
def test_golden_counts_of_distinct_values(values: list[int], counts: list[int]) -> None:
    assert distinct_counts(torch.tensor([values])).tolist() == [counts]


def test_choosing_one_neighbor_is_one_neighbor_at_distance_zero_too() -> None:
    found = Neighbors(torch.tensor([[0.0, 0.0, 0.0, 5.0]]), torch.tensor([[1, 2, 3, 4]]))
    assert always(Adaptive(k=4), 0.0, 1.0, 0.0, 0.0).mass(found).tolist() == [[1.0, 0.0, 0.0, 0.0]]


def test_network_is_the_size_of_the_original() -> None:
    torch.manual_seed(1)
    combiner = Adaptive(k=8)
    assert sum(weight.numel() for weight in combiner.network.parameters()) == 709
    assert combiner.choices == (1, 2, 4, 8)
    first = combiner.network[0].weight.detach()
    # Xavier: gain * sqrt(2 / (8 + 32))
    assert float(first[:, :8].std()) == pytest.approx(0.01 * math.sqrt(2 / 40), rel=0.15)
    assert float(first[:, 8:].std()) == pytest.approx(0.1 * math.sqrt(2 / 40), rel=0.15)


@given(neighborhoods, st.floats(1, 100), st.integers(0, 100))
def test_mass_equals_a_naive_computation(found: Neighbors, temperature: float, seed: int) -> None:
    combiner = lively(found.values.shape[1], temperature, seed)
    mass = combiner.mass(found)
    for got, wanted in zip(mass.tolist(), naive_mass(combiner, found), strict=True):
        assert got == pytest.approx(wanted, abs=1e-9)


@given(neighborhoods, st.integers(0, 100), st.booleans())
def test_masses_of_a_decoding_step_equal_those_of_fitting(found: Neighbors, seed: int, double: bool) -> None:
    combiner = lively(found.values.shape[1], 10.0, seed)
    if not double:
        found = single(found)
        combiner.network.float()
    with torch.no_grad():
        weighing = combiner.weigh(combiner.features(found), combiner.kernels(found))
    torch.testing.assert_close(combiner.mass(found), weighing.mass)


def test_constants_made_while_decoding_serve_fitting() -> None:
    found = make_neighbors(1, 4, 16, weights=False)
    combiner = lively(16, 10.0, 1)
    with torch.inference_mode():
        combiner.mass(found)
    weighing = combiner.weigh(combiner.features(found), combiner.kernels(found))
    weighing.mass.sum().backward()
    assert combiner.network[0].weight.grad is not None


@given(neighborhoods, st.integers(0, 100))
def test_masses_and_the_models_share_sum_to_one(found: Neighbors, seed: int) -> None:
    combiner = lively(found.values.shape[1], 10.0, seed)
    with torch.no_grad():
        weighing = combiner.weigh(combiner.features(found), combiner.kernels(found))
    assert (weighing.mass >= 0).all()
    assert (weighing.mass[found.values < 0] == 0).all()
    torch.testing.assert_close(
        weighing.mass.sum(1) + weighing.log_model_share.exp(), torch.ones(len(found.values)).double()
    )


@given(neighborhoods, st.integers(0, 100))
def test_choosing_none_leaves_every_bit_of_the_model(found: Neighbors, seed: int) -> None:
    log_probs = torch.randn(len(found.values), VOCABULARY, dtype=torch.float64).log_softmax(-1)
    combiner = lively(found.values.shape[1], 10.0, seed)
    with torch.no_grad():
        combiner.network[2].bias[0] += 10_000
    assert torch.equal(mix_densely(log_probs, combiner.mass(found), found.values), log_probs)


def test_batch_equals_single() -> None:
    found, combiner = make_neighbors(3, 20, 8, weights=True), lively(8, 10.0, 3)
    together = combiner.mass(found)
    for row in range(20):
        torch.testing.assert_close(combiner.mass(one_query(found, row))[0], together[row])


def test_masses_carry_no_gradient() -> None:
    found = Neighbors(torch.tensor([[1.0, 2.0]]), torch.tensor([[4, 6]]))
    assert not Adaptive(k=2).mass(found).requires_grad


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"k": 0}, "k: got 0"), ({"k": 6}, "power of 2"), ({"temperature": 0}, "temperature: got 0")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Adaptive(**settings)  # type: ignore[arg-type]
