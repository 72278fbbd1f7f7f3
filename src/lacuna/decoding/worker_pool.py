"""Decoding by a worker pool: threads that each search sentences of their own.

A decoder step is many small matrix products, which are not worth splitting; and one worker can run the model while
another searches a memory. Knows nothing of text and models.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import accumulate, count, takewhile
from threading import Event, Lock

import torch

from lacuna.decoding.backpointers import Hypothesis
from lacuna.decoding.beam import BeamSettings
from lacuna.decoding.constraints import Constraints
from lacuna.decoding.scorer import Scorer, State
from lacuna.decoding.search import BatchCapacity, longest_first, search_blocks
from lacuna.progress import SILENT, Progress
from lacuna.workers import WorkerPool

# Maximum number of sentences that a worker takes at a time. Backpointers of all of them are kept until the last ends.
_MAX_PART = 1024


def pool_for(sentences: int, batch_size: int, min_sentences: int = 8) -> WorkerPool:
    """Divide the threads of this process among as many workers as can be kept busy.

    :param batch_size: Maximum number of sentences in a worker's batch.
    :param min_sentences: A worker gets at least this many sentences, or a full batch if that is smaller: with fewer, a
        batch on several threads is faster than several batches on one thread each.
    """
    threads = torch.get_num_threads()
    workers = max(1, min(threads, sentences // min(batch_size, min_sentences)))
    return WorkerPool(workers, threads // workers)


class _Stopped(Exception):  # noqa: N818 - no error: ends a search that no one waits for
    """The consumer of the results is gone."""


def decode_all(
    scorer: Scorer[State],
    sources: Sequence[Sequence[int]],
    settings: BeamSettings,
    *,
    batch_size: int = 32,
    max_tokens: int | None = None,
    constraints: Constraints | None = None,
    pool: WorkerPool | None = None,
    progress: Progress = SILENT,
) -> list[list[Hypothesis]]:
    """Translate any number of sources, and return hypotheses in the order of the sources.

    :param batch_size: Maximum number of sentences in a batch of a worker.
    :param max_tokens: Maximum number of source tokens in a batch of a worker, padding included.
    :param constraints: What the translations must contain or not.
    :param pool: By default only the calling thread searches.
    """
    capacity = BatchCapacity(batch_size, max_tokens)
    progress.start("translate", len(sources), "sentences")
    groups = decode_blocks(
        scorer,
        sources,
        settings,
        [len(sources)],
        capacity,
        constraints=constraints,
        pool=pool,
        on_finished=progress.advance,
    )
    results = [hypotheses for group in groups for hypotheses in group]
    progress.finish()
    return results


def decode_blocks(
    scorer: Scorer[State],
    sources: Sequence[Sequence[int]],
    settings: BeamSettings,
    blocks: Sequence[int],
    capacity: BatchCapacity,
    *,
    constraints: Constraints | None = None,
    pool: WorkerPool | None = None,
    on_finished: Callable[[int], None] = lambda count: None,
) -> Generator[list[list[Hypothesis]], None, None]:
    """Translate sources and yield hypotheses in the order of the sources, in groups, as soon as they are ready.

    :param blocks: Number of sources in each block. Search starts block by block and longest first within a block, so
        smaller blocks give results earlier.
    :param constraints: What the translations must contain or not.
    :param on_finished: Called with the number of sentences that ended in a step, never by two threads at once.
    """
    if constraints is not None:
        constraints.check(len(sources))
    pool = pool or WorkerPool()
    lock, stopped = Lock(), Event()

    def report(ended: int) -> None:
        if stopped.is_set():
            raise _Stopped
        with lock:
            on_finished(ended)

    def work(part: list[list[int]]) -> Iterator[list[tuple[int, list[Hypothesis]]]]:
        numbers = [number for block in part for number in block]
        texts = [[sources[number] for number in block] for block in part]
        chosen = None if constraints is None else constraints.select(numbers)
        groups = search_blocks(scorer, texts, settings, capacity=capacity, constraints=chosen, on_finished=report)
        return ([(numbers[index], hypotheses) for index, hypotheses in group] for group in groups)

    parts = partition([len(source) for source in sources], blocks, pool.workers)
    waiting: dict[int, list[Hypothesis]] = {}
    following = 0
    with closing(pool.stream(work, parts, stopped)) as results:
        for group in results:
            waiting.update(group)
            ready = list(takewhile(waiting.__contains__, count(following)))
            if ready:
                yield [waiting.pop(number) for number in ready]
                following += len(ready)


def partition(lengths: Sequence[int], blocks: Sequence[int], workers: int) -> list[list[list[int]]]:
    """Divide the sentences of each block among workers, so that all have the same amount of work.

    Sentences are assigned round-robin by decreasing length. The assignment does not depend on timing: the same
    sentences always share batches, and the last digits of their scores do not change from run to run.

    :return: For each part that a worker takes, the sentence numbers of each block.
    """
    limit = workers * _MAX_PART
    groups: list[list[list[int]]] = [[]]  # blocks that are searched together, at most `limit` sentences
    ends = list(accumulate(blocks))
    for start, end in zip([0, *ends], ends, strict=False):
        order = [start + index for index in longest_first(lengths[start:end])]
        for block in (order[first : first + limit] for first in range(0, len(order), limit)):
            if sum(map(len, groups[-1])) + len(block) > limit:
                groups.append([])
            groups[-1].append(block)
    parts = ([block[worker::workers] for block in group] for group in groups for worker in range(workers))
    return [filled for part in parts if (filled := [block for block in part if block])]
