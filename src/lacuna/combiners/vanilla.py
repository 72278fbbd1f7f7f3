"""Vanilla kNN-MT (Khandelwal et al., 2021): a softmax over negative distances, and one weight for all tokens.

Settings only: :mod:`lacuna.fitting.vanilla` finds them by a grid search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from lacuna.combiners.base import Neighbors, check_kernel_settings, kernel_weights


@dataclass(frozen=True, slots=True)
class Vanilla:
    """``p_kNN(v)`` is proportional to the sum of ``exp(-distance / temperature)`` over neighbors with value v.

    :param k: Neighbors per query.
    :param knn_weight: Share of the kNN distribution in the interpolation (lambda in the paper).
    :param temperature: Divides squared distances; larger is flatter.
    """

    name: ClassVar[str] = "vanilla"
    network: ClassVar[None] = None
    k: int = 8
    knn_weight: float = 0.5
    temperature: float = 10.0

    def __post_init__(self) -> None:
        check_kernel_settings(self.k, self.knn_weight, self.temperature)

    def mass(self, found: Neighbors) -> torch.Tensor:
        """Return ``knn_weight * softmax(-distances / temperature)``; a query without neighbors gets zeros."""
        return self.knn_weight * kernel_weights(found, -found.distances / self.temperature)
