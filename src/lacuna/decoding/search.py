"""Beam search over many sentences with continuous batching.

Waiting sentences join the running batch when half of its places are free, so that steps keep many rows: most of the
cost of a step does not depend on the number of rows. Knows nothing of text, models and neighbors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Generic

import torch

from lacuna.decoding.backpointers import Hypothesis
from lacuna.decoding.beam import BeamSettings, LiveHypotheses
from lacuna.decoding.constrained_beam import rules_for
from lacuna.decoding.constraints import Constraints
from lacuna.decoding.scorer import Scorer, State
from lacuna.errors import SettingError
from lacuna.likely_tokens import NextTokens

# Following backpointers costs about a millisecond, for one sentence as for many.
_READ_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class BatchCapacity:
    """Maximum size of a batch.

    :param sentences: Maximum number of sentences.
    :param tokens: Maximum number of source tokens, padding included; a longer sentence is searched alone.
    """

    sentences: int = 32
    tokens: int | None = None

    def __post_init__(self) -> None:
        if self.sentences < 1 or (self.tokens is not None and self.tokens < 1):
            raise SettingError(f"batch_size and max_tokens must be 1 or more, got {self.sentences} and {self.tokens}")

    def total(self, longest: int) -> int:
        """Return how many sentences fit, at least one.

        :param longest: Tokens of the longest source.
        """
        fitting = self.sentences if self.tokens is None else min(self.sentences, self.tokens // max(1, longest))
        return max(1, fitting)

    def free(self, busy: int, longest: int) -> int:
        """Return how many more sentences may start.

        :param busy: Sentences in the batch. None may start while more than half of the places are taken: starting a
            few at a time costs more than it gains.
        :param longest: Tokens of the longest source, in the batch or waiting.
        """
        fitting = self.total(longest)
        return fitting - busy if 2 * busy <= fitting else 0


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Return sentence numbers sorted by length: if memory runs out, it does so at the start."""
    return sorted(range(len(lengths)), key=lambda n: (-lengths[n], n))


def plan_batches(lengths: Sequence[int], *, batch_size: int = 32, max_tokens: int | None = None) -> list[list[int]]:
    """Bucket sentences by length, longest first; return the sentence numbers of each batch.

    :param batch_size: Maximum number of sentences in a batch.
    :param max_tokens: Maximum number of source tokens in a batch, padding included; a longer sentence is alone.
    """
    capacity = BatchCapacity(batch_size, max_tokens)
    batches: list[list[int]] = []
    free = 0
    for number in longest_first(lengths):
        if free == 0:
            batches.append([])
            free = capacity.total(lengths[number])
        batches[-1].append(number)
        free -= 1
    return batches


def search(
    scorer: Scorer[State],
    sources: Sequence[Sequence[int]],
    settings: BeamSettings,
    *,
    capacity: BatchCapacity | None = None,
    constraints: Constraints | None = None,
    on_finished: Callable[[int], None] = lambda count: None,
) -> list[list[Hypothesis]]:
    """Translate sources; return up to ``beam`` hypotheses for each, best first and at least one.

    :param capacity: Maximum batch size; by default all sources are searched at once.
    :param constraints: What the translations must contain or not.
    :param on_finished: Called with the number of sentences that ended in a step, if there are any.
    """
    groups = search_blocks(
        scorer, [sources], settings, capacity=capacity, constraints=constraints, on_finished=on_finished
    )
    return [hypotheses for _, hypotheses in sorted(result for group in groups for result in group)]


