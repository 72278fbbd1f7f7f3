"""What the values of a query's neighbors have in common: which are the same, and how many different ones there are.

A token id is a token id: 0 counts like any other, and only -1 means that there is no neighbor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch


def first_places(values: torch.Tensor) -> torch.Tensor:
    """Return, for each neighbor, the place of the nearest one with the same value: (queries, k)."""
    same = values[:, :, None] == values[:, None, :]  # (queries, k, k)
    return same.byte().argmax(-1)  # of equal maxima, argmax is documented to return the first


def distinct_counts(values: torch.Tensor) -> torch.Tensor:
    """Return how many different values the first 1, 2, ..., k neighbors have: (queries, k)."""
    places = torch.arange(values.shape[1], device=values.device)
    is_new = (first_places(values) == places) & (values >= 0)
    return is_new.cumsum(1)


class Weighing(NamedTuple):
    """How a final distribution is shared out between the model and the neighbors.

    :param log_model_share: Logarithm of ``1 - knn_weight``, which the masses give only roughly where it is small:
        (queries,).
    :param mass: Of each neighbor: (queries, k).
    """

    log_model_share: torch.Tensor
    mass: torch.Tensor


def _no_keys() -> torch.Tensor:
    raise LookupError("these neighbors were found without their keys")


@dataclass(frozen=True, eq=False, slots=True)
class Neighbors:
    """What was found for a batch of queries, nearest first.

    :param distances: Squared L2, ascending; infinite where there are fewer than k neighbors: (queries, k).
    :param values: The neighbors' tokens; -1 where there is none: (queries, k).
    :param log_weights: Logarithm of how many entries each one stands for, 0 where there is none; ``None`` where each
        stands for itself: (queries, k).
    :param queries: What was searched with: (queries, dimension).
    :param read_keys: Reads the neighbors' keys, zeros where there is none, for combiners that look at more than
        distances: (queries, k, dimension).
    """

    distances: torch.Tensor
    values: torch.Tensor
    log_weights: torch.Tensor | None = None
    queries: torch.Tensor | None = None
    read_keys: Callable[[], torch.Tensor] = _no_keys


class Combiner(Protocol):
    """Turns k neighbors into masses."""

    @property
    def k(self) -> int:
        """Return how many neighbors it wants."""

    def mass(self, found: Neighbors) -> torch.Tensor:
        """Return the mass of each neighbor, 0 where there is none: (queries, k)."""


def kernel_weights(found: Neighbors, scores: torch.Tensor, barred: torch.Tensor | None = None) -> torch.Tensor:
    """Return the softmax of the neighbors' scores, each counted as often as it stands for an entry: (queries, k).

    A query without any neighbor gets zeros.

    :param barred: Several choices of neighbors that are not to count, (choices, k), for as many results at once:
        (queries, choices, k).
    """
    if found.log_weights is not None:
        scores = scores + found.log_weights
    present = scores.masked_fill(found.values < 0, -torch.inf)
    if barred is not None:
        present = present[:, None, :].masked_fill(barred, -torch.inf)
    return torch.softmax(present, dim=-1).nan_to_num(nan=0.0)


def token_mass(mass: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return, for each neighbor, the summed mass of all neighbors with its value: (queries, k)."""
    same = values[:, :, None] == values[:, None, :]  # (queries, k, k)
    return (same * mass[:, None, :]).sum(-1)


def mix_into(log_probs: torch.Tensor, mass: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Mix the neighbors' masses into the model's log-probabilities, in place; touch only the retrieved tokens.

    A mass of zero leaves every bit as it was.

    :param log_probs: Of the model: (queries, vocabulary).
    """
    if not mass.shape[1]:
        return log_probs
    # Rounding may push the sum a hair above 1, and log1p of that is not a number.
    log_probs += torch.log1p(-mass.sum(1, keepdim=True).clamp(max=1.0))
    present = values >= 0
    places = torch.where(
        present, values, values[:, :1].clamp(min=0)
    )  # an absent neighbor rewrites the first one's place
    total = token_mass(torch.where(present, mass, 0.0), places)
    mixed = torch.logaddexp(log_probs.gather(1, places), total.log())
    return log_probs.scatter_(1, places, mixed)  # equal places get equal numbers, so their order does not matter
