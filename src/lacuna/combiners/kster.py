"""KSTER (Jiang et al., 2021): kernel smoothing with a learned bandwidth and a learned weight.

:mod:`lacuna.fitting.kster` trains it. It uses the neighbors' keys as well as their distances, so it reads k keys for
every query.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from lacuna.combiners.base import Neighbors, kernel_weights
from lacuna.combiners.interpolation import Weighing
from lacuna.errors import SettingError

# Initial bandwidth of each kernel. It divides squared distances in the Gaussian, and distances in the Laplacian.
BANDWIDTHS = {"laplacian": 10.0, "gaussian": 100.0}


@dataclass(frozen=True, eq=False)
class Kster:
    """Weights neighbors by ``softmax(-distance / bandwidth)``; networks compute bandwidth and knn_weight.

    Their input is the query and a mean of the neighbors' keys. A new combiner has random weights, drawn from torch's
    global generator.

    :param dimension: Dimension of the keys.
    :param k: Neighbors per query.
    :param kernel: ``laplacian`` (of distances) or ``gaussian`` (of squared distances).
    """

    name: ClassVar[str] = "kster"
    dimension: int
    k: int = 16
    kernel: str = "laplacian"
    network: KsterNetwork = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SettingError(f"k: got {self.k}; allowed is 1 or more")
        if self.dimension < 1:
            raise SettingError(f"dimension: got {self.dimension}; allowed is 1 or more")
        if self.kernel not in BANDWIDTHS:
            raise SettingError(f"kernel: got {self.kernel!r}; allowed: {', '.join(BANDWIDTHS)}")
        object.__setattr__(self, "network", KsterNetwork(self.dimension, BANDWIDTHS[self.kernel]))

    def mass(self, neighbors: Neighbors) -> torch.Tensor:
        """Return the mass of each neighbor; a query without neighbors gets zeros."""
        with torch.no_grad():
            return self.weigh(neighbors).mass

    def weigh(self, neighbors: Neighbors) -> Weighing:
        """Return the shares of model and neighbors; needs the queries and reads the keys."""
        if neighbors.queries is None:
            raise LookupError("these neighbors were found without their queries")
        network, keys = self.network.to(neighbors.distances.device), neighbors.read_keys()
        queries, present = neighbors.queries.to(keys.dtype), neighbors.values >= 0
        count = present.sum(1, keepdim=True)
        mean = keys.sum(1) / count.clamp(min=1)  # the key of a missing neighbor is zero
        far = neighbors.distances.masked_fill(~present, 0.0)
        far = far.sqrt() if self.kernel == "laplacian" else far
        weights = kernel_weights(neighbors, -far * torch.exp(-network.log_bandwidth(torch.cat([queries, mean], 1))))
        smooth = torch.einsum("qk,qkd->qd", weights, keys)
        logit = network.knn_logit(torch.cat([queries, smooth], 1))
        log_share = torch.where(count > 0, F.logsigmoid(-logit), 0.0)
        return Weighing(log_share[:, 0], torch.sigmoid(logit) * weights)


class KsterNetwork(nn.Module):
    """The two networks, each from a query and a mean of keys to a scalar: (queries, 2 dimension) to (queries, 1).

    :param bandwidth: Initial bandwidth, by the bias.
    """

    def __init__(self, dimension: int, bandwidth: float) -> None:
        super().__init__()
        self.log_bandwidth = nn.Linear(2 * dimension, 1)
        nn.init.constant_(self.log_bandwidth.bias, math.log(bandwidth))
        self.knn_logit = nn.Sequential(nn.Linear(2 * dimension, dimension), nn.ReLU(), nn.Linear(dimension, 1))
