"""Worker threads that each compute tasks of their own, with one thread each.

Two cores that split one matrix product mostly wait for each other, and far more so while another process uses one of
them. Two cores with a task each do not. The bytes of a result depend on its task only: every task runs with the same
number of threads, whoever computes it and however many workers there are.

A task is a function of its item and nothing else: a batch of sentences, a block of entries.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any

from lacuna.workers.pool import AHEAD, Item, Result

# Names of glibc, and values: all freed memory is kept, except for arrays larger than the largest value allowed.
_TRIM_THRESHOLD, _KEPT_BYTES = -1, 1 << 30
_MMAP_THRESHOLD, _MAX_KEPT = -3, 1 << 25


def keep_freed_memory() -> None:
    """Let this process use freed memory again instead of returning it to the system, where its C library can.

    The system clears each page that it hands out. For arrays of some MB, which tasks make and drop all the time, that
    takes longer than the arithmetic.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _MAX_KEPT)


def use_threads(count: int) -> None:
    """Set the number of threads that torch and faiss use for calls from this thread.

    faiss has a number for each thread. torch has one for each thread as well, and threads that are started later take
    over the last number that any thread set.
    """
    faiss, torch = _libraries()
    faiss.omp_set_num_threads(count)
    torch.get_num_threads()  # a new thread takes over the number of another one at its first use, so not after ours
    torch.set_num_threads(count)


@contextmanager
def one_thread() -> Iterator[None]:
    """Make torch and faiss use one thread for calls from this thread: for work too small to be split."""
    faiss, torch = _libraries()
    before = torch.get_num_threads(), faiss.omp_get_max_threads()
    use_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        faiss.omp_set_num_threads(before[1])


def _libraries() -> tuple[Any, Any]:
    """Import late: both are slow to import, and opening a store needs neither."""
    import faiss
    import torch

    return faiss, torch


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """Number of worker threads, and how many threads each may use."""

    workers: int = 1
    threads: int = 1

    @classmethod
    def of_process(cls, device: Any = "cpu") -> WorkerPool:  # noqa: ANN401 - torch.device, or its name
        """Return one worker for each thread that this process may use; on another device than a CPU, only one.

        In a task of a worker it is one worker, so tasks may use functions that have a pool.
        """
        return cls(_libraries()[1].get_num_threads() if str(device) == "cpu" else 1)

    def map(
        self, task: Callable[[Item], Result], items: Iterable[Item], *, files: Path | None = None
    ) -> Generator[Result, None, None]:
        """Compute all items in the worker threads, and yield the results in the order of the items.

        Items are read in the calling thread, :data:`AHEAD` for each worker before their results are taken. The error of
        a task is raised in place of its result. Close the generator to stop early: it waits for the tasks in progress.

        :param files: Not used: threads share the memory of this process.
        """
        if self.workers < 2:
            for item in items:
                yield self._here(task, item)
            return
        with self._started() as threads:
            running: deque[Future[Result]] = deque()
            for item in items:
                running.append(threads.submit(task, item))
                if len(running) >= AHEAD * self.workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()

    def stream(
        self, work: Callable[[Item], Iterator[Result]], items: Sequence[Item], stop: Event
    ) -> Generator[Result, None, None]:
        """Process all items in the worker threads, and yield all results as soon as they are there.

        With one worker, or one item, this is the calling thread with all of its threads.

        :param stop: Set when the results are not wanted any more, before the threads are waited for: a Ctrl-C reaches
            the calling thread here, while it waits for results. ``work`` should then end soon.
        """
        if min(self.workers, len(items)) < 2:
            for item in items:
                yield from work(item)
            return
        ready: SimpleQueue[tuple[Result] | Future[None]] = SimpleQueue()

        def run(item: Item) -> None:
            for result in work(item):
                ready.put((result,))

        with self._started() as threads:
            try:
                for item in items:
                    threads.submit(run, item).add_done_callback(ready.put)
                yield from _results(ready, len(items))
            finally:
                stop.set()

    def _here(self, task: Callable[[Item], Result], item: Item) -> Result:
        """Compute an item in the calling thread, with the number of threads of a worker."""
        if self.threads > 1:
            return task(item)
        with one_thread():
            return task(item)

    @contextmanager
    def _started(self) -> Iterator[ThreadPoolExecutor]:
        _, torch = _libraries()
        before = torch.get_num_threads()
        threads = ThreadPoolExecutor(self.workers, "lacuna-worker", initializer=use_threads, initargs=(self.threads,))
        try:
            yield threads
        finally:
            threads.shutdown(cancel_futures=True)
            torch.set_num_threads(before)  # a worker's setting applies to every thread started after it


def _results(ready: SimpleQueue[tuple[Result] | Future[None]], running: int) -> Iterator[Result]:
    """Yield results until all futures are done; raise the first error of a worker."""
    while running:
        event = ready.get()
        if isinstance(event, Future):
            event.result()
            running -= 1
        else:
            yield event[0]
