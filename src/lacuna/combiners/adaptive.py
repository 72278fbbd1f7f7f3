"""Adaptive kNN-MT (Zheng et al., 2021): a small network decides for each query how many neighbors to listen to.

The network is that of the original code: one for everything, where a later re-implementation has one for the number of
neighbors and another for the weight. Two things are mended: a token with id 0 counts as a value like any other, and
neighbors beyond a choice get no weight at all (multiplying their distances by 1000 gives them some at distance 0).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from lacuna.combiners.base import Neighbors, Weighing, distinct_counts, kernel_weights
from lacuna.errors import SettingError

_HIDDEN = 32
# How large the first weights are: distances are large numbers, counts small ones.
_DISTANCE_GAIN, _COUNT_GAIN = 0.01, 0.1


@dataclass(frozen=True, eq=False)
class Adaptive:
    """Chooses between 0, 1, 2, 4, ..., k neighbors, each with a probability; masses are the mean over the choices.

    The knn_weight of a query is 1 less the probability of choosing 0. A new one has random weights, from torch's
    generator; :func:`~lacuna.fitting.fit_adaptive` learns better ones.

    :param k: Neighbors per query, a power of 2.
    :param temperature: Divides squared distances; the same for all choices.
    :param network: From :meth:`features` to the logits of the choices.
    """

    k: int = 8
    temperature: float = 10.0
    network: nn.Sequential = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.k < 1 or self.k & (self.k - 1):
            raise SettingError(f"k: got {self.k}; adaptive needs a power of 2: 1, 2, 4, 8, 16, ...")
        if not 0 < self.temperature < float("inf"):
            raise SettingError(f"temperature: got {self.temperature}; allowed is more than 0")
        object.__setattr__(self, "network", _make_network(self.k))

    @property
    def choices(self) -> tuple[int, ...]:
        """How many neighbors it may choose, beside none."""
        return tuple(1 << power for power in range(self.k.bit_length()))

    def mass(self, found: Neighbors) -> torch.Tensor:
        """Return the mass of each neighbor; a query without neighbors gets none."""
        with torch.no_grad():
            return self.weigh(self.features(found), self.kernels(found)).mass

    def features(self, found: Neighbors) -> torch.Tensor:
        """Return what the network sees: k distances, and how many different values there are up to each neighbor.

        A missing neighbor is as far away as the farthest that is there, and adds no value: (queries, 2 k).
        """
        near = found.distances.masked_fill(found.values < 0, 0.0)
        distances = torch.where(found.values < 0, near.amax(1, keepdim=True), near)
        return torch.cat([distances, distinct_counts(found.values).to(distances.dtype)], dim=1)

    def kernels(self, found: Neighbors) -> torch.Tensor:
        """Return the weights that neighbors have if 1, 2, 4, ..., k are chosen: (queries, choices, k).

        Nothing here is learned, so fitting computes it once.
        """
        scores = -found.distances / self.temperature
        places = torch.arange(self.k, device=scores.device)
        limits = torch.tensor(self.choices, device=scores.device)
        beyond = places >= limits[:, None]  # (choices, k)
        return kernel_weights(found, scores, beyond)

    def weigh(self, features: torch.Tensor, kernels: torch.Tensor) -> Weighing:
        """Share the distribution out, given what is fixed for each query."""
        if self.network[0].weight.device != features.device:  # asking is far cheaper than moving to where it is
            self.network.to(features.device)
        log_p = self.network(features).log_softmax(-1)
        nobody = kernels[:, 0, 0] == 0  # if there is a neighbor at all, the first has the whole weight of choice 1
        mass = torch.bmm(log_p[:, None, 1:].exp(), kernels)[:, 0]
        return Weighing(log_p[:, 0].masked_fill(nobody, 0.0), mass)


def _make_network(k: int) -> nn.Sequential:
    """Return the network with the original's first weights: 2 k numbers in, a logit for each choice out."""
    first, last = nn.Linear(2 * k, _HIDDEN), nn.Linear(_HIDDEN, 1 + k.bit_length())
    with torch.no_grad():
        nn.init.xavier_normal_(first.weight[:, :k], gain=_DISTANCE_GAIN)
        nn.init.xavier_normal_(first.weight[:, k:], gain=_COUNT_GAIN)
    return nn.Sequential(first, nn.Tanh(), last)
