"""``lacuna finetune`` killed with SIGKILL ends with the weights of a run that was left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import Run
from killed_training import kill_at_step
from lacuna.artifacts.files import sha256_of
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian

pytestmark = pytest.mark.posix

STEPS = 40


def arguments(folder: Path, into: str) -> list[str]:
    head = ["finetune", str(folder / "toy.tsv"), "--model", str(folder / "base")]
    rest = ["--into", str(folder / into), "--steps", str(STEPS), "--evaluate-every", "8", "--batch-tokens", "256"]
    return [*head, *rest, "--no-clean", "--threads", "1", "--json"]


def figures(printed: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(printed)
    return {name: value for name, value in report.items() if name not in {"hours", "into", "tokens_per_second"}}


def test_killed_equals_uninterrupted(tmp_path: Path, run: Run) -> None:
    make_marian(tmp_path / "base")
    write_pairs(tmp_path / "toy.tsv", make_pairs(200))
    whole = figures(run(arguments(tmp_path, "whole")))
    kill_at_step(arguments(tmp_path, "broken"), 19)  # after the state of step 16
    assert not (tmp_path / "broken").exists()
    broken = figures(run(arguments(tmp_path, "broken")))
    assert whole == broken
    assert whole["steps"] == STEPS
    assert sha256_of(tmp_path / "whole" / "model.safetensors") == sha256_of(tmp_path / "broken" / "model.safetensors")
    assert not (tmp_path / "broken.training").exists()
