"""What fitting needs of every token, collected once: neighbors, and a few of the model's log-probabilities.

A combiner changes a model's distribution at the retrieved tokens and scales all the others alike. So k + 2 of the
model's numbers per token are enough for the exact loss, label smoothing over the whole vocabulary included.
Knows nothing of models or stores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from lacuna.combiners.base import Neighbors
from lacuna.combiners.values import first_places

# Log-probabilities are cut off here: a model may shut a token out for good, and the mean of all would be -infinity.
LOWEST_LOG_P = -1000.0

# The values of so many tokens are compared with each other at once: k * k comparisons for each of them.
_TOKENS_AT_ONCE = 4096

KeyReader = Callable[[torch.Tensor], torch.Tensor]


def _no_keys(rows: torch.Tensor) -> torch.Tensor:
    raise LookupError("these tokens were collected without keys")


@dataclass(frozen=True, eq=False)
class TokenCache:
    """Tokens with their neighbors and what the model alone thinks.

    :param distances: Of the neighbors, as in :class:`~lacuna.combiners.base.Neighbors`: (tokens, k).
    :param values: (tokens, k).
    :param log_weights: (tokens, k), or ``None``.
    :param gold: The right tokens: (tokens,).
    :param log_p_gold: Of the model: (tokens,).
    :param log_p_values: Of the model, of each retrieved value; anything where there is none: (tokens, k).
    :param log_p_sum: Of the model, summed over the vocabulary: (tokens,).
    :param vocabulary_size: How many summands that has.
    :param sentences: The sentence each token is of: (tokens,).
    :param read_queries: Reads what some tokens were searched with; ``None`` where no one needs it: (rows, dimension).
    :param read_keys: Reads the neighbors' keys of some tokens, zeros where there is none: (rows, k, dimension).
    """

    distances: torch.Tensor
    values: torch.Tensor
    log_weights: torch.Tensor | None
    gold: torch.Tensor
    log_p_gold: torch.Tensor
    log_p_values: torch.Tensor
    log_p_sum: torch.Tensor
    vocabulary_size: int
    sentences: torch.Tensor
    read_queries: KeyReader | None = None
    read_keys: KeyReader = _no_keys

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return len(self.gold)

    @cached_property
    def first_places(self) -> torch.Tensor:
        """The place of the nearest neighbor with the same value: (tokens, k)."""
        return torch.cat([first_places(part) for part in self.values.split(_TOKENS_AT_ONCE)])

    @cached_property
    def says_gold(self) -> torch.Tensor:
        """Whether a neighbor's value is the right token: (tokens, k)."""
        return self.values == self.gold[:, None]

    def neighbors(self, rows: torch.Tensor) -> Neighbors:
        """Return the neighbors of some tokens; their keys are read when they are asked for."""
        return Neighbors(
            self.distances.index_select(0, rows),
            self.values.index_select(0, rows),
            None if self.log_weights is None else self.log_weights.index_select(0, rows),
            None if self.read_queries is None else self.read_queries(rows),
            lambda: self.read_keys(rows),
        )
