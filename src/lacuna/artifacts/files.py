"""Write files and folders atomically: temporary name, fsync, rename."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lacuna.errors import LacunaError, LacunaWarning, StoreError

_WINDOWS = os.name == "nt"


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path``; on success it replaces ``path``, on failure it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    # The system applies the user's umask, which a process with threads cannot ask for: it would have to change it.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        mode = temporary.stat().st_mode
        yield temporary
        if temporary.stat().st_mode != mode:  # safetensors puts a private file in its place
            temporary.chmod(mode)
        sync(temporary)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_entry(path)


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
        sync_entry(folder)
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


@contextmanager
def writing(folder: Path, error_type: type[LacunaError] = StoreError) -> Iterator[None]:
    """Turn a failure to write into an error that names the folder."""
    try:
        yield
    except OSError as error:
        raise error_type(
            f"{folder}: cannot be written ({_reason(error)}); free space or fix the permissions, then run the same "
            "command"
        ) from error


@contextmanager
def reading(path: Path, again: str = "copy or build the store again") -> Iterator[None]:
    """Turn a failure to read a file of a store into an error that names it.

    :param again: The remedy.
    """
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({_reason(error)}); {again}") from error


def _reason(error: OSError) -> str:
    return error.strerror or os.strerror(error.errno) if error.errno else str(error)


def sync_entry(path: Path) -> None:
    """Flush the name of a file or folder, which it has just got, to disk.

    A failure is a warning: the file is there, and an error would say that it is not.
    """
    try:
        sync(path.parent)
    except OSError as error:
        text = f"{path}: is written, but may be gone if the system crashes now ({error.strerror}); check the disk"
        warnings.warn(text, LacunaWarning, stacklevel=2)


def sync(path: Path) -> None:
    """Flush the content of a file, or the entries of a folder, to disk."""
    if _WINDOWS and path.is_dir():  # cannot be opened there
        return
    descriptor = os.open(path, os.O_RDWR if _WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401 - JSON is any
    """Write JSON atomically, indented and with sorted keys, so that equal content gives equal bytes."""
    write_text(path, json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 hash of a file, reading it block by block."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
