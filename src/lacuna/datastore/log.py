"""The log of a memory, ``log.jsonl``: one line per commit with counts, a time and a checksum, and no text.

A line is written before its commit. A line whose commit did not happen is ignored, and overwritten by the next edit.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from lacuna.artifacts.files import write_bytes
from lacuna.artifacts.manifests import Record, sealed, unsealed
from lacuna.datastore.segments import LOG, MemoryManifest, is_edited, read_memory_manifest
from lacuna.errors import LacunaWarning, StoreError

_MAX_LINE = 1024

Action = Literal["add", "forget", "replace", "compact"]


class LogEntry(Record):
    """What one commit did.

    :param commit: Its number, from 1.
    :param time: UTC, in ISO 8601.
    :param added: Number of sentences added.
    :param forgotten: Number of sentences forgotten.
    :param entries: Number of entries after the commit.
    :param segments: Number of segments after the commit.
    """

    commit: int
    time: str
    action: Action
    added: int
    forgotten: int
    entries: int
    segments: int

    def as_json(self) -> dict[str, Any]:
        """Return the entry as JSON."""
        return self.model_dump(mode="json")


def utc_now() -> str:
    """Return the time for a log entry."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_log(memory: str | Path) -> list[LogEntry]:
    """Return the commits of a memory, oldest first; none if it was never edited.

    Lines that are missing or damaged are left out, with a warning.
    """
    folder = Path(memory)
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such memory; name the folder of a memory")
    if not is_edited(folder):
        return []
    manifest = read_memory_manifest(folder)
    for problem in check_log(folder, manifest):
        warnings.warn(f"{problem}; copy the memory again", LacunaWarning, stacklevel=2)
    entries = [_parse(line) for line in _lines(folder / LOG)]
    return [entry for entry in entries if entry is not None and entry.commit <= manifest.commit]


def check_log(folder: Path, manifest: MemoryManifest) -> Iterator[str]:
    """Yield what is wrong with the log of a memory: it must have one line for each commit, and agree with the last.

    :param manifest: The last commit.
    """
    path, entry = folder / LOG, None
    try:
        lines = _lines(path)
    except StoreError as error:
        yield str(error)
        return
    for commit in range(1, manifest.commit + 1):
        entry = _parse(lines[commit - 1]) if commit <= len(lines) else None
        if entry is None or entry.commit != commit:
            yield f"{path}:{commit}: the line of commit {commit} is missing or damaged"
            return
    if entry is not None and (entry.entries, entry.segments) != (manifest.live_entries, len(manifest.segments)):
        yield f"{path}:{manifest.commit}: does not agree with the memory"


def append_log(folder: Path, entry: LogEntry) -> None:
    """Write the line of a commit that is about to happen."""
    path = folder / LOG
    line = (json.dumps(sealed(entry.as_json())) + "\n").encode()
    if _last_commit(path) == entry.commit - 1:
        with path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        return
    # At the end there is a line of a commit that did not happen, or one that was cut by a crash. Lines before the last
    # commit stay, damaged ones too: verify names them.
    lines = _lines(path)
    parsed = [_parse(each) for each in lines]
    kept = max(
        (number for number, each in enumerate(parsed, start=1) if each and each.commit < entry.commit), default=0
    )
    write_bytes(path, b"".join(each + b"\n" for each in lines[:kept]) + line)


def _last_commit(path: Path) -> int | None:
    """Return the commit of the last line, without reading the others; 0 without a log, ``None`` if it is not whole."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_LINE))
            tail = file.read()
    except FileNotFoundError:
        return 0
    if not tail.endswith(b"\n"):
        return None
    entry = _parse(tail.splitlines()[-1])
    return None if entry is None else entry.commit


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror}); check the permissions") from error


def _parse(line: bytes) -> LogEntry | None:
    """Read a line; ``None`` if it is damaged. Lines of earlier versions have no checksum."""
    try:
        content = json.loads(line)
        bare = unsealed(content) if isinstance(content, dict) else None
        return None if bare is None else LogEntry.model_validate(bare)
    except (ValueError, RecursionError):
        return None
