"""Linear layers made for stepping: the same product in the form that is quickest for few rows and fixed weights.

Three forms: the weights as they are; packed once for oneDNN, which pays for a projection onto a vocabulary on a CPU;
and 8-bit integers, which are quicker still but round. Knows nothing of what a layer is for.
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

# Below so many outputs, packing at every call costs next to nothing.
_WORTH_PACKING = 4096
_LARGEST_CODE = 127


def make_linear(weight: torch.Tensor, bias: torch.Tensor | None, *, int8: bool = False) -> Linear:
    """Give the quickest form of ``x @ weight.T + bias`` for ``(rows, inputs)``.

    :param weight: (outputs, inputs).
    :param int8: Round the weights to 8 bits, and each call's inputs as well; on a CPU only.
    """
    if int8 and not can_use_int8():
        raise ModelError("int8: this build of torch has no 8-bit layers; leave int8 out, or use torch 2.13")
    on_cpu = weight.device.type == "cpu" and weight.dtype == torch.float32
    if on_cpu and int8:
        return _Int8(weight, bias)
    if on_cpu and len(weight) >= _WORTH_PACKING and _can_pack():
        return _Packed(weight, bias)
    return _Plain(weight, bias)


def join_linears(*modules: nn.Linear, int8: bool = False) -> Linear:
    """Give layers that read the same input as one; their outputs stand side by side."""
    if len(modules) == 1:
        return make_linear(modules[0].weight, modules[0].bias, int8=int8)
    weight = torch.cat([module.weight for module in modules])
    biases: list[torch.Tensor] = [
        module.weight.new_zeros(module.out_features) if module.bias is None else module.bias for module in modules
    ]
    return make_linear(weight, torch.cat(biases), int8=int8)


def with_int8_layers(module: nn.Module) -> nn.Module:
    """Copy a module, with 8-bit layers in place of its linear ones; what is no such layer is shared with it."""
    shared = {id(part): part for part in (*module.parameters(), *module.buffers())}
    copied = copy.deepcopy(module, shared)  # what the memo holds is not copied
    for parent in list(copied.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, Int8Linear(child))
    return copied


class Int8Linear(nn.Module):
    """Stands in for a linear layer inside a module of transformers."""

    def __init__(self, module: nn.Linear) -> None:
        super().__init__()
        self._linear = _Int8(module.weight, module.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        return self._linear(x)


class _Plain:
    """The parameters as they are; reading them from modules at every step would cost more than small products."""

    __slots__ = ("_bias", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self._weight, self._bias)


class _Packed:
    """Weights in the layout that oneDNN multiplies with; plain products bring them into it at every call."""

    __slots__ = ("_bias", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight, self._bias = torch.ops.mkldnn._reorder_linear_weight(weight.detach()), bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return product


class _Int8:
    """Each output's weights on a grid of 255 numbers of their own; inputs on a grid found at every call."""

    __slots__ = ("_packed",)

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        exact = weight.detach().float().contiguous()
        scales = (exact.abs().amax(1) / _LARGEST_CODE).clamp(min=torch.finfo(torch.float32).tiny)
        zeros = torch.zeros(len(exact), dtype=torch.long)
        with warnings.catch_warnings():  # these are to go from torch, which has nothing as quick in their place yet
            warnings.simplefilter("ignore", UserWarning)
            codes = torch.quantize_per_channel(exact, scales.double(), zeros, 0, torch.qint8)
        self._packed: Any = torch.ops.quantized.linear_prepack(codes, None if bias is None else bias.detach().float())

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        # Half the range of the inputs: without it, sums of 16 bits may overflow on processors that lack VNNI.
        product: torch.Tensor = torch.ops.quantized.linear_dynamic(x, self._packed, True)
        return product


def can_use_int8() -> bool:
    """Tell whether this build of torch has 8-bit layers."""
    return hasattr(torch, "quantize_per_channel") and hasattr(torch.ops.quantized, "linear_dynamic")


def _can_pack() -> bool:
    """Tell whether this build of torch has what packing needs; it is not part of torch's promises."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
