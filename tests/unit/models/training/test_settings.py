"""Settings: ranges, limits and settings files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lacuna.errors import SettingError
from lacuna.models.training.settings import FinetuneSettings, LoraSettings, Shape, TrainSettings, read_settings


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
    [
        ('{"batch_token": 1}', "did you mean batch_tokens"),
        ("[]", "got list"),
        ("{", "cannot be read as JSON"),
        ('{"shape": 3}', "got int"),
    ],
)
def test_bad_files_are_refused_with_the_way_out(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(content)
    with pytest.raises(SettingError, match=says):
        read_settings(path, steps=1)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 1000),
        ({"epochs": 2.5}, 250),
        ({"steps": 30}, 30),
        ({"steps": 300, "epochs": 2.0}, 200),
        ({"hours": 1.0}, None),
        ({"hours": 1.0, "steps": 7}, 7),
        ({"epochs": 0.001}, 1),
    ],
)
def test_the_first_limit_ends_the_run(limits: dict[str, float], expected: int | None) -> None:
    assert FinetuneSettings(**limits).step_limit(epoch_steps=100) == expected  # type: ignore[arg-type]


def test_lora_has_a_larger_default_learning_rate() -> None:
    full, lora = FinetuneSettings(), FinetuneSettings(lora=LoraSettings())
    assert lora.peak_learning_rate > full.peak_learning_rate
    assert FinetuneSettings(lora=LoraSettings(), learning_rate=0.5).peak_learning_rate == 0.5
    assert (LoraSettings(rank=3).effective_alpha, LoraSettings(rank=3, alpha=4).effective_alpha) == (6, 4)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("steps", 0, "1 or more"),
        ("epochs", 0.0, "more than 0"),
        ("hours", -1.0, "more than 0"),
        ("learning_rate", 0.0, "more than 0"),
        ("dropout", 1.0, "less than 1"),
        ("label_smoothing", -0.1, "0 or more"),
        ("patience", -1, "0 or more"),
        ("batch_tokens", 0, "1 or more"),
    ],
)
def test_finetune_settings_out_of_range_are_refused(name: str, value: float, allowed: str) -> None:
    with pytest.raises(SettingError, match=f"^{name}: got {value}; allowed is .*{allowed}"):
        FinetuneSettings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [{"rank": 0}, {"alpha": 0}, {"dropout": 1.0}, {"targets": ()}])
def test_lora_settings_out_of_range_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(SettingError, match="allowed is"):
        LoraSettings(**bad)  # type: ignore[arg-type]
