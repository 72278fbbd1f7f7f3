"""What a combiner that learns says of a query: more than masses, so that a loss can be computed to the last digit."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Weighing(NamedTuple):
    """How a final distribution is shared out between the model and the neighbors.

    :param log_model_share: Logarithm of ``1 - knn_weight``, which the masses give only roughly where it is small:
        (queries,).
    :param mass: Of each neighbor: (queries, k).
    """

    log_model_share: torch.Tensor
    mass: torch.Tensor
