"""One writer at a time: a lock on a memory's folder that names its owner.

The operating system releases the lock when the process ends, however it ends. Readers do not need it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lacuna.datastore.columns import writing
from lacuna.errors import LockedError

LOCK = ".lock"


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Hold the write lock of a memory.

    :raises LockedError: Another process, or another thread, holds it.
    """
    with writing(folder):
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise LockedError(
                f"{folder}: being edited by another process (pid {owner}); wait until it is done, then run the command "
                "again"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
