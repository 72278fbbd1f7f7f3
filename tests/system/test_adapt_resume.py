"""``lacuna adapt`` killed with SIGKILL at several points ends with the files of a run that was left alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
import torch

from lacuna.artifacts.files import sha256_of
from lacuna.domain import adapt, open_domain
from lacuna.progress import Silent
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian

pytestmark = pytest.mark.posix

# Results of steps whose appearance triggers a kill: after the store, in the middle, and shortly before the end.
KILLED_AFTER = ("plan-", "index-", "fit-", "translate-")


class Slow(Silent):
    """Progress that slows the work down, which gives a kill something to hit."""

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        time.sleep(0.02)


def run(folder: Path) -> None:
    torch.set_num_threads(1)
    os.chdir(folder)
    adapt("corpus.tsv", "killed/it", dev="dev.tsv", test="test.tsv", model="model", device="cpu", progress=Slow())


def is_done(folder: Path, step: str) -> bool:
    return any(folder.glob(f"killed/it/unfinished/{step}*/done.json"))


def hashes(folder: Path) -> dict[str, str]:
    changing = {"report.html", "domain.json"}  # they have times
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in changing)
    return {str(path.relative_to(folder)): sha256_of(path) for path in files}


def test_killed_several_times_equals_unbroken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_marian(tmp_path / "model")
    for name, count, seed in (("corpus", 60, 0), ("dev", 60, 1), ("test", 8, 2)):
        write_pairs(tmp_path / f"{name}.tsv", make_pairs(count, seed=seed))
    kills = 0
    for step in KILLED_AFTER:
        process = multiprocessing.get_context("spawn").Process(target=run, args=(tmp_path,))
        process.start()
        until = time.monotonic() + 120
        while process.is_alive() and not is_done(tmp_path, step) and time.monotonic() < until:
            time.sleep(0.002)
        if process.is_alive():
            os.kill(process.pid or 0, signal.SIGKILL)
            kills += 1
        process.join()
    assert kills >= 2
    process = multiprocessing.get_context("spawn").Process(target=run, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 0
    monkeypatch.chdir(tmp_path)
    whole = adapt("corpus.tsv", "whole/it", dev="dev.tsv", test="test.tsv", model="model", device="cpu")
    assert hashes(tmp_path / "killed/it") == hashes(whole.path)
    killed = open_domain("killed/it", device="cpu")
    assert killed.manifest.model_dump(exclude={"seconds"}) == whole.manifest.model_dump(exclude={"seconds"})
