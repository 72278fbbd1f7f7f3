"""Files that are either whole or absent: write under a temporary name, fsync, rename.

Knows nothing of what the files hold.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lacuna.errors import LacunaError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it replaces ``path``, on failure it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files private, and so does safetensors; what we publish should follow the user's umask.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder beside ``folder``; on success it takes that name, on failure it is removed.

    :param folder: Absent or empty; see :func:`check_unused`.
    """
    folder = folder.resolve()  # "." has no name of its own
    temporary = folder.with_name(f".{folder.name}.new.tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # of a run that was killed
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if folder.exists():
            folder.rmdir()
        temporary.replace(folder)
        sync(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_unused(folder: Path, error: type[LacunaError]) -> None:
    """Refuse a folder that is in use, with an error of the caller's kind; callers ask this before slow work."""
    try:
        used = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as reason:
        raise error(f"{folder}: not a folder that can be read ({reason.strerror}); name another") from reason
    if used:
        raise error(f"{folder}: already there and not empty; name a new folder")


def sync(path: Path) -> None:
    """Force a file's content, or a folder's entries, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file atomically, UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401 - JSON is any
    """Write JSON atomically, indented and with sorted keys so that equal content is equal bytes."""
    write_text(path, json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def sha256_of(path: Path) -> str:
    """Hash a file's content without reading it into memory at once."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
