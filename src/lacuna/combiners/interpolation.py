"""The interpolation of the model's distribution with that of the neighbors, after Khandelwal et al. (2021).

    p(y | x, y_<t) = knn_weight * p_kNN(y | x, y_<t) + (1 - knn_weight) * p_model(y | x, y_<t)

A combiner gives each neighbor a *mass*: the masses of the neighbors with a value add up to ``knn_weight * p_kNN`` of
that value, and those of all neighbors to ``knn_weight``. There are four forms, by what is asked for: the most probable
tokens (:func:`mix_tokens`), given tokens (:func:`mix_given`), the log-probabilities of retrieved tokens
(:func:`retrieved_gains`), and the probability of one token (:func:`interpolate`, :func:`gold_probability`). Knows
nothing of particular combiners and indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from lacuna.likely_tokens import NextTokens

# From here on log(1 + exp(x)) equals x in float64.
_SOFTPLUS_LINEAR = 50.0

# Which neighbors come before each one, for the largest k that is usual; see mix_tokens.
_EARLIER = np.tri(1024, k=-1, dtype=np.bool_)

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


def mix_tokens(
    best: NextTokens,
    mass: NDArray[np.float32],
    values: NDArray[np.int64],
    log_p_values: NDArray[np.float32],
    banned: Sequence[int] = (),
) -> NextTokens:
    """Interpolate the model's distribution with the neighbors' masses; return as many of its most probable tokens.

    Every token is scaled by the model's share, and only retrieved tokens gain. So the most probable tokens are among
    those of the model and the retrieved ones, and no others are needed. With zero mass no bit changes.

    :param best: The most probable tokens of the model.
    :param mass: Of each neighbor: (queries, k).
    :param values: Token of each neighbor; -1 where there is none: (queries, k).
    :param log_p_values: Log-probabilities that the model gives to them: (queries, k).
    :param banned: Tokens that are left out.
    """
    tokens, log_probs = best
    if not mass.shape[1]:
        return best
    share = _log_model_share(mass)
    is_value = values[:, :, None] == tokens[:, None, :]  # (queries, k, count)
    # A token of both lists has the log-probability of the first, whose last bits may be others.
    place, ranked = is_value.argmax(2), is_value.any(2)
    log_p_model = np.where(ranked, np.take_along_axis(log_probs, place, 1), log_p_values)
    same = values[:, :, None] == values[:, None, :]  # (queries, k, k)
    with np.errstate(divide="ignore"):
        gain = np.log((same * mass[:, None, :]).sum(2, dtype=np.float32))
    mixed = np.logaddexp(log_p_model + share, gain)
    count = same.shape[1]
    earlier = _EARLIER[:count, :count] if count <= len(_EARLIER) else np.tri(count, k=-1, dtype=np.bool_)
    repeated = (same & earlier).any(2)
    mixed[repeated | (values < 0) | np.isin(values, banned)] = -np.inf
    alone = np.where(is_value.any(1), np.float32(-np.inf), log_probs + share)
    every, log_p = np.concatenate([tokens, values], 1), np.concatenate([alone, mixed], 1)
    order = np.lexsort((every, -log_p))[:, : tokens.shape[1]]
    return NextTokens(np.maximum(np.take_along_axis(every, order, 1), 0), np.take_along_axis(log_p, order, 1))


def mix_given(
    tokens: NDArray[np.int64], log_p_model: NDArray[np.float32], mass: NDArray[np.float32], values: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the interpolated log-probabilities of given tokens: (queries, tokens).

    :param tokens: (queries, tokens).
    :param log_p_model: Log-probabilities that the model gives to them: (queries, tokens).
    :param mass: Of each neighbor: (queries, k).
    :param values: Token of each neighbor: (queries, k).
    """
    says = values[:, None, :] == tokens[:, :, None]  # (queries, tokens, k)
    with np.errstate(divide="ignore"):
        gain = np.log((says * mass[:, None, :]).sum(2, dtype=np.float32))
    log_p: NDArray[np.float32] = np.logaddexp(log_p_model + _log_model_share(mass), gain)
    return log_p


def _log_model_share(mass: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the log of the share of the model: (queries, 1)."""
    # Rounding may push the sum slightly above 1, where log1p gives NaN.
    with np.errstate(divide="ignore"):
        share: NDArray[np.float32] = np.log1p(-np.minimum(mass.sum(1, keepdims=True), np.float32(1.0)))
    return share


def token_mass(mass: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return for each neighbor the total mass of all neighbors with its value: (queries, k)."""
    same = values[:, :, None] == values[:, None, :]  # (queries, k, k)
    return (same * mass[:, None, :]).sum(-1)
