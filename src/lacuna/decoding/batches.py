"""Threads that work side by side, each on its own share of the processor.

A step of a decoder is many small products, and two cores working on one of them mostly wait for each other; two cores
with a batch each do not. And while one of them searches a memory, the other runs the model. Knows nothing of what the
work is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import torch

from lacuna.decoding.beam import BeamSettings
from lacuna.decoding.hypotheses import Hypothesis
from lacuna.decoding.scorer import Scorer, State
from lacuna.decoding.search import Room, longest_first, search
from lacuna.progress import SILENT, Progress

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


# Sentences that a worker takes at a time; what was tried for all of them is remembered until they have ended.
_LARGEST_SHARE = 1024


def plan_batches(lengths: Sequence[int], *, batch_size: int = 32, max_tokens: int | None = None) -> list[list[int]]:
    """Sort sentences by length, longest first, and cut them into batches; give the sentences' numbers.

    :param batch_size: The most sentences in a batch.
    :param max_tokens: The most source tokens in a batch, fillers included; a longer sentence goes alone.
    """
    room = Room(batch_size, max_tokens)
    batches: list[list[int]] = []
    left = 0
    for number in longest_first(lengths):
        if left == 0:
            batches.append([])
            left = room.holds(lengths[number])
        batches[-1].append(number)
        left -= 1
    return batches


def decode_all(
    scorer: Scorer[State],
    sources: Sequence[Sequence[int]],
    settings: BeamSettings,
    *,
    batch_size: int = 32,
    max_tokens: int | None = None,
    crew: Crew | None = None,
    progress: Progress = SILENT,
) -> list[list[Hypothesis]]:
    """Translate any number of sources; the answers come in the order of the sources.

    :param batch_size: The most sentences at once.
    :param max_tokens: The most source tokens at once, fillers included.
    :param crew: Who takes the sentences; without it, the calling thread alone. The bounds hold for each worker.
    """
    crew, room = crew or Crew(), Room(batch_size, max_tokens)
    results: list[list[Hypothesis]] = [[] for _ in sources]
    lock = Lock()

    def done(count: int) -> None:
        with lock:
            progress.advance(count)

    def work(numbers: Sequence[int]) -> list[list[Hypothesis]]:
        return search(scorer, [sources[n] for n in numbers], settings, room=room, done=done)

    progress.start("translate", len(sources), "sentences")
    for share, found in crew.each(work, deal([len(source) for source in sources], crew.workers)):
        for number, hypotheses in zip(share, found, strict=True):
            results[number] = hypotheses
    progress.finish()
    return results


def deal(lengths: Sequence[int], workers: int) -> list[list[int]]:
    """Share sentences out, like cards and by falling length, so that all workers have equally much to do.

    Who has which is settled beforehand: the same sentences are then always searched together, and the last digits of
    their scores do not change from run to run.

    :return: The numbers of the sentences of each share.
    """
    order = longest_first(lengths)
    most = workers * _LARGEST_SHARE
    hands = [order[start : start + most] for start in range(0, len(order), most)]
    return [hand[place::workers] for hand in hands for place in range(min(workers, len(hand)))]
