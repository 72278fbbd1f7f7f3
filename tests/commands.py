"""What the fixtures return that run ``lacuna`` in this process: ``attempt``, ``run`` and ``refuse``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

# What verbs say of their progress where there is no terminal.
PROGRESS = re.compile(r"[^:]+: .*(started|done in .*)")


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


class Refusal(NamedTuple):
    """What a refused command said: the one line on stderr, and what was on stdout before."""

    line: str
    out: str


class Attempt(Protocol):
    """Runs a command, given as words or as in a shell."""

    def __call__(self, command: str | Sequence[str], folder: Path | None = None) -> Ended: ...


class Run(Protocol):
    """Runs a command that must succeed; returns what it printed on stdout."""

    def __call__(self, command: str | Sequence[str], folder: Path | None = None) -> str: ...


class Refuse(Protocol):
    """Runs a command in a folder, where it must fail as bad input should: one line, exit code 2, nothing changed."""

    def __call__(self, command: str | Sequence[str], folder: Path) -> Refusal: ...


def path_of(verb: Callable[..., None]) -> str:
    """Return where a verb is, as :func:`lacuna.cli.commands.add_verb` takes it."""
    return f"{verb.__module__}:{verb.__name__}"


def snapshot(folder: Path) -> dict[Path, tuple[int, int, bytes]]:
    """Return mode, time of change and content of everything below a folder, and of the folder itself."""
    states = {path: path.stat() for path in (folder, *folder.rglob("*"))}
    return {
        path: (state.st_mode, state.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path, state in states.items()
    }
