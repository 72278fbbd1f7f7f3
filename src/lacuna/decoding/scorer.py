"""What beam search asks of whatever gives it probabilities.

A scorer works on a batch of rows, each an unfinished translation. The search decides which rows live on; the scorer
keeps whatever it needs for them in a state of its own making. Nothing is said of how probabilities come about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch

State = TypeVar("State")


class Scorer(Protocol[State]):
    """Gives log-probabilities of the next token.

    All that changes is in the state, so one scorer serves many searches at once. A state is used up by ``advance``;
    until then it may be scored any number of times.

    Rows come sentence by sentence, equally many for each: one at the start, then at most as many as the beam is wide.
    """

    @property
    def vocabulary_size(self) -> int:
        """Columns of the scores."""

    @property
    def eos_id(self) -> int:
        """The token that ends a translation."""

    @property
    def banned_ids(self) -> Sequence[int]:
        """Tokens that are never chosen, though they keep their share of the probability."""

    @property
    def max_new_tokens(self) -> int:
        """The most tokens a translation can have, the end token included."""

    @property
    def joins(self) -> bool:
        """Whether states that have come differently far can be joined."""

    def start(self, sources: Sequence[Sequence[int]]) -> State:
        """Begin one translation for each source, one row each."""

    def score(self, state: State, score_gap: torch.Tensor | None = None) -> torch.Tensor:
        """Give log-probabilities ``(rows, vocabulary)``, float32, in a tensor the caller may overwrite.

        :param score_gap: How many nats each row is below the best one of its sentence: ``(rows,)``. A scorer may spend
            less on rows with a large gap; ``None`` means 0 for all.
        """

    def advance(self, state: State, rows: torch.Tensor, tokens: torch.Tensor) -> State:
        """Go on: new row ``i`` is old row ``rows[i]`` followed by ``tokens[i]``.

        Old rows may be taken several times or not at all; a sentence none of whose rows is taken has ended. Sentences
        stay in their order.
        """

    def join(self, state: State, others: State) -> State:
        """Go on with the rows of both, those of ``others`` last; each sentence has equally many. Uses both up."""
