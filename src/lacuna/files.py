"""Write files and folders atomically: temporary name, fsync, rename.

Knows nothing of the content of the files.
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
    """Yield a temporary path next to ``path``; on success it replaces ``path``, on failure it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp and safetensors create private files; the published file should follow the user's umask.
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
    """Yield a new folder next to ``folder``; on success it is renamed to ``folder``, on failure it is removed.

    :param folder: Absent or empty; see :func:`check_unused`.
    """
    folder = folder.resolve()  # "." has no name
    temporary = folder.with_name(f".{folder.name}.new.tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # from a run that was killed
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
    """Raise an error of the caller's type if a folder is not empty; call this before slow work."""
    try:
        used = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as reason:
        raise error(f"{folder}: not a folder that can be read ({reason.strerror}); name another") from reason
    if used:
        raise error(f"{folder}: already there and not empty; name a new folder")


def check_creatable(folder: Path, error: type[LacunaError]) -> None:
    """Raise an error of the caller's type if a folder cannot be created; call this before slow work."""
    place = next(parent for parent in folder.parents if parent.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        reason = "no permission" if place.is_dir() else "it is not a folder"
        raise error(f"{folder}: cannot be written below {place} ({reason}); name another folder")


def sync(path: Path) -> None:
    """Flush the content of a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401 - JSON is any
    """Write JSON atomically, indented and with sorted keys, so that equal content gives equal bytes."""
    write_text(path, json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 hash of a file, reading it block by block."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
