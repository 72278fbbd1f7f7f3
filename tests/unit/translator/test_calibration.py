"""Calibration: its table by hand, and its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forging import write_forged
from lacuna.errors import CalibrationError
from lacuna.translator.calibration import (
    MANIFEST,
    Calibration,
    CalibrationManifest,
    load_calibration,
    save_calibration,
)

MOST = 32


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
