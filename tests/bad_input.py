"""Running ``lacuna`` on bad input, and demanding what every refusal owes: one line, exit code 2, nothing changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from lacuna.cli.main import main

# What verbs say of their progress where there is no terminal.
PROGRESS = re.compile(r"[^:]+: .*(started|done in .*)")


class Refusal(NamedTuple):
    """What a refused command said: the one line on stderr, and what was on stdout before."""

    line: str
    out: str


def snapshot(folder: Path) -> dict[Path, tuple[int, int, bytes]]:
    """Return mode, time of change and content of everything below a folder, and of the folder itself."""
    states = {path: path.stat() for path in (folder, *folder.rglob("*"))}
    return {
        path: (state.st_mode, state.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path, state in states.items()
    }


def run_refused(
    arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Refusal:
    """Run a command in a folder, where it must fail as bad input should."""
    before = snapshot(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")  # `train` would start itself again
    monkeypatch.setattr("sys.argv", ["lacuna", *arguments])
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capfd.readouterr()
    *progress, line = err.splitlines() or [""]
    assert ended.value.code == 2, (out, err)
    assert line.startswith("lacuna: "), err
    assert all(PROGRESS.fullmatch(one) for one in progress), err
    assert snapshot(folder) == before
    return Refusal(line, out)
