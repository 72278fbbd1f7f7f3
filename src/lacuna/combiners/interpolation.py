"""The interpolation of the model's distribution with that of the neighbors, after Khandelwal et al. (2021).

    p(y | x, y_<t) = knn_weight * p_kNN(y | x, y_<t) + (1 - knn_weight) * p_model(y | x, y_<t)

A combiner gives each neighbor a *mass*: the masses of the neighbors with a value add up to ``knn_weight * p_kNN`` of
that value, and those of all neighbors to ``knn_weight``. There are three forms, by what is asked for: the distribution
over the whole vocabulary (:func:`mix_into`), the log-probabilities of retrieved tokens (:func:`retrieved_gains`), and
the probability of one token (:func:`interpolate`, :func:`gold_probability`). Knows nothing of particular combiners and
indexes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from lacuna.combiners.base import has_missing

# From here on log(1 + exp(x)) equals x in float64.
_SOFTPLUS_LINEAR = 50.0

Numbers = TypeVar("Numbers", torch.Tensor, NDArray[Any])


class Weighing(NamedTuple):
    """Shares of the model and of the neighbors in the interpolated distribution.

    :param log_model_share: Log of ``1 - knn_weight``; where that is small, 1 minus the masses would be imprecise:
        (queries,).
    :param mass: Mass of each neighbor: (queries, k).
    """

    log_model_share: torch.Tensor
    mass: torch.Tensor

    @classmethod
    def of(cls, mass: torch.Tensor) -> Weighing:
        """Return the shares for masses alone: (queries, k)."""
        return cls(torch.log1p(-mass.sum(1).clamp(max=1 - torch.finfo(mass.dtype).eps)), mass)


def interpolate(p_model: Numbers, p_knn: Numbers, knn_weight: Numbers) -> Numbers:
    """Return the interpolated probability of one token for each query; all are of one shape."""
    p: Numbers = knn_weight * p_knn + (1 - knn_weight) * p_model
    return p


def gold_probability(p_model: torch.Tensor, mass: torch.Tensor, says_gold: torch.Tensor) -> torch.Tensor:
    """Return the interpolated probability of the right token of each query, from masses: (queries,).

    :param p_model: Its probability for the model: (queries,).
    :param says_gold: Which neighbors have it as their value: (queries, k).
    """
    return (1 - mass.sum(1)).clamp(min=0) * p_model + (mass * says_gold).sum(1)


def retrieved_gains(weighing: Weighing, log_p_values: torch.Tensor, first_ranks: torch.Tensor) -> torch.Tensor:
    """Return by how much the neighbors raise the log-probability of their values: (queries, k).

    That is ``log p(v) - log_model_share - log p_model(v)``, at the first neighbor of each value v, and 0 at the others.
    For a token that no neighbor has, it is 0.

    :param log_p_values: Log-probabilities that the model gives to the values of the neighbors: (queries, k).
    :param first_ranks: From :func:`~lacuna.combiners.base.first_ranks`: (queries, k).
    """
    share, mass = weighing
    totals = torch.zeros_like(mass).scatter_add(1, first_ranks, mass)
    # A total is 0 if the mass underflows, or after the first neighbor of a value. There the log has no gradient.
    ratios = totals.clamp(min=torch.finfo(mass.dtype).tiny).log() - (share[:, None] + log_p_values)
    return F.softplus(ratios, threshold=_SOFTPLUS_LINEAR).masked_fill(totals == 0, 0.0)  # log((p + total) / p)


def token_mass(mass: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return for each neighbor the total mass of all neighbors with its value: (queries, k)."""
    same = values[:, :, None] == values[:, None, :]  # (queries, k, k)
    return (same * mass[:, None, :]).sum(-1)


def mix_into(log_probs: torch.Tensor, mass: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Interpolate the model's distribution with the neighbors' masses, in place.

    Every token is scaled by the model's share; only retrieved tokens gain. With zero mass no bit changes.

    :param log_probs: Log-probabilities of the model: (queries, vocabulary).
    """
    if not mass.shape[1]:
        return log_probs
    # Rounding may push the sum slightly above 1, where log1p gives NaN.
    log_probs += mass.sum(1, keepdim=True).clamp_(max=1.0).neg_().log1p_()
    if has_missing(values):
        present = values >= 0
        # A missing neighbor writes to the place of the first one.
        values = torch.where(present, values, values[:, :1].clamp(min=0))
        mass = torch.where(present, mass, 0.0)
    mixed = torch.logaddexp(log_probs.gather(1, values), token_mass(mass, values).log_())
    return log_probs.scatter_(1, values, mixed)  # equal places get equal values, so the order does not matter
