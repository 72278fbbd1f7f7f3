"""The learning rate's course by hand-worked numbers, and settings that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lacuna.errors import SettingError
from lacuna.models.training.settings import Shape, TrainSettings, learning_share, read_settings


@pytest.mark.parametrize(
    ("step", "finished", "share"),
    [(0, 0.0, 0.01), (49, 0.0, 0.5), (99, 0.1, 1.0), (500, 0.6, 1.0), (700, 0.8, 0.5), (899, 1.0, 0.0)],
)
def test_rate_rises_stays_and_falls(step: int, finished: float, share: float) -> None:
    settings = TrainSettings(steps=1000, warmup_steps=100, decay_share=0.4)
    assert learning_share(step, finished, settings) == pytest.approx(share)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "exactly one"),
        ({"hours": 1, "steps": 1}, "exactly one"),
        ({"hours": -1}, "hours: got -1"),
        ({"steps": 0}, "steps: got 0"),
        ({"steps": 5, "dropout": 1.0}, "dropout: got 1.0"),
        ({"steps": 5, "decay_share": 0}, "decay_share: got 0"),
        ({"steps": 5, "learning_rate": 0}, "learning_rate: got 0"),
        ({"steps": 5, "tokenization": "words"}, "tokenization: got 'words'; allowed is sentencepiece or bpe"),
        ({"steps": 5, "tokenization": ["bpe"]}, "tokenization: got"),
        ({"steps": 5, "tokenization": "bpe", "vocabularies": "both"}, "allowed is joint or separate"),
        ({"steps": 5, "vocabularies": "separate"}, "vocabularies: got separate with sentencepiece"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        TrainSettings(**wrong)


def test_shape_wants_heads_to_divide_the_dimension() -> None:
    with pytest.raises(SettingError, match="dimension: got 250; allowed is a multiple of 8"):
        Shape(dimension=250)


def test_file_gives_settings_and_the_budget_comes_from_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"batch_tokens": 512, "shape": {"encoder_layers": 1}}))
    settings = read_settings(path, steps=7)
    assert (settings.batch_tokens, settings.shape.encoder_layers, settings.steps) == (512, 1, 7)


def test_what_the_caller_says_goes_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"vocabularies": "separate", "seed": 5}))
    settings = read_settings(path, steps=7, tokenization="bpe", vocabularies=None)
    assert (settings.tokenization, settings.vocabularies, settings.seed) == ("bpe", "separate", 5)


@pytest.mark.parametrize(
    ("content", "says"),
    [('{"batch_token": 1}', "did you mean batch_tokens"), ("[]", "got list"), ("{", "cannot be read as JSON")],
)
def test_bad_files_are_refused_with_the_way_out(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(content)
    with pytest.raises(SettingError, match=says):
        read_settings(path, steps=1)