@torch.inference_mode()
def search_blocks(
    scorer: Scorer[State],
    blocks: Sequence[Sequence[Sequence[int]]],
    settings: BeamSettings,
    *,
    capacity: BatchCapacity | None = None,
    constraints: Constraints | None = None,
    on_finished: Callable[[int], None] = lambda count: None,
) -> Iterator[list[tuple[int, list[Hypothesis]]]]:
    """Translate blocks of sources in one search, and yield hypotheses while the search is running.

    Sentences start block by block, longest first within a block. Those of the next block take the places of those that
    have ended, so a block costs no batch of its own.

    :param constraints: By number of the sentence, counted over all blocks.
    :return: Groups of finished sentences: their numbers, counted over all blocks, and their hypotheses.
    """
    sources = [source for block in blocks for source in block]
    capacity = capacity or BatchCapacity(max(1, len(sources)))
    starts = accumulate(map(len, blocks), initial=0)
    waiting = [
        start + index
        for start, block in zip(starts, blocks, strict=False)
        for index in longest_first([len(source) for source in block])
    ]
    running = _RunningBatch(scorer, sources, settings, constraints)
    unread: list[int] = []
    while waiting or running.sentences:
        before = running.numbers
        free = capacity.free(len(before), running.longest(waiting[:1])) if waiting and running.may_start else 0
        started, waiting = waiting[:free], waiting[free:]
        if started:
            running.start(started)
        if running.sentences:
            running.step()
        ended = {*before, *started}.difference(running.numbers)
        unread += sorted(ended)
        if ended:
            on_finished(len(ended))
        if len(unread) >= _READ_AT_ONCE or not (waiting or running.sentences):
            yield list(zip(unread, running.results(unread), strict=True))
            unread = []


class _RunningBatch(Generic[State]):
    """The sentences under search."""

    def __init__(
        self,
        scorer: Scorer[State],
        sources: Sequence[Sequence[int]],
        settings: BeamSettings,
        constraints: Constraints | None,
    ) -> None:
        self._scorer, self._sources, self._settings = scorer, sources, settings
        self._rules = rules_for(len(sources), scorer.eos_id, settings, constraints)
        self._current: tuple[LiveHypotheses, State] | None = None

    @property
    def sentences(self) -> int:
        """Number of sentences in the batch."""
        return 0 if self._current is None else len(self._current[0])

    @property
    def numbers(self) -> list[int]:
        """Numbers of the sentences in the batch."""
        return [] if self._current is None else self._current[0].sentences.tolist()

    @property
    def may_start(self) -> bool:
        """Whether sentences can start now. If the beam is wider than the vocabulary, the first steps are narrower."""
        return self._current is None or (self._scorer.joins and self._rules.width <= self._scorer.vocabulary_size)

    def longest(self, others: Sequence[int]) -> int:
        """Return the length of the longest source, of this batch and of other sentences."""
        return max(len(self._sources[number]) for number in (*self.numbers, *others))

    def start(self, numbers: Sequence[int]) -> None:
        """Find the first tokens of more sentences, and add them to the batch."""
        sources = [self._sources[number] for number in numbers]
        state = self._scorer.start(sources)
        limits = [min(self._settings.limit(len(source)), self._scorer.max_new_tokens) for source in sources]
        started = self._extend(LiveHypotheses.start(numbers, limits), state, None)
        if started is None or self._current is None:
            self._current = started or self._current
        else:
            live, state = self._current
            self._current = (live.join(started[0]), self._scorer.join(state, started[1]))

    def step(self) -> None:
        """Find the next token of every hypothesis."""
        assert self._current is not None
        live, state = self._current
        gaps = torch.from_numpy(live.score_gaps())
        self._current = self._extend(live, state, gaps)

    def results(self, sentences: Sequence[int]) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of some sentences."""
        return self._rules.results(sentences)

    def _extend(
        self, live: LiveHypotheses, state: State, gaps: torch.Tensor | None
    ) -> tuple[LiveHypotheses, State] | None:
        """Choose the next tokens; return ``None`` if all sentences end with them."""
        following = self._score(live, state, gaps)
        live, extensions = self._rules.step(live, following)
        if not len(live):
            return None
        return live, self._scorer.advance(state, *map(torch.from_numpy, (extensions.rows, extensions.tokens)))

    def _score(self, live: LiveHypotheses, state: State, gaps: torch.Tensor | None) -> NextTokens:
        count, also = self._rules.ask(live)
        # Only constraints need other tokens; without them, a scorer need not know how to give them.
        return self._scorer.score(state, count, gaps) if also is None else self._scorer.score(state, count, gaps, also)
