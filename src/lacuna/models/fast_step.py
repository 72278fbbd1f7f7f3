"""A decoder of our own for the families whose layers are built like BART's: Marian, FSMT, BART, mBART, M2M100.

Reads the weights from a model of transformers and brings them into the form that stepping wants. Knows nothing of what
was decoded so far, nor of encoders, projections or scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import (
    BartConfig,
    FSMTConfig,
    M2M100Config,
    MarianConfig,
    MBartConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

from lacuna.models.linears import join_linears


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the families differ.

    :param first_position: Finds the row of the table of positions that belongs to the first token.
    :param norm_first: Whether a layer normalizes what it reads (and the decoder its output) rather than what it writes.
    :param scale_outside: Whether the decoder, not the embedding itself, scales embeddings.
    """

    first_position: Callable[[Any], int]
    norm_first: bool = False
    norm_embedding: bool = False
    scale_outside: bool = False


LAYOUTS: dict[type[PreTrainedConfig], Layout] = {
    MarianConfig: Layout(lambda decoder: 0, scale_outside=True),
    FSMTConfig: Layout(lambda decoder: decoder.padding_idx + 1, scale_outside=True),
    BartConfig: Layout(lambda decoder: decoder.embed_positions.offset, norm_embedding=True),
    MBartConfig: Layout(lambda decoder: decoder.embed_positions.offset, norm_first=True, norm_embedding=True),
    M2M100Config: Layout(lambda decoder: decoder.padding_idx + 1, norm_first=True),
}


class _Norm:
    __slots__ = ("_bias", "_eps", "_shape", "_weight")

    def __init__(self, module: nn.LayerNorm) -> None:
        self._weight, self._bias, self._eps = module.weight, module.bias, module.eps
        self._shape = module.normalized_shape

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self._shape, self._weight, self._bias, self._eps)


class _OwnAttention:
    """Attention to what was written so far: query, key and value of a token come from one product."""

    __slots__ = ("heads", "out", "query_key_value")

    def __init__(self, module: Any, int8: bool) -> None:  # noqa: ANN401 - one of five classes that share their names
        self.heads: int = module.num_heads
        self.query_key_value = join_linears(module.q_proj, module.k_proj, module.v_proj, int8=int8)
        self.out = join_linears(module.out_proj, int8=int8)


class _SourceAttention:
    """Attention to the source, whose keys and values are made once."""

    __slots__ = ("heads", "key_value", "out", "query")

    def __init__(self, module: Any, int8: bool) -> None:  # noqa: ANN401 - one of five classes that share their names
        self.heads: int = module.num_heads
        self.query = join_linears(module.q_proj, int8=int8)
        self.key_value = join_linears(module.k_proj, module.v_proj, int8=int8)
        self.out = join_linears(module.out_proj, int8=int8)


class _Layer:
    __slots__ = ("activation", "cross", "fc1", "fc2", "norms", "own")

    def __init__(self, module: Any, int8: bool) -> None:  # noqa: ANN401 - one of five classes that share their names
        self.own, self.cross = _OwnAttention(module.self_attn, int8), _SourceAttention(module.encoder_attn, int8)
        self.fc1, self.fc2 = join_linears(module.fc1, int8=int8), join_linears(module.fc2, int8=int8)
        self.activation = module.activation_fn
        norms = (module.self_attn_layer_norm, module.encoder_attn_layer_norm, module.final_layer_norm)
        self.norms = tuple(_Norm(norm) for norm in norms)


class FastDecoder:
    """The weights of a decoder, ready for stepping; shared by all searches with its model."""

    def __init__(self, hf: PreTrainedModel, layout: Layout, int8: bool = False) -> None:
        decoder = hf.model.decoder
        self.layers = [_Layer(layer, int8) for layer in decoder.layers]
        self.norm_first = layout.norm_first
        self._decoder = decoder
        self._first_position = layout.first_position(decoder)
        self._scale: float = decoder.embed_scale if layout.scale_outside else 1.0
        self._embedding_norm = _Norm(decoder.layernorm_embedding) if layout.norm_embedding else None
        self.final_norm = _Norm(decoder.layer_norm) if layout.norm_first else None

    @classmethod
    def fitting(cls, hf: PreTrainedModel, *, int8: bool = False) -> FastDecoder | None:
        """Prepare a model's decoder, or give ``None`` where only transformers itself can run it.

        :param int8: With 8-bit weights.
        """
        layout = LAYOUTS.get(type(hf.config))
        if layout is None:
            return None
        decoder = hf.model.decoder
        # An adapter (LoRA) or a quantizer puts layers of its own in place of plain ones.
        plain = all(_plain(module) for module in decoder.layers.modules())
        # With an odd filler token the table of positions is too short, and transformers makes it grow on the way.
        needed = layout.first_position(decoder) + hf.config.max_position_embeddings
        return cls(hf, layout, int8) if plain and len(_positions(decoder)) >= needed else None

    def embed(self, tokens: torch.Tensor, position: int) -> torch.Tensor:
        """Embed tokens ``(rows,)`` that all stand at one position."""
        where = _positions(self._decoder)[position + self._first_position]
        embedded = self._decoder.embed_tokens(tokens) * self._scale + where
        return embedded if self._embedding_norm is None else self._embedding_norm(embedded)


def _positions(decoder: Any) -> torch.Tensor:  # noqa: ANN401 - one of five classes that share their names
    """Find the table of positions; M2M100 keeps it in a buffer, under another name."""
    table = decoder.embed_positions
    positions: torch.Tensor = table.weights if hasattr(table, "weights") else table.weight
    return positions


def _plain(module: nn.Module) -> bool:
    """Tell whether a module computes what its name says: no subclass stands in for a linear layer or a norm."""
    for kind in (nn.Linear, nn.LayerNorm):
        if isinstance(module, kind):
            return type(module) is kind
    return not hasattr(module, "weight")
