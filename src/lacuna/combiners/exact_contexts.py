"""Trust the memory where it has the very same context: the same source sentence and the same target prefix.

There, the distance of the nearest neighbor is zero but for rounding, and its value is how the memory translates this
sentence. A combiner that was fitted to other sentences spreads its mass over farther neighbors, which would hide a
correction. Knows nothing of text.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lacuna.combiners.base import Combiner, Neighbors

# Share of a query's squared length up to which a distance is rounding. Keys are rounded to float16, and a decoding step
# sums in another order than teacher forcing; both are a thousand times smaller than the distance of other contexts.
TOLERANCE = 1e-4


def same_context(neighbors: Neighbors) -> torch.Tensor:
    """Return which neighbors have the context of their query: (queries, k)."""
    if neighbors.queries is None:
        raise LookupError("these neighbors were found without their queries")
    lengths = neighbors.queries.to(neighbors.distances.dtype).square().sum(1, keepdim=True)
    return (neighbors.distances <= TOLERANCE * lengths) & (neighbors.values >= 0)


@dataclass(frozen=True, eq=False, slots=True)
class ExactContexts:
    """Gives nearly all mass to neighbors of the same context, if there are any; otherwise leaves it to a combiner.

    :param knn_weight: Share of the neighbors of the same context. Several of them share it by their weights.
    """

    combiner: Combiner
    knn_weight: float = 0.95

    @property
    def k(self) -> int:
        """Number of neighbors per query."""
        return self.combiner.k

    def mass(self, neighbors: Neighbors) -> torch.Tensor:
        """Return the mass of each neighbor, 0 for a missing one: (queries, k)."""
        mass = self.combiner.mass(neighbors)
        same = same_context(neighbors)
        exact = same[:, 0]  # nearest first
        if not bool(exact.any()):
            return mass
        shares = same.to(mass.dtype)
        if neighbors.log_weights is not None:
            shares = shares * neighbors.log_weights.exp().to(mass.dtype)
        shares = shares / shares.sum(1, keepdim=True).clamp(min=torch.finfo(mass.dtype).tiny)
        return torch.where(exact[:, None], self.knn_weight * shares, mass)
