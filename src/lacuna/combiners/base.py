"""The interface of combiners, and the tensor operations on neighbors that they share.

Token 0 is a token like any other; only -1 stands for a missing neighbor. Knows nothing of models, stores and indexes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass
from functools import cache
from typing import Any, ClassVar, Protocol

import torch
from torch import nn

from lacuna.errors import SettingError


def first_ranks(values: torch.Tensor) -> torch.Tensor:
    """Return for each neighbor the rank, from 0, of the nearest one with the same value: (queries, k)."""
    same = values[:, :, None] == values[:, None, :]  # (queries, k, k)
    return same.byte().argmax(-1)  # of equal maxima, argmax is documented to return the first


def distinct_counts(values: torch.Tensor) -> torch.Tensor:
    """Return the number of distinct values among the first 1, 2, ..., k neighbors: (queries, k)."""
    k = values.shape[1]
    same = values[:, :, None] == values[:, None, :]  # (queries, k, k)
    repeated = same.logical_and_(_earlier(k, values.device)).any(-1)
    return repeated.logical_or_(values < 0).logical_not_().cumsum(1)


@cache
def _earlier(k: int, device: torch.device) -> torch.Tensor:
    """Return for each rank which ranks are before it: (k, k)."""
    with torch.inference_mode(False):  # the first caller may be decoding, and a later one fitting
        return torch.ones(k, k, dtype=torch.bool, device=device).tril(-1)


def has_missing(values: torch.Tensor) -> bool:
    """Return whether a neighbor of any query is missing. Missing ones are last, so one column tells."""
    return bool((values[:, -1] < 0).any())


def _no_keys() -> torch.Tensor:
    raise LookupError("these neighbors were found without their keys")


@dataclass(frozen=True, eq=False, slots=True)
class Neighbors:
    """Neighbors of a batch of queries, nearest first.

    :param distances: Squared L2, ascending; infinite for a missing neighbor: (queries, k).
    :param values: Values of the neighbors; -1 for a missing one: (queries, k).
    :param log_weights: Log of the number of entries that each neighbor stands for, 0 for a missing one; ``None`` if no
        entries were merged: (queries, k).
    :param queries: The queries themselves: (queries, dimension).
    :param read_keys: Reads the neighbors' keys, zeros for a missing one, for combiners that need more than distances:
        (queries, k, dimension).
    """

    distances: torch.Tensor
    values: torch.Tensor
    log_weights: torch.Tensor | None = None
    queries: torch.Tensor | None = None
    read_keys: Callable[[], torch.Tensor] = _no_keys


class Combiner(Protocol):
    """Turns neighbors into masses."""

    @property
    def k(self) -> int:
        """Number of neighbors per query."""

    def mass(self, neighbors: Neighbors) -> torch.Tensor:
        """Return the mass of each neighbor, 0 for a missing one: (queries, k)."""


class SavableCombiner(Combiner, Protocol):
    """A combiner that can be saved: a frozen dataclass whose init fields are its settings.

    :cvar name: Its name in :data:`lacuna.combiners.COMBINERS`.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    name: ClassVar[str]

    @property
    def network(self) -> nn.Module | None:
        """The network whose weights are learned; ``None`` for a combiner that is settings only."""


def check_kernel_settings(k: int, knn_weight: float, temperature: float) -> None:
    """Refuse settings of a softmax over negative distances that are out of range."""
    if k < 1:
        raise SettingError(f"k: got {k}; allowed is 1 or more")
    if not 0 <= knn_weight <= 1:
        raise SettingError(f"knn_weight: got {knn_weight}; allowed is 0 (model only) to 1 (memory only)")
    if not temperature > 0:
        raise SettingError(f"temperature: got {temperature}; allowed is more than 0")


def kernel_weights(neighbors: Neighbors, scores: torch.Tensor, barred: torch.Tensor | None = None) -> torch.Tensor:
    """Return the softmax of the neighbors' scores, weighted by the entries that each stands for: (queries, k).

    A query without neighbors gets zeros.

    :param barred: Masks of neighbors to leave out, (choices, k); the result is then (queries, choices, k).
    """
    if neighbors.log_weights is not None:
        scores = scores + neighbors.log_weights
    present = scores.masked_fill(neighbors.values < 0, -torch.inf)
    if barred is not None:
        present = present[:, None, :].masked_fill(barred, -torch.inf)
    return torch.softmax(present, dim=-1).nan_to_num(nan=0.0)
