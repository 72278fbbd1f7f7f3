"""Tasks of a measurement, run by a worker pool, with the state saved now and then.

Results are used in the order of the tasks, so they do not depend on timing or on the number of workers. Does not know
what the tasks compute.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from lacuna.workers import WorkerPool

SECONDS_BETWEEN_SAVES = 20.0

# Names of glibc, and values: all freed memory is kept, except for arrays larger than the largest value allowed.
_TRIM_THRESHOLD, _KEPT_BYTES = -1, 1 << 30
_MMAP_THRESHOLD, _LARGEST_KEPT = -3, 1 << 25

Result = TypeVar("Result")


def keep_freed_memory() -> None:
    """Let this process use freed memory again instead of returning it to the system, where its C library can.

    The system clears each page that it hands out. For arrays of some MB, which the tasks make and drop all the time,
    that takes longer than the arithmetic.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)


def run_and_save(
    tasks: range,
    run: Callable[[int], Result],
    add: Callable[[int, Result], None],
    save: Callable[[int], None],
    advance: Callable[[int], None],
) -> None:
    """Run tasks, and save the state every :data:`SECONDS_BETWEEN_SAVES` seconds.

    :param run: Runs one task, without side effects.
    :param add: Adds the result of a task to the state; called in the order of the tasks.
    :param save: Saves the state after this many tasks.
    :param advance: Is called with the number of each finished task.
    """
    saved = time.monotonic()
    with closing(WorkerPool.of_process().map(run, tasks)) as results:
        for number, result in zip(tasks, results, strict=True):
            add(number, result)
            if time.monotonic() - saved >= SECONDS_BETWEEN_SAVES:
                save(number + 1)
                saved = time.monotonic()
            advance(number)
