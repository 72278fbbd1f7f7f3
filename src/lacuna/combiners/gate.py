"""A gate decides, before any search, whether the memories would have something to say about a query that matters.

It looks at what costs next to nothing. First, how far an unfinished translation is behind the best of its sentence:
those far behind hardly ever win, whatever the memories say of them. Then how sure the model is, and in which region of
the keys the query lies: how far from its center, how large the margins of the entries there are, and how many of them
the model does not know. From these a small network foretells the gain of a search: how much more probable the right
token would become. Where that is below the threshold, no search is made, and the model's word stands. Knows nothing of
stores or of search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

_HIDDEN = 16
# What keeps the logarithm of a doubt finite where the model has none.
_LEAST_DOUBT = 1e-4
FEATURES = ("log p", "log doubt", "distance", "margin", "unknown")


class Regions(NamedTuple):
    """Where the keys of the memories lie.

    :param centers: (regions, dimension).
    :param traits: Of the entries of each: the mean of log(1 + margin), and the share that the model does not know:
        (regions, 2).
    """

    centers: torch.Tensor
    traits: torch.Tensor

    def describe(self, keys: torch.Tensor) -> torch.Tensor:
        """Give the distance from the nearest center, and that region's traits: (rows, 3)."""
        # |k - c|^2 without |k|^2 has the same nearest center, and needs one product.
        products = torch.addmm(self.centers.square().sum(1), keys, self.centers.T, alpha=-2)
        nearest, place = products.min(1)
        distances = (nearest + keys.square().sum(1)).clamp(min=0).sqrt()
        return torch.cat([distances[:, None], self.traits[place]], dim=1)


@dataclass(frozen=True, eq=False)
class Gate:
    """Tells which queries are worth a search.

    :param network: From normalized features to the foretold gain, in nats.
    :param mean: Of the features, where it was fitted: (features,).
    :param spread: Their standard deviation: (features,).
    :param threshold: The least gain that is worth a search; at minus infinity the network is not asked.
    :param reach: The most nats that a translation may be behind to be worth a search.
    """

    regions: Regions
    network: nn.Sequential
    mean: torch.Tensor
    spread: torch.Tensor
    threshold: float = -torch.inf
    reach: float = torch.inf

    def features(self, keys: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
        """Give what the network sees, not normalized; see :data:`FEATURES`.

        :param keys: (rows, dimension).
        :param log_probs: Of the model: (rows, vocabulary).
        """
        return gate_features(self.regions, keys, log_probs.amax(1))

    def gains(self, features: torch.Tensor) -> torch.Tensor:
        """Foretell the gain of a search: (rows,)."""
        foretold: torch.Tensor = self.network((features - self.mean) / self.spread)
        return foretold[:, 0]

    @torch.inference_mode()
    def wants(self, keys: torch.Tensor, log_probs: torch.Tensor, behind: torch.Tensor | None = None) -> torch.Tensor:
        """Tell which rows are worth a search: (rows,).

        :param behind: How much less probable each translation is than the best of its sentence, in nats; without it,
            none is behind: (rows,).
        """
        near = keys.new_ones(len(keys), dtype=torch.bool) if behind is None else behind <= self.reach
        if self.threshold == -torch.inf:
            return near
        keys = keys.to(self.mean)
        gains = self.gains(self.features(keys, log_probs.to(self.mean.device)))
        return near & (gains >= self.threshold).to(near.device)


def gate_features(regions: Regions, keys: torch.Tensor, log_p_best: torch.Tensor) -> torch.Tensor:
    """Put the features of some queries side by side.

    :param log_p_best: Log-probability of the model's own choice: (rows,).
    """
    doubt = (1 - log_p_best.exp()).clamp(min=_LEAST_DOUBT).log()
    return torch.cat([log_p_best[:, None], doubt[:, None], regions.describe(keys)], dim=1)


def make_gate_network() -> nn.Sequential:
    """Return the network with fresh weights, from torch's generator."""
    return nn.Sequential(nn.Linear(len(FEATURES), _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, 1))
