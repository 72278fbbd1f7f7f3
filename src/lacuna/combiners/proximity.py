"""kNN-MT whose weight depends on how near the neighbors are, for memories to which nothing can be fitted.

With one weight for all tokens, as in :mod:`lacuna.combiners.vanilla`, the far neighbors that a small memory has for
most queries harm as much as the few near ones help. Settings only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from lacuna.combiners.base import Neighbors, check_kernel_settings
from lacuna.datastore import Store
from lacuna.errors import SettingError
from lacuna.memory import Memory

# Found on dev; docs/adapt.md has the figures. The distances are in units of the variance of the keys, which differs a
# dozenfold between models but little between texts.
_K, _KNN_WEIGHT, _TEMPERATURE, _MODEL_DISTANCE = 16, 0.9, 0.05, 0.2


@dataclass(frozen=True, slots=True)
class Proximity:
    """A softmax over negative distances in which the model takes part like one more neighbor, at a fixed distance.

    :param k: Neighbors per query.
    :param knn_weight: Upper bound of the share of the neighbors, reached if they are much nearer than the model.
    :param temperature: Divides squared distances; larger is flatter.
    :param model_distance: Squared distance at which the model counts as much as one neighbor.
    """

    name: ClassVar[str] = "proximity"
    network: ClassVar[None] = None
    k: int
    knn_weight: float
    temperature: float
    model_distance: float

    def __post_init__(self) -> None:
        check_kernel_settings(self.k, self.knn_weight, self.temperature)
        if not self.model_distance >= 0:
            raise SettingError(f"model_distance: got {self.model_distance}; allowed is 0 or more")

    @classmethod
    def suited_to(cls, memory: Memory | Store) -> Proximity:
        """Return settings that work without fitting, on the scale of the distances in a memory."""
        variance = max(memory.key_variance, 1e-6)  # a single entry has none
        return cls(
            k=max(1, min(_K, memory.entries)),
            knn_weight=_KNN_WEIGHT,
            temperature=round(_TEMPERATURE * variance, 6),
            model_distance=round(_MODEL_DISTANCE * variance, 6),
        )

    def mass(self, neighbors: Neighbors) -> torch.Tensor:
        """Return the mass of each neighbor, 0 for a missing one: (queries, k)."""
        scores = -neighbors.distances / self.temperature
        if neighbors.log_weights is not None:
            scores = scores + neighbors.log_weights
        scores = scores.masked_fill(neighbors.values < 0, -torch.inf)
        model = scores.new_full((len(scores), 1), -self.model_distance / self.temperature)
        return self.knn_weight * torch.softmax(torch.cat([scores, model], dim=1), dim=1)[:, :-1]
