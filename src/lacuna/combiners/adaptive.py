"""Adaptive kNN-MT (Zheng et al., 2021): a small network chooses the number of neighbors for each query.

:mod:`lacuna.fitting.adaptive` trains it. The network is that of the original code: a single one, where a later
re-implementation has one for the number of neighbors and another for the weight. Two defects of the original are fixed.
A token with id 0 counts as a value like any other. Neighbors beyond a choice get no weight at all; the original
multiplies their distances by 1000, which leaves them some weight at distance 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import torch
from torch import nn

from lacuna.combiners.base import Neighbors, distinct_counts, has_missing, kernel_weights
from lacuna.combiners.interpolation import Weighing
from lacuna.errors import SettingError

_HIDDEN = 32
# Gains of the initial weights: distances are large numbers, counts small ones.
_DISTANCE_GAIN, _COUNT_GAIN = 0.01, 0.1


@dataclass(frozen=True, eq=False)
class Adaptive:
    """Assigns a probability to using 0, 1, 2, 4, ..., k neighbors; masses are the expectation over these choices.

    The knn_weight of a query is 1 minus the probability of choosing 0. A new combiner has random weights, drawn from
    torch's global generator.

    :param k: Neighbors per query, a power of 2.
    :param temperature: Divides squared distances; the same for all choices.
    :param network: Maps :meth:`features` to the logits of the choices.
    """

    name: ClassVar[str] = "adaptive"
    k: int = 8
    temperature: float = 10.0
    network: nn.Sequential = field(init=False, repr=False)
    _layers: tuple[nn.Linear, nn.Linear] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.k < 1 or self.k & (self.k - 1):
            raise SettingError(f"k: got {self.k}; adaptive needs a power of 2: 1, 2, 4, 8, 16, ...")
        if not 0 < self.temperature < float("inf"):
            raise SettingError(f"temperature: got {self.temperature}; allowed is more than 0")
        first, last = _make_layers(self.k)
        object.__setattr__(self, "network", nn.Sequential(first, nn.Tanh(), last))
        object.__setattr__(self, "_layers", (first, last))

    @property
    def choices(self) -> tuple[int, ...]:
        """Numbers of neighbors to choose from, besides 0."""
        return tuple(1 << power for power in range(self.k.bit_length()))

    def mass(self, neighbors: Neighbors) -> torch.Tensor:
        """Return the mass of each neighbor; a query without neighbors gets zeros.

        These are the masses of :meth:`weigh` without the kernels of all choices, since every decoding step waits for
        them. The kernels of a query only differ in their sums: a choice divides the same weights by the sum of those it
        uses.
        """
        with torch.no_grad():
            scores = neighbors.distances / -self.temperature
            if neighbors.log_weights is not None:
                scores += neighbors.log_weights
            weights = scores.sub_(scores.amax(1, keepdim=True)).exp_()
            sums = weights.cumsum(1).index_select(1, _last_ranks(self.k, weights.device))
            p = self._logits(self.features(neighbors)).softmax(1)[:, 1:]
            mass = (p / sums).mm(_used_ranks(self.k, p.device, p.dtype)).mul_(weights)
            # Without any neighbor all scores are minus infinity, and weights are NaN.
            return mass.nan_to_num_(nan=0.0)

    def features(self, neighbors: Neighbors) -> torch.Tensor:
        """Return the input of the network: k distances, and the number of distinct values up to each neighbor.

        A missing neighbor has the distance of the farthest one found and adds no value: (queries, 2 k).
        """
        distances = neighbors.distances
        if has_missing(neighbors.values):
            near = distances.masked_fill(neighbors.values < 0, 0.0)
            distances = torch.where(neighbors.values < 0, near.amax(1, keepdim=True), near)
        return torch.cat([distances, distinct_counts(neighbors.values).to(distances.dtype)], dim=1)

    def kernels(self, neighbors: Neighbors) -> torch.Tensor:
        """Return the weights of the neighbors for each choice 1, 2, 4, ..., k: (queries, choices, k).

        They do not depend on the network, so fitting computes them once.
        """
        scores = -neighbors.distances / self.temperature
        return kernel_weights(neighbors, scores, _used_ranks(self.k, scores.device, torch.bool).logical_not())

    def weigh(self, features: torch.Tensor, kernels: torch.Tensor) -> Weighing:
        """Return the shares of model and neighbors, from features and kernels of each query."""
        log_p = self._logits(features).log_softmax(-1)
        is_empty = kernels[:, 0, 0] == 0  # otherwise the first neighbor has all the weight of choice 1
        mass = torch.bmm(log_p[:, None, 1:].exp(), kernels)[:, 0]
        return Weighing(log_p[:, 0].masked_fill(is_empty, 0.0), mass)

    def _logits(self, features: torch.Tensor) -> torch.Tensor:
        """Return the logits of choosing 0, 1, 2, 4, ..., k neighbors: (queries, 1 + choices)."""
        first, last = self._layers
        if first.weight.device != features.device:  # the check is far cheaper than a move to the same device
            self.network.to(features.device)
        # Calling the modules would take longer than the arithmetic of a decoding step.
        hidden = torch.addmm(first.bias, features, first.weight.T).tanh_()
        return torch.addmm(last.bias, hidden, last.weight.T)


@cache
def _last_ranks(k: int, device: torch.device) -> torch.Tensor:
    """Return the rank of the farthest neighbor that each choice 1, 2, 4, ..., k uses: (choices,)."""
    with torch.inference_mode(False):  # the first caller may be decoding, and a later one fitting
        return (1 << torch.arange(k.bit_length(), device=device)) - 1


@cache
def _used_ranks(k: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return 1 for the ranks that each choice 1, 2, 4, ..., k uses, 0 for the others: (choices, k)."""
    last = _last_ranks(k, device)
    with torch.inference_mode(False):
        return (torch.arange(k, device=device) <= last[:, None]).to(dtype)


def _make_layers(k: int) -> tuple[nn.Linear, nn.Linear]:
    """Return the layers with the initialization of the original: 2 k features in, a logit for each choice out."""
    first, last = nn.Linear(2 * k, _HIDDEN), nn.Linear(_HIDDEN, 1 + k.bit_length())
    with torch.no_grad():
        nn.init.xavier_normal_(first.weight[:, :k], gain=_DISTANCE_GAIN)
        nn.init.xavier_normal_(first.weight[:, k:], gain=_COUNT_GAIN)
    return first, last
