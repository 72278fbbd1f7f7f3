"""One writer at a time: a lock on a folder that names its owner.

The operating system releases the lock when the process ends, however it ends. Readers do not need it. To use it::

    with write_lock(folder, "edited"):  # raises LockedError if another process or thread holds it
        ...

A folder that does not exist is created. Its files :data:`LOCK_FILES` must be ignored by a check for an empty folder. A
function that fills a folder of its own, which must not get other files, has a lock elsewhere::

    @alone("into")
    def build_store(model, pairs, into): ...
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from filelock import FileLock, Timeout

from lacuna.artifacts.files import writing
from lacuna.artifacts.user_cache import user_cache
from lacuna.errors import LockedError, StoreError

P = ParamSpec("P")
R = TypeVar("R")

LOCK = ".lock"
# Not in the lock itself, which other processes cannot read on Windows.
OWNER = ".lock-owner"
LOCK_FILES = frozenset({LOCK, OWNER})
_WAIT = "wait until it is done, then run the command again"


@contextmanager
def write_lock(folder: Path, work: str = "edited") -> Iterator[None]:
    """Hold the write lock of a folder.

    :param work: What the owner does with the folder: the error says ``being WORK by another process``.
    :raises LockedError: Another process, or another thread, holds it.
    :raises StoreError: The files of the lock cannot be written.
    """
    with _held(folder, f"{folder}: being {work} by another process (pid {{pid}}); {_WAIT}"):
        yield


def alone(parameter: str, part: str = "") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function hold the lock of the folder that it fills, so that two processes do not fill the same one.

    :param parameter: Name of the parameter with the folder, or with an object that has it as ``path``.
    :param part: Folder in that folder.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            given = signature.bind(*args, **kwargs).arguments[parameter]
            with work_lock(Path(getattr(given, "path", given)) / part):
                return function(*args, **kwargs)

        return run

    return decorate


@contextmanager
def work_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder for work that fills it. Nothing of the lock is in the folder, which may not exist.

    The lock is in the user's cache folder, and gone afterwards; without a cache folder there is none.

    :raises LockedError: Another process, or another thread, is at work there.
    """
    with ExitStack() as held:
        try:
            name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
            place = user_cache() / "locks" / name
            place.mkdir(parents=True, exist_ok=True)
            held.enter_context(_held(place, f"{folder}: another process is at work there (pid {{pid}}); {_WAIT}"))
        except LockedError:
            raise
        except (OSError, RuntimeError, StoreError):  # a home folder that is missing or cannot be written
            place = None
        try:
            yield
        finally:
            if place is not None:
                shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _held(place: Path, refusal: str) -> Iterator[None]:
    """Hold a lock in a folder.

    :param refusal: The error, with ``{pid}``.
    """
    lock = FileLock(place / LOCK, thread_local=False)
    with writing(place):
        try:
            lock.acquire(blocking=False)
        except Timeout as error:
            raise LockedError(refusal.replace("{pid}", _owner(place))) from error
    try:
        with writing(place):
            (place / OWNER).write_text(f"{os.getpid()}\n", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):  # without the lock, the file says nothing
            (place / OWNER).unlink()
        lock.release()


def _owner(place: Path) -> str:
    try:
        return (place / OWNER).read_text(encoding="utf-8", errors="replace").strip() or "unknown"
    except OSError:  # it has the lock, but has not written its name yet
        return "unknown"
