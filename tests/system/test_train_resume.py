"""``lacuna train`` killed with SIGKILL, twice, ends with the weights of a run that was left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

from lacuna.files import sha256_of
from made_up import make_pairs, write_pairs

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


def command(folder: Path, corpus: Path, settings: Path) -> list[str]:
    head = [sys.executable, "-m", "lacuna", "train", str(corpus), "--languages", "de-en", "--into", str(folder)]
    return [*head, "--steps", str(STEPS), "--settings", str(settings), "--threads", "1", "--json"]


def wait_for_step(folder: Path, step: int, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    state = folder / "training" / "state.safetensors"
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        if state.exists() and saved_step(state) >= step:
            return
        time.sleep(0.005)
    raise AssertionError(f"no state of step {step} within {seconds} s (exit code {process.poll()})")


def saved_step(state: Path) -> int:
    with state.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return int(json.loads(header["__metadata__"]["counters"])["step"])


def test_killed_twice_equals_uninterrupted(tmp_path: Path) -> None:
    corpus = write_pairs(tmp_path / "toy.tsv", make_pairs(1500))
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(SETTINGS))
    whole = subprocess.run(command(tmp_path / "whole", corpus, settings), capture_output=True, check=True)
    rng = np.random.default_rng()
    for least in (7, 28):
        process = subprocess.Popen(command(tmp_path / "broken", corpus, settings), stderr=subprocess.DEVNULL)
        wait_for_step(tmp_path / "broken", least, process)
        time.sleep(float(rng.uniform(0, 0.2)))
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    broken = subprocess.run(command(tmp_path / "broken", corpus, settings), capture_output=True, check=True)
    reports = [json.loads(result.stdout) for result in (whole, broken)]
    for report in reports:
        report.pop("hours")
        report.pop("into")
    assert reports[0] == reports[1]
    assert reports[0]["steps"] == STEPS
    assert sha256_of(tmp_path / "whole" / "model.safetensors") == sha256_of(tmp_path / "broken" / "model.safetensors")
    assert len(load_file(tmp_path / "whole" / "model.safetensors")) > 10
