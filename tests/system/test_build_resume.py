"""``build_store`` killed with SIGKILL, three times, ends with the very bytes of a build that was left alone."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
import torch

from lacuna.artifacts import files
from lacuna.artifacts.files import sha256_of
from lacuna.corpora import read_corpus
from lacuna.datastore import build_store, columns, open_store, verify_store
from lacuna.models import Model, load_model
from made_up import make_pairs, write_pairs
from unit.datastore.numpy_model import NumpyModel
from unit.models.tiny_models import make_marian

pytestmark = pytest.mark.posix


def build(model: Path, corpus: Path, into: Path, wait: float = 0.0) -> None:
    """Build; the tiny model would be done in a moment, so each batch waits, which gives a kill something to hit."""
    torch.set_num_threads(1)
    decode = Model.teacher_force

    def slow(*arguments: object) -> object:
        time.sleep(wait)
        return decode(*arguments)  # type: ignore[arg-type]

    if wait:
        Model.teacher_force = slow  # type: ignore[method-assign, assignment] - in a process of its own, soon dead
    build_store(load_model(model, device="cpu"), read_corpus(corpus), into, batch_tokens=512, shard_rows=1500)


def shards_noted(folder: Path) -> int:
    state = folder / "building.json"
    return len(json.loads(state.read_text())["shards"]) if state.exists() else 0


def wait_for_shards(folder: Path, count: int, process: BaseProcess, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.is_alive():
        if shards_noted(folder) >= count:
            return
        time.sleep(0.005)
    raise AssertionError(f"no {count} shards within {seconds} s (exit code {process.exitcode})")


def hashes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): sha256_of(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def test_killed_three_times_equals_unbroken(tmp_path: Path) -> None:
    model, whole, broken = tmp_path / "model", tmp_path / "whole", tmp_path / "broken"
    make_marian(model)
    corpus = write_pairs(tmp_path / "toy.tsv", make_pairs(400))
    build(model, corpus, whole)
    rng = np.random.default_rng()
    # Forked, because a new process would be busy importing for most of its life.
    start = multiprocessing.get_context("fork").Process
    for _ in range(3):
        process = start(target=build, args=(model, corpus, broken, 0.02))
        process.start()
        wait_for_shards(broken, shards_noted(broken) + 1, process)
        time.sleep(float(rng.uniform(0, 0.15)))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
    assert 3 <= shards_noted(broken) < len(open_store(whole).manifest.shards)
    build(model, corpus, broken)
    assert hashes(broken) == hashes(whole)
    assert verify_store(broken).sound


def build_and_die(into: Path, at: int) -> None:
    """Build without torch, and end like a kill, with nothing tidied up, when a file is about to be forced to disk."""
    done = 0

    def dying_sync(path: Path) -> None:
        nonlocal done
        done += 1
        if done == at:
            os._exit(9)

    columns.sync = files.sync = dying_sync
    build_store(NumpyModel(), make_pairs(60), into, batch_tokens=64, shard_rows=200)
    os._exit(0)


def test_killed_at_every_file_that_is_written(tmp_path: Path) -> None:
    whole = build_store(NumpyModel(), make_pairs(60), tmp_path / "whole", batch_tokens=64, shard_rows=200)
    assert len(whole.manifest.shards) > 1
    start = multiprocessing.get_context("fork").Process
    at, exit_code = 0, 9
    while exit_code == 9:
        at += 1
        broken = tmp_path / f"broken-{at}"
        process = start(target=build_and_die, args=(broken, at))
        process.start()
        process.join()
        exit_code = process.exitcode or 0
        build_store(NumpyModel(), make_pairs(60), broken, batch_tokens=64, shard_rows=200)
        assert hashes(broken) == hashes(whole.path), f"killed at file {at}"
    assert exit_code == 0
    assert at > 30
