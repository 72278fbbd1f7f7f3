"""Vanilla kNN-MT (Khandelwal et al., 2021): a softmax over negative distances, and one weight for all tokens.

Settings only: :mod:`lacuna.fitting.vanilla` finds them by a grid search. The softmax has two forms: over all neighbors,
to translate (:meth:`Vanilla.mass`), and summed up for the right token, to fit (:func:`gold_p_knn`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

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

    def mass(self, neighbors: Neighbors) -> torch.Tensor:
        """Return ``knn_weight * softmax(-distances / temperature)``; a query without neighbors gets zeros."""
        return self.knn_weight * kernel_weights(neighbors, -neighbors.distances / self.temperature)


def gold_p_knn(
    distances: NDArray[np.float32],
    says_gold: NDArray[np.bool_],
    weights: NDArray[np.float32] | None,
    temperature: float,
) -> NDArray[np.float64]:
    """Return p_kNN of the right token of each query, in float64; 0 without neighbors: (queries,).

    :param distances: Squared L2; infinite for a missing neighbor: (queries, k).
    :param says_gold: Which neighbors have the right token as their value: (queries, k).
    :param weights: Number of entries that each neighbor stands for: (queries, k).
    """
    exact = distances.astype(np.float64)
    nearest = exact.min(axis=1, initial=np.inf)
    scores = np.exp(-(exact - np.where(np.isfinite(nearest), nearest, 0.0)[:, None]) / temperature)
    if weights is not None:
        scores *= weights
    total, said = scores.sum(axis=1), (scores * says_gold).sum(axis=1)
    p: NDArray[np.float64] = np.divide(said, total, out=np.zeros_like(said), where=total > 0)
    return p
