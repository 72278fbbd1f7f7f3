"""Tasks of a measurement, run by worker threads that each have one torch thread.

Two cores that split one matrix product wait for each other, and longest when another process takes one of them. With a
block of its own, each keeps its speed. Results are used in the order of the tasks, so they do not depend on timing or
on the number of workers. Does not know what the tasks compute.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from typing import TypeVar

import torch

SECONDS_BETWEEN_SAVES = 20.0

# Tasks of each worker that may wait for their turn: more would only hold memory.
_WAITING = 4

# Names of glibc, and values: all freed memory is kept, except for arrays larger than the largest value allowed.
_TRIM_THRESHOLD, _KEPT_BYTES = -1, 1 << 30
_MMAP_THRESHOLD, _LARGEST_KEPT = -3, 1 << 25

Task = TypeVar("Task")
Result = TypeVar("Result")


def keep_freed_memory() -> None:
    """Let this process use freed memory again instead of returning it to the system, where its C library can.

    The system clears each page that it hands out. For arrays of some MB, which the tasks make and drop all the time,
    that takes longer than the arithmetic.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)


def run_in_order(run: Callable[[Task], Result], tasks: Iterable[Task]) -> Generator[Result, None, None]:
    """Run tasks on as many workers as torch has threads, and yield their results in order.

    :param run: Has no side effects.
    """
    workers = torch.get_num_threads()
    if workers == 1:
        yield from map(run, tasks)
        return
    pool = ThreadPoolExecutor(workers, "lacuna-margin", initializer=torch.set_num_threads, initargs=(1,))
    try:
        waiting: deque[Future[Result]] = deque()
        remaining = iter(tasks)
        waiting.extend(pool.submit(run, task) for task in islice(remaining, workers * _WAITING))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(pool.submit(run, task) for task in islice(remaining, 1))
            yield result
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(workers)  # a worker's setting applies to every thread started after it


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
    with closing(run_in_order(run, tasks)) as results:
        for number, result in zip(tasks, results, strict=True):
            add(number, result)
            if time.monotonic() - saved >= SECONDS_BETWEEN_SAVES:
                save(number + 1)
                saved = time.monotonic()
            advance(number)
