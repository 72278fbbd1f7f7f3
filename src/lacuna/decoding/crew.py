"""Threads that work side by side, each on its own share of the processor.

A step of a decoder is many small products, and two cores working on one of them mostly wait for each other; two cores
with a batch each do not. And while one of them searches a memory, the other runs the model. Knows nothing of what the
work is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

# With fewer sentences in a batch a core has too little to do at a step.
_LEAST_SENTENCES = 8


@dataclass(frozen=True, slots=True)
class Crew:
    """So many workers, each with so many threads of its own.

    :param prepare: Called in each worker's thread with the number of threads it is to use, for libraries that keep
        such a number for each thread; that of torch is set without it.
    """

    workers: int = 1
    threads: int = 1
    prepare: Callable[[int], None] = lambda threads: None

    def each(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[Item, Result]]:
        """Do all the work, and give each item with its result, as they are done."""
        if min(self.workers, len(items)) < 2:
            yield from ((item, work(item)) for item in items)
            return
        before = torch.get_num_threads()
        pool = ThreadPoolExecutor(self.workers, "lacuna-worker", initializer=self._begin)
        try:
            awaited = {pool.submit(work, item): item for item in items}
            yield from ((awaited[done], done.result()) for done in as_completed(awaited))
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(before)  # what a worker set holds for every thread that comes after it

    def _begin(self) -> None:
        torch.set_num_threads(self.threads)
        self.prepare(self.threads)


def muster(sentences: int, batch_size: int, prepare: Callable[[int], None] = lambda threads: None) -> Crew:
    """Make as many workers of this process's threads as have enough to do.

    :param batch_size: The most sentences that a worker takes at once.
    """
    threads = torch.get_num_threads()
    workers = max(1, min(threads, batch_size // _LEAST_SENTENCES, sentences // _LEAST_SENTENCES))
    return Crew(workers, threads // workers, prepare)
