"""The protocol between beam search and a scorer.

A scorer works on a batch of rows, each an unfinished hypothesis. The search decides which rows continue; the scorer
keeps what it needs for them in a state object of its own. The protocol does not say how probabilities are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.likely_tokens import NextTokens

State = TypeVar("State")


class Scorer(Protocol[State]):
    """Gives the most probable next tokens.

    Everything that changes is in the state, so one scorer can serve several searches at once. A state must not be used
    after ``advance``; until then it may be scored any number of times.

    Rows are grouped by sentence, the same number for each: one at the start, then at most the beam width, or
    twice as many in a strict search.
    """

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens that it knows."""

    @property
    def eos_id(self) -> int:
        """The token that ends a translation."""

    @property
    def max_new_tokens(self) -> int:
        """Maximum number of tokens of a translation, including the end token."""

    @property
    def joins(self) -> bool:
        """Whether states with hypotheses of different lengths can be joined."""

    def start(self, sources: Sequence[Sequence[int]]) -> State:
        """Start one hypothesis for each source, one row each."""

    def score(
        self,
        state: State,
        count: int,
        score_gap: torch.Tensor | None = None,
        also: NDArray[np.int64] | None = None,
    ) -> NextTokens:
        """Return the most probable next tokens of each row, without those that are never chosen.

        :param count: Number of tokens wanted; fewer if the vocabulary is smaller.
        :param score_gap: How many nats each row is below the best one of its sentence: ``(rows,)``. A scorer may spend
            less on rows with a large gap; ``None`` means 0 for all.
        :param also: Tokens wanted in any case, different ones in each row, -1 for none: ``(rows, others)``. They are in
            additional columns, the last ones of the answer, with a log-probability of minus infinity for -1, tokens
            that are never chosen, and those that are among the most probable. Only given by a search with constraints.
        """

    def advance(self, state: State, rows: torch.Tensor, tokens: torch.Tensor) -> State:
        """Extend rows: new row ``i`` is old row ``rows[i]`` followed by ``tokens[i]``.

        Old rows may be extended several times or not at all. A sentence without extended rows has ended. The order of
        sentences does not change.
        """

    def join(self, state: State, others: State) -> State:
        """Concatenate the rows of two states, with the same number of rows per sentence. Neither may be used after."""
