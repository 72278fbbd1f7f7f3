"""kNN-MT as a scorer around the model's scorer. Beam search uses it like any other.

Only the probabilities of retrieved tokens change; no ``(batch, vocabulary)`` tensor is created for the kNN side. With a
gate, rows that it rejects are not searched and keep the model's distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import torch

from lacuna.combiners import mix_into
from lacuna.models.stepping import ModelScorer, ModelState
from lacuna.translator.retriever import Retriever


@dataclass(slots=True)
class SearchCount:
    """Number of rows scored so far, and for how many of them the memories were searched."""

    rows: int = 0
    searched: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def add(self, rows: int, searched: int) -> None:
        """Add to the counts; safe from any thread."""
        with self._lock:
            self.rows += rows
            self.searched += searched


class KnnScorer:
    """Scores next tokens with the model and the neighbors of its current decoder states.

    :param plain: The model's scorer.
    """

    def __init__(self, plain: ModelScorer, retriever: Retriever) -> None:
        self._plain, self._retriever = plain, retriever
        self.count = SearchCount()

    @property
    def vocabulary_size(self) -> int:
        """Number of columns of the scores."""
        return self._plain.vocabulary_size

    @property
    def eos_id(self) -> int:
        """The token that ends a translation."""
        return self._plain.eos_id

    @property
    def banned_ids(self) -> Sequence[int]:
        """Tokens that are never chosen."""
        return self._plain.banned_ids

    @property
    def max_new_tokens(self) -> int:
        """Maximum number of tokens of a translation."""
        return self._plain.max_new_tokens

    @property
    def joins(self) -> bool:
        """Whether states with hypotheses of different lengths can be joined."""
        return self._plain.joins

    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """Start one hypothesis for each source."""
        return self._plain.start(sources)

    def advance(self, state: ModelState, rows: torch.Tensor, tokens: torch.Tensor) -> ModelState:
        """Extend rows by tokens."""
        return self._plain.advance(state, rows, tokens)

    def join(self, state: ModelState, others: ModelState) -> ModelState:
        """Concatenate the rows of two states."""
        return self._plain.join(state, others)

    @torch.inference_mode()
    def score(self, state: ModelState, score_gap: torch.Tensor | None = None) -> torch.Tensor:
        """Mix the neighbors of each row's key into the model's log-probabilities."""
        log_probs = self._plain.score(state)
        gate = self._retriever.gate
        if gate is None:
            self.count.add(len(log_probs), len(log_probs))
            return self._mix(log_probs, state.keys)
        wanted = gate.wants(state.keys, log_probs, score_gap).to(log_probs.device).nonzero()[:, 0]
        self.count.add(len(log_probs), len(wanted))
        if 2 * len(wanted) > len(log_probs):
            # Rows without mass do not change, and including them costs less than copying most of the others.
            return self._mix(log_probs, state.keys, wanted)
        if len(wanted):
            log_probs[wanted] = self._mix(log_probs[wanted], state.keys[wanted])
        return log_probs

    def _mix(self, log_probs: torch.Tensor, keys: torch.Tensor, wanted: torch.Tensor | None = None) -> torch.Tensor:
        retrieval, mass = self._retriever.retrieve(
            keys if wanted is None else keys[wanted],
            lambda rows: log_probs[rows if wanted is None else wanted[rows], self.eos_id],
        )
        values = retrieval.neighbors.values
        if wanted is not None:
            mass = mass.new_zeros(len(keys), mass.shape[1]).index_copy_(0, wanted, mass)
            values = values.new_full(mass.shape, -1).index_copy_(0, wanted, values)
        return mix_into(log_probs, mass, values)
