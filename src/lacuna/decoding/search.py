"""Searching for the best translations of many sentences with any scorer.

As sentences end, others that wait take their places, so that a step has many rows: much of what it costs, it costs for
five rows as for a hundred. Knows nothing of text, of models or of neighbors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

import torch

from lacuna.decoding.beam import Beams, BeamSettings, Live
from lacuna.decoding.hypotheses import Hypothesis
from lacuna.decoding.scorer import Scorer, State
from lacuna.errors import SettingError


@dataclass(frozen=True, slots=True)
class Room:
    """How much is searched at once.

    :param sentences: The most sentences.
    :param tokens: The most source tokens, fillers included; a sentence longer than that is searched alone.
    """

    sentences: int = 32
    tokens: int | None = None

    def __post_init__(self) -> None:
        if self.sentences < 1 or (self.tokens is not None and self.tokens < 1):
            raise SettingError(f"batch_size and max_tokens must be 1 or more, got {self.sentences} and {self.tokens}")

    def holds(self, longest: int) -> int:
        """Tell how many sentences there is room for, at least one, if the longest source has so many tokens."""
        fitting = self.sentences if self.tokens is None else min(self.sentences, self.tokens // max(1, longest))
        return max(1, fitting)

    def left(self, busy: int, longest: int) -> int:
        """Tell how many more sentences may begin.

        :param busy: Sentences that are being searched. While they are more than half of what fits, none may: to begin
            a few at a time costs more than it gains.
        :param longest: Tokens of the longest source, of those and of the ones to come.
        """
        fitting = self.holds(longest)
        return fitting - busy if 2 * busy <= fitting else 0


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Sort sentences by length and give their numbers: a lack of memory then shows at once and not after an hour."""
    return sorted(range(len(lengths)), key=lambda n: (-lengths[n], n))


@torch.inference_mode()
def search(
    scorer: Scorer[State],
    sources: Sequence[Sequence[int]],
    settings: BeamSettings,
    *,
    room: Room | None = None,
    done: Callable[[int], None] = lambda count: None,
) -> list[list[Hypothesis]]:
    """Translate sources: for each up to ``beam`` translations, best first and at least one.

    :param room: Without it, all at once.
    :param done: Called after each step in which sentences have ended with their number.
    """
    if not sources:
        return []
    room = room or Room(len(sources))
    waiting = longest_first([len(source) for source in sources])
    running = _Running(scorer, sources, settings)
    while waiting or running.sentences:
        before = running.sentences
        fitting = room.left(before, running.longest(waiting[:1])) if waiting and running.may_begin else 0
        taken, waiting = waiting[:fitting], waiting[fitting:]
        if taken:
            running.begin(taken)
        if running.sentences:
            running.step()
        ended = before + len(taken) - running.sentences
        if ended:
            done(ended)
    return running.results()


class _Running(Generic[State]):
    """The sentences that are being searched."""

    def __init__(self, scorer: Scorer[State], sources: Sequence[Sequence[int]], settings: BeamSettings) -> None:
        self._scorer, self._sources, self._settings = scorer, sources, settings
        self._beams: Beams | None = None
        self._now: tuple[Live, State] | None = None

    @property
    def sentences(self) -> int:
        """How many there are."""
        return 0 if self._now is None else len(self._now[0])

    @property
    def may_begin(self) -> bool:
        """Whether others can begin now. Where a beam is wider than the vocabulary, the first steps are narrower."""
        return self._now is None or (self._scorer.joins and self._settings.beam <= self._scorer.vocabulary_size)

    def longest(self, others: Sequence[int]) -> int:
        """Give the length of the longest source, of these and of others."""
        here = [] if self._now is None else self._now[0].numbers.tolist()
        return max(len(self._sources[number]) for number in (*here, *others))

    def begin(self, numbers: Sequence[int]) -> None:
        """Find the first tokens of more sentences, and let them join the others."""
        sources = [self._sources[number] for number in numbers]
        state = self._scorer.start(sources)
        scores = self._scorer.score(state)
        limits = [min(self._settings.limit(len(source)), self._scorer.max_new_tokens) for source in sources]
        live = Live.begin(*(torch.tensor(part, device=scores.device) for part in (numbers, limits)))
        begun = self._go_on(live, state, scores)
        if begun is None or self._now is None:
            self._now = begun or self._now
        else:
            self._now = (self._now[0].join(begun[0]), self._scorer.join(self._now[1], begun[1]))

    def step(self) -> None:
        """Find the next token of every translation."""
        assert self._now is not None
        live, state = self._now
        self._now = self._go_on(live, state, self._scorer.score(state, live.behind()))

    def results(self) -> list[list[Hypothesis]]:
        """Give what was found."""
        return [] if self._beams is None else self._beams.results()

    def _go_on(self, live: Live, state: State, scores: torch.Tensor) -> tuple[Live, State] | None:
        """Choose tokens; ``None`` if all these sentences end with them."""
        if self._beams is None:
            banned = self._scorer.banned_ids
            self._beams = Beams(len(self._sources), self._scorer.eos_id, banned, self._settings, scores.device)
        live, following = self._beams.step(live, scores)
        return (live, self._scorer.advance(state, following.rows, following.tokens)) if len(live) else None
