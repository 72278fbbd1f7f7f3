"""What the memories say about the next token: the mass of each neighbor of a key.

The one place where neighbors are found, weighed by the combiner, and kept from ending a translation too early; both
beam search and evidence ask here, so they cannot differ. Does not mix the mass into a distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from lacuna.combiners import Combiner, EndGuard, Gate
from lacuna.memory import Memory
from lacuna.translator.retrieval import Retrieval, find_neighbors

# Keys that are projected to the vocabulary at once, for the gate.
_MAX_PROJECTED = 256


@dataclass(frozen=True, eq=False, slots=True)
class Retriever:
    """Searches memories, and weighs what they have.

    :param gate: Decides which keys are searched; without it, all are.
    :param end_guard: Keeps the memories from cutting translations off.
    """

    memories: Sequence[Memory]
    combiner: Combiner
    gate: Gate | None = None
    end_guard: EndGuard | None = None

    def retrieve(
        self, keys: torch.Tensor, log_p_end: Callable[[torch.Tensor], torch.Tensor]
    ) -> tuple[Retrieval, torch.Tensor]:
        """Return the neighbors of each key, and the mass of each: (rows, k).

        :param log_p_end: The model's log-probability of the end token in some rows; it is asked for few of them.
        """
        retrieval = find_neighbors(self.memories, keys, self.combiner.k)
        mass = self.combiner.mass(retrieval.neighbors)
        if self.end_guard is not None:
            mass = self.end_guard.apply(mass, retrieval.neighbors, log_p_end)
        return retrieval, mass

    def searched(
        self, keys: torch.Tensor, score_gaps: torch.Tensor, log_probs: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """Return 1 for keys that the gate lets pass during translation, 0 for others: (rows,).

        :param log_probs: The model's log-probabilities for some keys: (rows, vocabulary).
        """
        if self.gate is None:
            return torch.ones(len(keys))
        with torch.inference_mode():
            parts = zip(keys.split(_MAX_PROJECTED), score_gaps.split(_MAX_PROJECTED), strict=True)
            wanted = [
                self.gate.wants(part, log_probs(part).amax(1), gaps.to(part.device)).cpu() for part, gaps in parts
            ]
        return torch.cat(wanted).double()
