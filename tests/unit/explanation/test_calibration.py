"""Calibration: its laws, what it learns from made-up tokens, and its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forging import write_forged
from lacuna.errors import CalibrationError, CorpusError
from lacuna.fitting.calibration import DevTokens, compare, fit_calibration
from lacuna.translator.calibration import (
    MANIFEST,
    Calibration,
    CalibrationManifest,
    load_calibration,
    save_calibration,
)

MOST = 32


def made_up_tokens(count: int, seed: int = 0) -> DevTokens:
    """Tokens at which model and margin each know something of whether the model is right; the model is too sure."""
    rng = np.random.default_rng(seed)
    odds, margins = rng.normal(0.5, 1.5, count), rng.integers(0, 2 * MOST, count)
    truth = odds + np.log2(1 + np.minimum(margins, MOST)) - 2
    right = rng.random(count) < 1 / (1 + np.exp(-truth))
    return DevTokens(np.arange(count) // 10, margins, 1 / (1 + np.exp(-2 * odds)), right)


def record(**fields: Any) -> CalibrationManifest:
    content: dict[str, Any] = {
        "weights": (0.5, 0.25),
        "scores": (-1.0, 0.5, 2.0),
        "probabilities": (0.25, 0.5, 0.75),
        "most_margin": MOST,
        "model": {"name": "m", "fingerprint": "f" * 64},
        "memories": (),
        "sentences": 2,
        "tokens": 9,
        "right": 0.5,
        "seed": 1,
        "measured": (),
    }
    return CalibrationManifest.model_validate(content | fields)


def test_reads_the_table_by_hand() -> None:
    calibration = Calibration((0.5, 0.25), (-1.0, 0.5, 2.0), (0.25, 0.5, 0.75), MOST)
    # Log-odds 0 and margin 3: 0.25 * 2 = 0.5. Log-odds 0 and margin 0: 0, two thirds of the way from -1 to 0.5.
    told = calibration.probability(np.array([3, 0, 1000]), np.array([0.5, 0.5, 1.0]))
    np.testing.assert_allclose(told, [0.5, 0.25 + 0.25 * 2 / 3, 0.75])


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


def test_comes_back_from_disk(tmp_path: Path) -> None:
    save_calibration(record(), tmp_path / "one")
    assert load_calibration(tmp_path / "one") == Calibration(
        (0.5, 0.25), (-1.0, 0.5, 2.0), (0.25, 0.5, 0.75), MOST, "f" * 64
    )
    with pytest.raises(CalibrationError, match="already there"):
        save_calibration(record(), tmp_path / "one")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"scores": [0.5, -1.0, 2.0]}, "is not increasing"),
        ({"probabilities": [0.5, 0.25, 0.75]}, "is not increasing"),
        ({"probabilities": [0.5, 0.75]}, "is not increasing"),
        ({"probabilities": [0.5, 0.75, 1.5]}, "probabilities.2"),
        ({"weights": [-1.0, 0.5]}, "weights.0"),
        ({"scores": [], "probabilities": []}, "scores"),
        ({"format": 99}, "has format 99"),
        ({"kind": "combiner"}, "of kind 'combiner'"),
    ],
)
def test_a_damaged_one_is_refused(fields: dict[str, Any], says: str, tmp_path: Path) -> None:
    save_calibration(record(), tmp_path / "one")
    path = tmp_path / "one" / MANIFEST
    write_forged(path, json.loads(path.read_text()) | fields)
    with pytest.raises(CalibrationError, match=says):
        load_calibration(tmp_path / "one")


def test_the_manifest_has_a_checksum(tmp_path: Path) -> None:
    save_calibration(record(), tmp_path / "one")
    path = tmp_path / "one" / MANIFEST
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"weights": [0.5, 0.5]}))
    with pytest.raises(CalibrationError, match="edited or damaged, its content does not match its checksum; copy or"):
        load_calibration(tmp_path / "one")
    del content["checksum"]  # as earlier versions wrote it
    path.write_text(json.dumps(content))
    assert load_calibration(tmp_path / "one").weights == (0.5, 0.25)


def test_none_there_is_said() -> None:
    with pytest.raises(CalibrationError, match="create one with: lacuna calibrate"):
        load_calibration("nowhere")


TOKENS = made_up_tokens(2_000)
