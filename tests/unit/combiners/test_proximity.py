"""Proximity: a hand-worked value, a naive computation, and its laws."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuna.combiners import Neighbors, Proximity, Vanilla
from lacuna.errors import SettingError

distances_of = st.lists(st.floats(0, 500), min_size=1, max_size=6).map(sorted)


def one(distances: list[float], weights: list[float] | None = None) -> Neighbors:
    log_weights = None if weights is None else torch.tensor([weights], dtype=torch.float64).log()
    return Neighbors(torch.tensor([distances], dtype=torch.float64), torch.arange(len(distances))[None], log_weights)


def test_hand_worked_value() -> None:
    # exp(-10/10) and exp(-30/10) beside the model's exp(-20/10), times 0.8
    mass = Proximity(k=2, knn_weight=0.8, temperature=10, model_distance=20).mass(one([10.0, 30.0]))[0].tolist()
    total = math.exp(-1) + math.exp(-2) + math.exp(-3)
    assert mass == pytest.approx([0.8 * math.exp(-1) / total, 0.8 * math.exp(-3) / total])
    assert mass == pytest.approx([0.5322, 0.0720], abs=5e-5)


def test_a_merged_entry_counts_as_often_as_it_stands_for() -> None:
    combiner = Proximity(k=3, knn_weight=1, temperature=7, model_distance=15)
    merged, single = combiner.mass(one([4.0, 9.0], [2.0, 1.0]))[0], combiner.mass(one([4.0, 4.0, 9.0]))[0]
    assert merged.tolist() == pytest.approx([2 * float(single[0]), float(single[2])])


@given(distances_of, st.floats(0, 1), st.floats(1, 100), st.floats(0, 500))
def test_equals_a_naive_computation(distances: list[float], weight: float, temperature: float, at: float) -> None:
    mass = Proximity(len(distances), weight, temperature, at).mass(one(distances))[0].tolist()
    nearest = min(*distances, at)
    kernels = [math.exp((nearest - distance) / temperature) for distance in distances]
    total = sum(kernels) + math.exp((nearest - at) / temperature)
    assert mass == pytest.approx([weight * kernel / total for kernel in kernels], abs=1e-12)
    assert sum(mass) <= weight + 1e-12


@given(distances_of, st.floats(1, 100))
def test_nearer_neighbors_never_get_less(distances: list[float], shift: float) -> None:
    combiner = Proximity(len(distances), 0.9, 10.0, 100.0)
    near, far = combiner.mass(one(distances)).sum(), combiner.mass(one([each + shift for each in distances])).sum()
    assert float(near) >= float(far)


@given(distances_of)
def test_with_the_model_far_away_it_is_vanilla(distances: list[float]) -> None:
    found = one(distances)
    expected = Vanilla(len(distances), 0.7, 10.0).mass(found)
    assert torch.allclose(Proximity(len(distances), 0.7, 10.0, 1e5).mass(found), expected)


def test_missing_neighbors_get_nothing() -> None:
    found = Neighbors(torch.tensor([[3.0, torch.inf], [torch.inf, torch.inf]]), torch.tensor([[4, -1], [-1, -1]]))
    mass = Proximity(2, 0.9, 10.0, 20.0).mass(found)
    assert mass[0, 0] > 0
    assert mass.flatten()[1:].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ((0, 0.5, 1.0, 1.0), "k: got 0"),
        ((4, 1.5, 1.0, 1.0), r"knn_weight: got 1\.5"),
        ((4, 0.5, 0.0, 1.0), r"temperature: got 0\.0"),
        ((4, 0.5, 1.0, -1.0), r"model_distance: got -1\.0"),
        ((4, 0.5, 1.0, math.nan), "model_distance: got nan"),
    ],
)
def test_settings_out_of_range_are_refused(settings: tuple[int, float, float, float], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Proximity(*settings)
