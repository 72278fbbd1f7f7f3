"""Keep a memory from cutting a translation off: it may end one only where the model sees an end as well.

Neighbors that end a sentence are often near where the translation has only come to the end of a phrase. If the model is
nearly sure that more follows, their vote for the end token is dropped, and their mass goes back to the model. An end of
the very same context (see :mod:`lacuna.combiners.exact_contexts`) always counts. Knows nothing of text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from lacuna.combiners.base import Neighbors
from lacuna.combiners.exact_contexts import same_context

# Least probability of an end at which a memory may end a translation. docs/decoding.md has the figures.
MIN_PROBABILITY = 0.1


@dataclass(frozen=True, slots=True)
class EndGuard:
    """Drops votes for the end token where the model does not see an end.

    :param eos_id: The end token.
    :param min_probability: Least probability of the end for the model at which a vote counts.
    """

    eos_id: int
    min_probability: float = MIN_PROBABILITY

    def apply(
        self, mass: torch.Tensor, neighbors: Neighbors, log_p_end_of: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """Return the masses without votes for an end that the model does not see: (queries, k).

        :param mass: Of each neighbor, from a combiner: (queries, k).
        :param log_p_end_of: Returns the log-probability that the model gives to the end, for given queries: (rows,).
        """
        ends = neighbors.values == self.eos_id
        rows = ends.any(1).nonzero()[:, 0]
        if not len(rows):
            return mass
        p_end = log_p_end_of(rows).exp()
        unseen = torch.zeros(len(mass), dtype=torch.bool, device=mass.device)
        unseen[rows] = p_end < self.min_probability
        return mass.masked_fill(ends & (unseen & ~same_context(neighbors)[:, 0])[:, None], 0.0)
