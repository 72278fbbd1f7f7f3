"""Sharing many sources out, and translating them all.

Knows nothing of what a token stands for, nor of how translations are searched for.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from lacuna.decoding.beam import BeamSettings
from lacuna.decoding.crew import Crew
from lacuna.decoding.hypotheses import Hypothesis
from lacuna.decoding.scorer import Scorer, State
from lacuna.decoding.searching import Room, longest_first, search
from lacuna.progress import SILENT, Progress

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
