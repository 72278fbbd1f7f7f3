"""kNN-MT as a scorer round the model's: beam search does not know the difference.

Only the retrieved tokens' probabilities are touched; no batch x vocabulary tensor is made for the memory's side.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lacuna.combiners import Combiner, mix_into
from lacuna.models.stepping import ModelScorer, ModelState
from lacuna.translator.memories import Memory, find_neighbors


class KnnScorer:
    """Scores next tokens with the model and what the memories say about its present state."""

    def __init__(self, plain: ModelScorer, memories: Sequence[Memory], combiner: Combiner) -> None:
        self._plain, self._memories, self._combiner = plain, memories, combiner

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

    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """Begin as the model does."""
        return self._plain.start(sources)

    def advance(self, state: ModelState, rows: torch.Tensor, tokens: torch.Tensor) -> ModelState:
        """Go on as the model does."""
        return self._plain.advance(state, rows, tokens)

    @torch.inference_mode()
    def score(self, state: ModelState) -> torch.Tensor:
        """Mix the neighbors of each row's key into the model's log-probabilities."""
        found = find_neighbors(self._memories, state.keys, self._combiner.k).neighbors
        return mix_into(self._plain.score(state), self._combiner.mass(found), found.values)
