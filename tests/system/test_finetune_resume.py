"""``lacuna finetune`` killed with SIGKILL ends with the weights of a run that was left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from lacuna.files import sha256_of
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian

STEPS = 40
PATIENT_SECONDS = 300


def command(folder: Path, into: str) -> list[str]:
    head = [sys.executable, "-m", "lacuna", "finetune", str(folder / "toy.tsv"), "--model", str(folder / "base")]
    rest = ["--into", str(folder / into), "--steps", str(STEPS), "--evaluate-every", "8", "--batch-tokens", "256"]
    return [*head, *rest, "--no-clean", "--threads", "1", "--json"]


def wait_for_step(state: Path, step: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENT_SECONDS
    while time.monotonic() < until and process.poll() is None:
        if state.exists() and saved_step(state) >= step:
            return
        time.sleep(0.002)
    raise AssertionError(f"no state of step {step} (exit code {process.poll()})")


def saved_step(state: Path) -> int:
    with state.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return int(json.loads(header["__metadata__"]["counters"])["step"])


def test_killed_equals_uninterrupted(tmp_path: Path) -> None:
    make_marian(tmp_path / "base")
    write_pairs(tmp_path / "toy.tsv", make_pairs(200))
    whole = subprocess.run(command(tmp_path, "whole"), capture_output=True, check=True)
    process = subprocess.Popen(command(tmp_path, "broken"), stderr=subprocess.DEVNULL)
    wait_for_step(tmp_path / "broken.training" / "state.safetensors", 16, process)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "broken").exists()
    broken = subprocess.run(command(tmp_path, "broken"), capture_output=True, check=True)
    reports = [json.loads(result.stdout) for result in (whole, broken)]
    for report in reports:
        for name in ("hours", "into", "tokens_per_second"):
            report.pop(name)
    assert reports[0] == reports[1]
    assert reports[0]["steps"] == STEPS
    assert sha256_of(tmp_path / "whole" / "model.safetensors") == sha256_of(tmp_path / "broken" / "model.safetensors")
    assert not (tmp_path / "broken.training").exists()
