"""``lacuna train`` killed with SIGKILL, twice, ends with the weights of a run that was left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from commands import Run
from killed_training import kill_at_step
from lacuna.artifacts.files import sha256_of
from made_up import make_pairs, write_pairs

pytestmark = pytest.mark.posix

STEPS = 60
SETTINGS = {
    "shape": {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "dimension": 64,
        "feed_forward": 256,
        "heads": 2,
        "vocabulary": 370,
    },
    "batch_tokens": 512,
    "dropout": 0.1,  # so that the random generator's state matters
    "evaluate_every": 20,
    "save_every": 7,
    "warmup_steps": 5,
    "average": 2,
    "dev_pairs": 50,
}


def arguments(folder: Path, corpus: Path, settings: Path) -> list[str]:
    head = ["train", str(corpus), "--languages", "de-en", "--into", str(folder)]
    return [*head, "--steps", str(STEPS), "--settings", str(settings), "--threads", "1", "--json"]


def figures(printed: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(printed)
    return {name: value for name, value in report.items() if name not in {"hours", "into"}}


def test_killed_twice_equals_uninterrupted(tmp_path: Path, run: Run) -> None:
    corpus = write_pairs(tmp_path / "toy.tsv", make_pairs(1500))
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(SETTINGS))
    whole = figures(run(arguments(tmp_path / "whole", corpus, settings)))
    for step in (9, 41):  # after the state of step 7, and after the evaluation of step 40
        kill_at_step(arguments(tmp_path / "broken", corpus, settings), step)
    broken = figures(run(arguments(tmp_path / "broken", corpus, settings)))
    assert whole == broken
    assert whole["steps"] == STEPS
    assert sha256_of(tmp_path / "whole" / "model.safetensors") == sha256_of(tmp_path / "broken" / "model.safetensors")
    assert len(load_file(tmp_path / "whole" / "model.safetensors")) > 10
