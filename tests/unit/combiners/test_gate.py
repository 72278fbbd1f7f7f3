"""The gate: its features by hand, its decisions, and its file."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lacuna.combiners import load_gate, save_gate
from lacuna.combiners.gate import GateManifest, gate_features
from lacuna.errors import CombinerError
from lacuna.fitting.gate import fit_gate, set_threshold

from .neighborhoods import REGIONS, made_up_gains

MANIFEST = GateManifest(threshold=0.25, searched=0.5, lost=0.02, bleu=(20.0, 19.9), p_decline=0.4, model="m", seed=1)


def test_features_by_hand() -> None:
    keys = torch.tensor([[1.0, 0.0], [4.0, 2.0]])
    log_p_best = torch.tensor([0.5, 0.98]).log()
    expected = [[math.log(0.5), math.log(0.5), 1.0, 0.5, 0.9], [math.log(0.98), math.log(0.02), 2.0, 3.0, 0.1]]
    assert gate_features(REGIONS, keys, log_p_best).tolist() == [pytest.approx(row, abs=1e-5) for row in expected]


def test_without_a_threshold_every_search_is_wanted() -> None:
    gate = fit_gate(REGIONS, *made_up_gains(30), seed=1)
    assert bool(gate.wants(torch.randn(7, 2), -torch.rand(7)).all())


def test_no_search_above_the_beam_threshold() -> None:
    gate = fit_gate(REGIONS, *made_up_gains(30), seed=1)
    keys, log_p_best = torch.randn(4, 2), -torch.rand(4)
    score_gap = torch.tensor([0.0, 1.5, 1.6, torch.inf])
    bounded = replace(gate, beam_threshold=1.5)
    assert bounded.wants(keys, log_p_best, score_gap).tolist() == [True, True, False, False]
    assert bounded.wants(keys, log_p_best).tolist() == [True] * 4  # without gaps, all count as 0
    predicted = gate.gains(gate_features(REGIONS, keys, log_p_best))
    both = replace(bounded, threshold=float(predicted[0]) + 1e-4)
    assert not bool(both.wants(keys, log_p_best, score_gap)[0])
    assert both.wants(keys, log_p_best, score_gap)[1] == (predicted[1] >= both.threshold)


def test_saved_and_loaded_it_decides_alike(tmp_path: Path) -> None:
    gate = set_threshold(fit_gate(REGIONS, *made_up_gains(50), seed=1), *made_up_gains(50, 2), loss=0.1)
    gate = replace(gate, beam_threshold=1.0)
    save_gate(gate, tmp_path, MANIFEST.model_copy(update={"threshold": gate.threshold, "reach": gate.beam_threshold}))
    loaded, manifest = load_gate(tmp_path)
    keys, log_p_best, score_gap = torch.randn(40, 2), -3 * torch.rand(40), 2 * torch.rand(40)
    assert torch.equal(loaded.wants(keys, log_p_best, score_gap), gate.wants(keys, log_p_best, score_gap))
    assert manifest.bleu == (20.0, 19.9)


def test_bounds_that_are_not_there_are_none(tmp_path: Path) -> None:
    gate = fit_gate(REGIONS, *made_up_gains(20), seed=1)
    save_gate(gate, tmp_path, MANIFEST.model_copy(update={"threshold": None, "reach": None}))
    loaded, _ = load_gate(tmp_path)
    assert (loaded.threshold, loaded.beam_threshold) == (-math.inf, math.inf)


def test_a_missing_or_damaged_gate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CombinerError, match="this combiner has no gate"):
        load_gate(tmp_path)
    save_gate(fit_gate(REGIONS, *made_up_gains(20), seed=1), tmp_path, MANIFEST)
    path = tmp_path / "gate" / "gate.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + b"1234")
    with pytest.raises(CombinerError, match="damaged"):
        load_gate(tmp_path)
