"""Linear layers for decoding: the same product in the form that is fastest for few rows and fixed weights.

Two forms: plain weights; and weights packed once for oneDNN, two to three times as fast for a few rows on a CPU.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

Linear = Callable[[torch.Tensor], torch.Tensor]

# With fewer weights, a plain product is as fast.
_WORTH_PACKING = 2**14


def make_linear(weight: torch.Tensor, bias: torch.Tensor | None) -> Linear:
    """Return the fastest form of ``x @ weight.T + bias`` for inputs ``(rows, inputs)``.

    :param weight: (outputs, inputs).
    """
    on_cpu = weight.device.type == "cpu" and weight.dtype == torch.float32
    if on_cpu and weight.numel() >= _WORTH_PACKING and _can_pack():
        return _Packed(weight, bias)
    return _Plain(weight, bias)


def join_linears(*modules: nn.Linear) -> Linear:
    """Fuse layers with the same input into one; its output is the concatenation of theirs."""
    if len(modules) == 1:
        return make_linear(modules[0].weight, modules[0].bias)
    return make_linear(*joined_weights(*modules))


def joined_weights(*modules: nn.Linear) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weight and bias of a layer whose output is the concatenation of those of other layers."""
    biases: list[torch.Tensor] = [
        module.weight.new_zeros(module.out_features) if module.bias is None else module.bias for module in modules
    ]
    return torch.cat([module.weight for module in modules]), torch.cat(biases)


def with_fast_linears(module: nn.Module, *, leave_out: torch.Tensor | None = None) -> nn.Module:
    """Copy a module with each linear layer in its fastest form; all other weights are shared.

    :param leave_out: The weight of a layer that is not replaced.
    """
    shared = {id(part): part for part in (*module.parameters(), *module.buffers())}
    copied = copy.deepcopy(module, shared)  # deepcopy does not copy what its memo holds
    for parent in list(copied.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and child.weight is not leave_out:
                setattr(parent, name, FastLinear(child))
    return copied


class FastLinear(nn.Module):
    """Replacement of a linear layer inside a module of transformers, for inference only."""

    def __init__(self, module: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = module.weight, module.bias  # T5 looks at the type of the weight
        self._linear = make_linear(module.weight, module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the layer."""
        return self._linear(x)


class _Plain:
    """Plain weights, held directly: reading them from a module at every step costs more than a small product."""

    __slots__ = ("_bias", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self._weight, self._bias)


class _Packed:
    """Weights in oneDNN's blocked layout; a plain product converts them at every call."""

    __slots__ = ("_bias", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight, self._bias = torch.ops.mkldnn._reorder_linear_weight(weight.detach()), bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return product


def _can_pack() -> bool:
    """Return whether this build of torch can pack weights; the function is not part of its public API."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
