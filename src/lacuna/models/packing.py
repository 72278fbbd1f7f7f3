"""The forward pass on a CPU with packed weights: each matrix is converted to oneDNN's layout once, not at every call.

A copy of the encoder and the decoder shares all weights and adds the packed ones. Knows nothing of what the layers
compute, and nothing of batches.
"""

from __future__ import annotations

import copy
from typing import TypeGuard

import torch
from torch import nn
from transformers import PreTrainedModel

from lacuna.models.linears import _can_pack

# Packed weights take as much memory as the plain ones. Beyond this size (in bytes) they would be too much of it.
_MAX_PACKED = 2**30


class PackedLinear(nn.Module):
    """Replacement of a linear layer inside a module of transformers, for inference only."""

    def __init__(self, module: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = module.weight, module.bias  # T5 looks at the type of the weight
        self._packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(module.weight.detach())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the layer."""
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
        return product


def with_packed_layers(hf: PreTrainedModel, projection: torch.Tensor) -> PreTrainedModel:
    """Copy a model with its linear layers packed; return the model itself where packing is not possible or too large.

    :param projection: Weight of the output projection, which is not packed.
    """
    layers: list[nn.Linear] = [child for child in hf.modules() if _is_packable(child, projection)]
    size = sum(layer.weight.nbytes for layer in layers)
    if not layers or not _can_pack() or size > _MAX_PACKED:
        return hf
    shared = {id(part): part for part in (*hf.parameters(), *hf.buffers())}
    copied = copy.deepcopy(hf, shared)  # deepcopy does not copy what its memo holds
    for parent in list(copied.modules()):
        for name, child in list(parent.named_children()):
            if _is_packable(child, projection):
                setattr(parent, name, PackedLinear(child))
    return copied


def _is_packable(module: nn.Module, projection: torch.Tensor) -> TypeGuard[nn.Linear]:
    return (
        type(module) is nn.Linear
        and module.weight is not projection
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.float32
    )
