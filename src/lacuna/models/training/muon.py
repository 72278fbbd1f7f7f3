"""Muon: momentum whose update of every matrix is replaced by the nearest orthogonal one (Jordan et al., 2024).

torch has this optimizer too, but iterates in bfloat16, which is many times slower than float32 on a CPU without
bfloat16 arithmetic; and one matrix at a time, where matrices of equal shape can share batched products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

# The quintic whose iteration drives singular values towards 1 (near it, not exactly there) in five rounds.
_A, _B, _C = 3.4445, -4.7750, 2.0315
_ROUNDS = 5


def orthogonalize(matrices: torch.Tensor) -> torch.Tensor:
    """Return matrices with the same singular vectors and singular values near 1: (n, rows, columns)."""
    tall = matrices.shape[1] > matrices.shape[2]
    turned = matrices.mT if tall else matrices
    turned = turned / (turned.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_ROUNDS):
        gram = turned @ turned.mT
        turned = torch.baddbmm(turned, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), turned, beta=_A)
    return turned.mT if tall else turned


class Muon(Optimizer):
    """Nesterov momentum, orthogonalized, and scaled so that Adam's learning rates fit (Liu et al., 2025).

    :param params: Matrices only.
    :param momentum: The share of the running gradient that is kept at each step.
    :param weight_decay: Decoupled, as in AdamW.
    """

    def __init__(
        self, params: Iterable[torch.Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take one step from the gradients that are there."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[torch.Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    by_shape.setdefault(weight.shape, []).append(weight)
            for weights in by_shape.values():
                self._step_alike(weights, group)

    def _step_alike(self, weights: list[torch.Tensor], group: dict[str, Any]) -> None:
        directions = []
        for weight in weights:
            running = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
            running.lerp_(weight.grad, 1 - group["momentum"])
            directions.append(torch.lerp(weight.grad, running, group["momentum"]))  # type: ignore[arg-type]
        updates = orthogonalize(torch.stack(directions))
        # An orthogonal m x n matrix has entries of size 1 / sqrt(max(m, n)); Adam's updates are about 0.2.
        scale = 0.2 * math.sqrt(max(weights[0].shape))
        for weight, update in zip(weights, updates, strict=True):
            weight.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"] * scale)
