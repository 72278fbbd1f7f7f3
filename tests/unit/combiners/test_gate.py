"""The gate against naive computations: its features, the gains it learns from, its threshold, its file."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.combiners import Vanilla, load_gate, save_gate
from lacuna.combiners.gate import GateManifest, Regions
from lacuna.errors import CombinerError
from lacuna.fitting.gate import fit_gate, search_gains, set_threshold

from .neighborhoods import VOCABULARY, make_cache, make_neighbors

REGIONS = Regions(torch.tensor([[0.0, 0.0], [4.0, 0.0]]), torch.tensor([[0.5, 0.9], [3.0, 0.1]]))
MANIFEST = GateManifest(threshold=0.25, searched=0.5, lost=0.02, bleu=(20.0, 19.9), p_decline=0.4, model="m", seed=1)


def made_up(tokens: int, seed: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Features, and gains that are large just where the model is unsure."""
    drawn = torch.Generator().manual_seed(seed)
    features = torch.randn(tokens, 5, generator=drawn)
    return features, torch.where(features[:, 0] < 0, 2.0, 0.0)


def test_features_by_hand() -> None:
    gate = fit_gate(REGIONS, *made_up(20), seed=1)
    keys = torch.tensor([[1.0, 0.0], [4.0, 2.0]])
    probabilities = torch.tensor([[0.5, 0.25, 0.25], [0.98, 0.01, 0.01]])
    expected = [[math.log(0.5), math.log(0.5), 1.0, 0.5, 0.9], [math.log(0.98), math.log(0.02), 2.0, 3.0, 0.1]]
    assert gate.features(keys, probabilities.log()).tolist() == [pytest.approx(row, abs=1e-5) for row in expected]


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
    gate = fit_gate(REGIONS, *made_up(400), seed=1)
    features, gains = made_up(400, seed=4)
    bounded = set_threshold(gate, features, gains, 0.02)
    wanted = bounded.gains(features) >= bounded.threshold
    assert float(gains[~wanted].sum()) <= 0.02 * float(gains.sum())
    assert float(wanted.float().mean()) < 0.7  # half of the tokens gain


@settings(deadline=None, max_examples=20)
@given(st.floats(0, 1), st.integers(0, 100))
def test_the_threshold_keeps_its_promise_and_is_the_highest_that_does(loss: float, seed: int) -> None:
    gate = fit_gate(REGIONS, *made_up(60), seed=1)
    features, gains = made_up(50, seed)
    gains = gains + torch.randn(50, generator=torch.Generator().manual_seed(seed)) / 2
    bounded = set_threshold(gate, features, gains, loss)
    allowed = loss * max(0.0, float(gains.double().sum())) + 1e-6
    predicted = gate.gains(features)
    assert float(gains[predicted < bounded.threshold].double().sum()) <= allowed
    for higher in predicted[predicted > bounded.threshold].tolist():
        assert float(gains[predicted < higher].double().sum()) > allowed - 2e-6


def test_without_a_threshold_every_search_is_wanted() -> None:
    gate = fit_gate(REGIONS, *made_up(30), seed=1)
    assert bool(gate.wants(torch.randn(7, 2), torch.randn(7, 4).log_softmax(-1)).all())


def test_no_search_above_the_beam_threshold() -> None:
    gate = fit_gate(REGIONS, *made_up(30), seed=1)
    keys, log_probs = torch.randn(4, 2), torch.randn(4, 4).log_softmax(-1)
    score_gap = torch.tensor([0.0, 1.5, 1.6, torch.inf])
    bounded = replace(gate, beam_threshold=1.5)
    assert bounded.wants(keys, log_probs, score_gap).tolist() == [True, True, False, False]
    assert bounded.wants(keys, log_probs).tolist() == [True] * 4  # without gaps, all count as 0
    predicted = gate.gains(gate.features(keys, log_probs))
    both = replace(bounded, threshold=float(predicted[0]) + 1e-4)
    assert not bool(both.wants(keys, log_probs, score_gap)[0])
    assert both.wants(keys, log_probs, score_gap)[1] == (predicted[1] >= both.threshold)


def test_a_gate_that_need_not_search_has_a_threshold_above_all() -> None:
    features, gains = made_up(20)
    gate = set_threshold(fit_gate(REGIONS, features, gains, seed=1), features, -gains, 0.5)
    assert math.isfinite(gate.threshold)
    assert not bool((gate.gains(features) >= gate.threshold).any())


def test_the_same_seed_gives_the_same_gate() -> None:
    first, second = (fit_gate(REGIONS, *made_up(30), seed=5) for _ in range(2))
    features, _ = made_up(10, 8)
    assert torch.equal(first.gains(features), second.gains(features))


def test_saved_and_loaded_it_decides_alike(tmp_path: Path) -> None:
    gate = set_threshold(fit_gate(REGIONS, *made_up(50), seed=1), *made_up(50, 2), loss=0.1)
    gate = replace(gate, beam_threshold=1.0)
    save_gate(gate, tmp_path, MANIFEST.model_copy(update={"threshold": gate.threshold, "reach": gate.beam_threshold}))
    loaded, manifest = load_gate(tmp_path)
    keys, log_probs, score_gap = torch.randn(40, 2), (3 * torch.randn(40, 6)).log_softmax(-1), 2 * torch.rand(40)
    assert torch.equal(loaded.wants(keys, log_probs, score_gap), gate.wants(keys, log_probs, score_gap))
    assert manifest.bleu == (20.0, 19.9)


def test_bounds_that_are_not_there_are_none(tmp_path: Path) -> None:
    gate = fit_gate(REGIONS, *made_up(20), seed=1)
    save_gate(gate, tmp_path, MANIFEST.model_copy(update={"threshold": None, "reach": None}))
    loaded, _ = load_gate(tmp_path)
    assert (loaded.threshold, loaded.beam_threshold) == (-math.inf, math.inf)


def test_a_missing_or_damaged_gate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CombinerError, match="this combiner has no gate"):
        load_gate(tmp_path)
    save_gate(fit_gate(REGIONS, *made_up(20), seed=1), tmp_path, MANIFEST)
    path = tmp_path / "gate" / "gate.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + b"1234")
    with pytest.raises(CombinerError, match="damaged"):
        load_gate(tmp_path)
