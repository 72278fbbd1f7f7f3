"""The log of a glossary, ``terms.tsv.log`` next to ``terms.tsv``: one line of JSON per commit, with a checksum.

A line has the terms before and after the commit, and is written before it. The last line is ignored, and overwritten by
the next edit, if its commit did not happen. Edits by hand are not in the log.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from lacuna.artifacts.files import sync_entry, write_bytes
from lacuna.artifacts.manifests import sealed, unsealed
from lacuna.errors import GlossaryError
from lacuna.glossaries.glossary import Term

EditAction = Literal["add", "remove", "undo"]


@dataclass(frozen=True, slots=True)
class TermChange:
    """What a commit did to a term.

    :param position: Its place in the glossary, from 0.
    :param before: ``None`` for a new term.
    :param after: ``None`` for a term that was removed.
    """

    position: int
    before: Term | None
    after: Term | None


@dataclass(frozen=True, slots=True)
class GlossaryCommit:
    """One edit of a glossary.

    :param commit: Its number, from 1.
    :param time: UTC, in ISO 8601.
    :param changes: In the order in which they were made.
    :param before: SHA-256 of the file before the commit; empty without a file.
    :param after: SHA-256 of the file after it.
    """

    commit: int
    time: str
    action: EditAction
    changes: tuple[TermChange, ...]
    before: str
    after: str

    def as_json(self) -> dict[str, Any]:
        """Return the commit as JSON."""
        return asdict(self)


def log_of(path: Path) -> Path:
    """Return the log of a glossary."""
    return path.with_name(f"{path.name}.log")


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a glossary; empty if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise GlossaryError(f"{path}: cannot be read ({error.strerror}); check the permissions") from error


def read_log(path: Path) -> list[GlossaryCommit]:
    """Return the commits of a glossary, oldest first.

    :param path: The glossary.
    :raises GlossaryError: The log is damaged.
    """
    commits: list[GlossaryCommit] = []
    lines = _lines(_read(log_of(path)))
    for number, line in enumerate(lines, start=1):
        commit = _parse(line)
        if commit is not None and commit.commit == number:
            commits.append(commit)
        elif number < len(lines) or commit is not None:  # the last line may have been cut off by a crash
            raise GlossaryError(f"{log_of(path)}:{number}: damaged; restore it, or move it away to start a new log")
    now = hash_of(path)
    if commits and commits[-1].before == now != commits[-1].after:
        commits.pop()
    return commits


def append_log(path: Path, commit: GlossaryCommit) -> None:
    """Write the line of a commit that is about to happen.

    :param path: The glossary.
    """
    log = log_of(path)
    line = json.dumps(sealed(commit.as_json()), ensure_ascii=False).encode() + b"\n"
    content, whole = _read(log), commit.commit - 1
    if content.count(b"\n") == whole and content[-1:] in (b"", b"\n"):
        with log.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if not content:
            sync_entry(log)
        return
    # At the end there is a line of a commit that did not happen, or one that was cut off by a crash.
    write_bytes(log, b"".join(each + b"\n" for each in _lines(content)[:whole]) + line)


def _read(log: Path) -> bytes:
    try:
        return log.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise GlossaryError(f"{log}: cannot be read ({error.strerror}); check the permissions") from error


def _lines(content: bytes) -> list[bytes]:
    return content.removesuffix(b"\n").split(b"\n") if content else []


def _parse(line: bytes) -> GlossaryCommit | None:
    """Read a line; ``None`` if it is damaged."""
    try:
        content = unsealed(json.loads(line))
        if content is None:
            return None
        changes = tuple(
            TermChange(change["position"], _term(change["before"]), _term(change["after"]))
            for change in content.pop("changes")
        )
        return GlossaryCommit(changes=changes, **content)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _term(fields: dict[str, Any] | None) -> Term | None:
    if fields is None:
        return None
    return Term(**fields | {name: tuple(fields[name]) for name in ("targets", "forbidden")})
