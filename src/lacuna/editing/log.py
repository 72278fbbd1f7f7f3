"""The log of a memory, ``log.jsonl``: one line per commit with counts and a time, and no text.

A line is written before its commit. A line whose commit did not happen is ignored, and overwritten by the next edit.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from lacuna.datastore.segments import is_edited, read_memory_manifest
from lacuna.errors import StoreError
from lacuna.files import write_text

LOG = "log.jsonl"
_LONGEST_LINE = 1024

Action = Literal["add", "forget", "replace", "compact"]


@dataclass(frozen=True, slots=True)
class LogEntry:
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
        return asdict(self)


def utc_now() -> str:
    """Return the time for a log entry."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_log(memory: str | Path) -> list[LogEntry]:
    """Return the commits of a memory, oldest first; none if it was never edited."""
    folder = Path(memory)
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such memory; name the folder of a memory")
    if not is_edited(folder):
        return []
    return _read(folder, read_memory_manifest(folder).commit)


def append_log(folder: Path, entry: LogEntry) -> None:
    """Write the line of a commit that is about to happen."""
    path = folder / LOG
    line = json.dumps(entry.as_json()) + "\n"
    if _last_commit(path) == entry.commit - 1:
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    else:  # a line of a commit that did not happen, or a line that was cut by a crash
        before = _read(folder, entry.commit - 1)
        write_text(path, "".join(json.dumps(each.as_json()) + "\n" for each in before) + line)


def _last_commit(path: Path) -> int | None:
    """Return the commit of the last line, without reading the others; ``None`` without a complete line."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINE))
            tail = file.read()
        return int(json.loads(tail.splitlines()[-1])["commit"]) if tail.endswith(b"\n") else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _read(folder: Path, last: int) -> list[LogEntry]:
    try:
        lines = (folder / LOG).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    entries = []
    for line in lines:
        try:
            entry = LogEntry(**json.loads(line))
        except (ValueError, TypeError):  # cut by a crash
            break
        if entry.commit <= last:
            entries.append(entry)
    return entries
