"""kNN-MT as a scorer round the model's: beam search does not know the difference.

Only the retrieved tokens' probabilities are touched; no batch x vocabulary tensor is made for the memory's side. With a
gate, rows that it does not want are not searched for and keep the model's word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import torch

from lacuna.combiners import Combiner, Gate, mix_into
from lacuna.models.stepping import ModelScorer, ModelState
from lacuna.translator.memory import Memory, find_neighbors


@dataclass(slots=True)
class SearchCount:
    """How many rows were scored so far, and for how many of them the memories were searched."""

    rows: int = 0
    searched: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def add(self, rows: int, searched: int) -> None:
        """Count more, from any thread."""
        with self._lock:
            self.rows += rows
            self.searched += searched


class KnnScorer:
    """Scores next tokens with the model and what the memories say about its present state.

    :param gate: Which rows to search for; without it, all.
    """

    def __init__(
        self, plain: ModelScorer, memories: Sequence[Memory], combiner: Combiner, gate: Gate | None = None
    ) -> None:
        self._plain, self._memories, self._combiner, self._gate = plain, memories, combiner, gate
        self.count = SearchCount()

    @property
    def vocabulary_size(self) -> int:
        """Columns of the scores."""
        return self._plain.vocabulary_size

    @property
    def eos_id(self) -> int:
        """The token that ends a translation."""
        return self._plain.eos_id

    @property
    def banned_ids(self) -> Sequence[int]:
        """Tokens that are never to be chosen."""
        return self._plain.banned_ids

    @property
    def max_new_tokens(self) -> int:
        """The most tokens a translation can have."""
        return self._plain.max_new_tokens

    @property
    def joins(self) -> bool:
        """Whether sentences may begin while others are under way."""
        return self._plain.joins

    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """Begin as the model does."""
        return self._plain.start(sources)

    def advance(self, state: ModelState, rows: torch.Tensor, tokens: torch.Tensor) -> ModelState:
        """Go on as the model does."""
        return self._plain.advance(state, rows, tokens)

    def join(self, state: ModelState, others: ModelState) -> ModelState:
        """Go on with both as the model does."""
        return self._plain.join(state, others)

    @torch.inference_mode()
    def score(self, state: ModelState, score_gap: torch.Tensor | None = None) -> torch.Tensor:
        """Mix the neighbors of each row's key into the model's log-probabilities."""
        log_probs = self._plain.score(state)
        if self._gate is None:
            self.count.add(len(log_probs), len(log_probs))
            return self._mix(log_probs, state.keys)
        wanted = self._gate.wants(state.keys, log_probs, score_gap).to(log_probs.device).nonzero()[:, 0]
        self.count.add(len(log_probs), len(wanted))
        if 2 * len(wanted) > len(log_probs):
            # Rows without mass stay as they are, and passing over them costs less than copying most of the others.
            return self._mix(log_probs, state.keys, wanted)
        if len(wanted):
            log_probs[wanted] = self._mix(log_probs[wanted], state.keys[wanted])
        return log_probs

    def _mix(self, log_probs: torch.Tensor, keys: torch.Tensor, wanted: torch.Tensor | None = None) -> torch.Tensor:
        found = find_neighbors(self._memories, keys if wanted is None else keys[wanted], self._combiner.k).neighbors
        mass, values = self._combiner.mass(found), found.values
        if wanted is not None:
            mass = mass.new_zeros(len(keys), mass.shape[1]).index_copy_(0, wanted, mass)
            values = values.new_full(mass.shape, -1).index_copy_(0, wanted, values)
        return mix_into(log_probs, mass, values)
