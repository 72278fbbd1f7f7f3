"""kNN-MT as a scorer around the model's scorer. Beam search uses it like any other.

Only the probabilities of retrieved tokens change, so only those and the model's most probable tokens are computed. With
a gate, rows that it rejects are not searched and keep the model's distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners import mix_given, mix_tokens
from lacuna.likely_tokens import NextTokens
from lacuna.models.stepping import ModelScorer, ModelState, Prediction
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
        """Number of tokens that the model knows."""
        return self._plain.vocabulary_size

    @property
    def eos_id(self) -> int:
        """The token that ends a translation."""
        return self._plain.eos_id

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
    def score(
        self,
        state: ModelState,
        count: int,
        score_gap: torch.Tensor | None = None,
        also: NDArray[np.int64] | None = None,
    ) -> NextTokens:
        """Mix the neighbors of each row's key into the model's distribution; return the most probable tokens."""
        prediction = self._plain.predict(state, count)
        rows, gate = len(state.keys), self._retriever.gate
        if gate is None:
            self.count.add(rows, rows)
            return self._mix(prediction, state.keys, None, also)
        log_p_best = torch.from_numpy(prediction.best.log_probs[:, 0])
        wanted = gate.wants(state.keys, log_p_best, score_gap).cpu().numpy().nonzero()[0]
        self.count.add(rows, len(wanted))
        if len(wanted):
            return self._mix(prediction, state.keys, wanted, also)
        if also is None:
            return prediction.best
        return prediction.best.append(also, prediction.log_probs_of(also), self._plain.banned_ids)

    def _mix(
        self,
        prediction: Prediction,
        keys: torch.Tensor,
        wanted: NDArray[np.int64] | None,
        also: NDArray[np.int64] | None,
    ) -> NextTokens:
        """Search for some rows, or all of them, and mix what is found into their distributions."""
        chosen = slice(None) if wanted is None else wanted
        ends = np.full((len(keys), 1), self.eos_id)

        def log_p_end(rows: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(prediction.log_probs_of(ends)[chosen][rows.cpu().numpy(), 0]).to(keys.device)

        retrieval, mass = self._retriever.retrieve(keys[chosen], log_p_end)
        values = np.full((len(keys), mass.shape[1]), -1)
        values[chosen] = retrieval.neighbors.values.cpu().numpy()
        log_p_values = prediction.log_probs_of(values)[chosen]
        tokens, log_probs = prediction.best
        own = NextTokens(tokens[chosen], log_probs[chosen])
        masses, banned = mass.cpu().numpy(), self._plain.banned_ids
        mixed = mix_tokens(own, masses, values[chosen], log_p_values, banned)
        if wanted is not None:
            tokens[wanted], log_probs[wanted] = mixed
            mixed = prediction.best
        if also is None:
            return mixed
        log_p_also = prediction.log_probs_of(also)
        log_p_also[chosen] = mix_given(also[chosen], log_p_also[chosen], masses, values[chosen])
        return mixed.append(also, log_p_also, banned)
