"""Linear layers for decoding: the same product in the form that is fastest for few rows and fixed weights.

Three forms: plain weights; weights packed once for oneDNN, two to three times as fast for a few rows on a CPU; and int8
weights, which are faster still but rounded.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from lacuna.errors import ModelError

Linear = Callable[[torch.Tensor], torch.Tensor]

# With fewer weights, a plain product is as fast.
_WORTH_PACKING = 2**14
_MAX_CODE = 127


def make_linear(weight: torch.Tensor, bias: torch.Tensor | None, *, int8: bool = False) -> Linear:
    """Return the fastest form of ``x @ weight.T + bias`` for inputs ``(rows, inputs)``.

    :param weight: (outputs, inputs).
    :param int8: Round weights and inputs to 8 bits; on a CPU only.
    """
    if int8 and not can_use_int8():
        raise ModelError("int8: this build of torch has no int8 layers; leave int8 out, or use torch 2.13")
    on_cpu = weight.device.type == "cpu" and weight.dtype == torch.float32
    if on_cpu and int8:
        return _Int8(weight, bias)
    if on_cpu and weight.numel() >= _WORTH_PACKING and _can_pack():
        return _Packed(weight, bias)
    return _Plain(weight, bias)


def join_linears(*modules: nn.Linear, int8: bool = False) -> Linear:
    """Fuse layers with the same input into one; its output is the concatenation of theirs."""
    if len(modules) == 1:
        return make_linear(modules[0].weight, modules[0].bias, int8=int8)
    return make_linear(*joined_weights(*modules), int8=int8)


def joined_weights(*modules: nn.Linear) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weight and bias of a layer whose output is the concatenation of those of other layers."""
    biases: list[torch.Tensor] = [
        module.weight.new_zeros(module.out_features) if module.bias is None else module.bias for module in modules
    ]
    return torch.cat([module.weight for module in modules]), torch.cat(biases)


def with_fast_linears(module: nn.Module, *, int8: bool = False, leave_out: torch.Tensor | None = None) -> nn.Module:
    """Copy a module with each linear layer in its fastest form; all other weights are shared.

    :param leave_out: The weight of a layer that is not replaced.
    """
    shared = {id(part): part for part in (*module.parameters(), *module.buffers())}
    copied = copy.deepcopy(module, shared)  # deepcopy does not copy what its memo holds
    for parent in list(copied.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and child.weight is not leave_out:
                setattr(parent, name, FastLinear(child, int8=int8))
    return copied


class FastLinear(nn.Module):
    """Replacement of a linear layer inside a module of transformers, for inference only."""

    def __init__(self, module: nn.Linear, *, int8: bool) -> None:
        super().__init__()
        self.weight, self.bias = module.weight, module.bias  # T5 looks at the type of the weight
        self._linear = make_linear(module.weight, module.bias, int8=int8)

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


class _Int8:
    """Int8 weights with one scale per output; inputs are quantized dynamically at every call."""

    __slots__ = ("_packed",)

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        exact = weight.detach().float().contiguous()
        scales = (exact.abs().amax(1) / _MAX_CODE).clamp(min=torch.finfo(torch.float32).tiny)
        zeros = torch.zeros(len(exact), dtype=torch.long)
        with warnings.catch_warnings():  # deprecated in torch, which has no replacement as fast yet
            warnings.simplefilter("ignore", UserWarning)
            codes = torch.quantize_per_channel(exact, scales.double(), zeros, 0, torch.qint8)
        self._packed: Any = torch.ops.quantized.linear_prepack(codes, None if bias is None else bias.detach().float())

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        # reduce_range: without it, 16-bit sums may overflow on processors without VNNI.
        product: torch.Tensor = torch.ops.quantized.linear_dynamic(x, self._packed, True)
        return product


def can_use_int8() -> bool:
    """Return whether this build of torch has int8 layers."""
    return hasattr(torch, "quantize_per_channel") and hasattr(torch.ops.quantized, "linear_dynamic")


def _can_pack() -> bool:
    """Return whether this build of torch can pack weights; the function is not part of its public API."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
