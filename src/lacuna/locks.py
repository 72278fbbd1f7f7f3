"""One writer at a time: a lock on a folder that names its owner.

The operating system releases the lock when the process ends, however it ends. Readers do not need it. To use it::

    with write_lock(folder, "edited"):  # raises LockedError if another process or thread holds it
        ...

A folder that does not exist is created. Its files :data:`LOCK_FILES` must be ignored by a check for an empty folder.
Knows nothing of what else is in the folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from lacuna.errors import LockedError
from lacuna.files import writing

LOCK = ".lock"
# Not in the lock itself, which other processes cannot read on Windows.
OWNER = ".lock-owner"
LOCK_FILES = frozenset({LOCK, OWNER})


@contextmanager
def write_lock(folder: Path, work: str = "edited") -> Iterator[None]:
    """Hold the write lock of a folder.

    :param work: What the owner does with the folder: the error says ``being WORK by another process``.
    :raises LockedError: Another process, or another thread, holds it.
    :raises StoreError: The files of the lock cannot be written.
    """
    lock = FileLock(folder / LOCK, thread_local=False)
    with writing(folder):
        try:
            lock.acquire(blocking=False)
        except Timeout as error:
            raise LockedError(
                f"{folder}: being {work} by another process (pid {_owner(folder)}); wait until it is done, then run "
                "the command again"
            ) from error
    try:
        with writing(folder):
            (folder / OWNER).write_text(f"{os.getpid()}\n", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):  # without the lock, the file says nothing
            (folder / OWNER).unlink()
        lock.release()


def _owner(folder: Path) -> str:
    try:
        return (folder / OWNER).read_text(encoding="utf-8", errors="replace").strip() or "unknown"
    except OSError:  # it has the lock, but has not written its name yet
        return "unknown"
