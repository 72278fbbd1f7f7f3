"""Vanilla kNN-MT (Khandelwal et al., 2021): a softmax over negative distances, and one weight for all tokens.

Settings only: :mod:`lacuna.fitting.vanilla` finds them by a grid search.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lacuna.combiners.base import Neighbors, kernel_weights
from lacuna.errors import SettingError


@dataclass(frozen=True, slots=True)
class Vanilla:
    """``p_kNN(v)`` is proportional to the sum of ``exp(-distance / temperature)`` over neighbors with value v.

    :param k: Neighbors per query.
    :param knn_weight: Share of the kNN distribution in the interpolation (lambda in the paper).
    :param temperature: Divides squared distances; larger is flatter.
    """

    k: int = 8
    knn_weight: float = 0.5
    temperature: float = 10.0

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SettingError(f"k: got {self.k}; allowed is 1 or more")
        if not 0 <= self.knn_weight <= 1:
            raise SettingError(f"knn_weight: got {self.knn_weight}; allowed is 0 (model only) to 1 (memory only)")
        if not self.temperature > 0:
            raise SettingError(f"temperature: got {self.temperature}; allowed is more than 0")

    def mass(self, found: Neighbors) -> torch.Tensor:
        """Return ``knn_weight * softmax(-distances / temperature)``; a query without neighbors gets zeros."""
        return self.knn_weight * kernel_weights(found, -found.distances / self.temperature)
