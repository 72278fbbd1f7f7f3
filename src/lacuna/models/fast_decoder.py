"""A fast decoder with its KV cache, for the families with BART-like layers: Marian, FSMT, BART, mBART, M2M100.

Reads the weights from a model of transformers. Knows nothing of beams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from lacuna.models.linears import join_linears

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class Layout:
    """Differences between the families.

    :param first_position: Returns the row of the position table for the first token.
    :param norm_first: Whether layers normalize their input (pre-norm, with a final norm) instead of their output.
    :param norm_embedding: Whether embeddings are normalized.
    :param scale_outside: Whether the decoder, not the embedding itself, scales embeddings.
    """

    first_position: Callable[[Any], int]
    norm_first: bool = False
    norm_embedding: bool = False
    scale_outside: bool = False


# By ``model_type``.
LAYOUTS: dict[str, Layout] = {
    "marian": Layout(lambda decoder: 0, scale_outside=True),
    "fsmt": Layout(lambda decoder: decoder.padding_idx + 1, scale_outside=True),
    "bart": Layout(lambda decoder: decoder.embed_positions.offset, norm_embedding=True),
    "mbart": Layout(lambda decoder: decoder.embed_positions.offset, norm_first=True, norm_embedding=True),
    "m2m_100": Layout(lambda decoder: decoder.padding_idx + 1, norm_first=True),
}


class _LayerNorm:
    __slots__ = ("_bias", "_eps", "_shape", "_weight")

    def __init__(self, module: nn.LayerNorm) -> None:
        self._weight, self._bias, self._eps = module.weight, module.bias, module.eps
        self._shape = module.normalized_shape

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self._shape, self._weight, self._bias, self._eps)


class _SelfAttention:
    """Self-attention; query, key and value of a token come from one product."""

    __slots__ = ("heads", "out", "query_key_value")

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - one of five classes that share their names
        self.heads: int = module.num_heads
        self.query_key_value = join_linears(module.q_proj, module.k_proj, module.v_proj)
        self.out = join_linears(module.out_proj)


class _CrossAttention:
    """Cross-attention; keys and values of the source are computed once."""

    __slots__ = ("heads", "key_value", "out", "query")

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - one of five classes that share their names
        self.heads: int = module.num_heads
        self.query = join_linears(module.q_proj)
        self.key_value = join_linears(module.k_proj, module.v_proj)
        self.out = join_linears(module.out_proj)


class _DecoderLayer:
    __slots__ = ("activation", "cross", "fc1", "fc2", "norms", "own")

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - one of five classes that share their names
        self.own, self.cross = _SelfAttention(module.self_attn), _CrossAttention(module.encoder_attn)
        self.fc1, self.fc2 = join_linears(module.fc1), join_linears(module.fc2)
        self.activation = module.activation_fn
        norms = (module.self_attn_layer_norm, module.encoder_attn_layer_norm, module.final_layer_norm)
        self.norms = tuple(_LayerNorm(norm) for norm in norms)


class FastDecoder:
    """Prepared weights of a decoder, shared by all searches with its model."""

    def __init__(self, hf: PreTrainedModel, layout: Layout) -> None:
        decoder = hf.model.decoder
        self.layers = [_DecoderLayer(layer) for layer in decoder.layers]
        self.norm_first = layout.norm_first
        self._decoder = decoder
        self._first_position = layout.first_position(decoder)
        self._scale: float = decoder.embed_scale if layout.scale_outside else 1.0
        self._embedding_norm = _LayerNorm(decoder.layernorm_embedding) if layout.norm_embedding else None
        self.final_norm = _LayerNorm(decoder.layer_norm) if layout.norm_first else None

    @classmethod
    def prepare(cls, hf: PreTrainedModel) -> FastDecoder | None:
        """Prepare a model's decoder; return ``None`` if only transformers can run it."""
        layout = LAYOUTS.get(hf.config.model_type)
        if layout is None:
            return None
        decoder = hf.model.decoder
        # LoRA adapters and quantizers replace plain layers by their own.
        plain = all(is_plain(module) for module in decoder.layers.modules())
        # With an unusual padding id the position table is too short, and transformers extends it during decoding.
        needed = layout.first_position(decoder) + hf.config.max_position_embeddings
        return cls(hf, layout) if plain and len(position_table(decoder)) >= needed else None

    def embed(self, tokens: torch.Tensor, position: int) -> torch.Tensor:
        """Embed tokens ``(rows,)`` that all have the same position."""
        where = position_table(self._decoder)[position + self._first_position]
        embedded = self._decoder.embed_tokens(tokens) * self._scale + where
        return embedded if self._embedding_norm is None else self._embedding_norm(embedded)


def position_table(decoder: Any) -> torch.Tensor:  # noqa: ANN401 - one of five classes that share their names
    """Return the position table; M2M100 keeps it in a buffer, under another name."""
    table = decoder.embed_positions
    positions: torch.Tensor = table.weights if hasattr(table, "weights") else table.weight
    return positions


def is_plain(module: nn.Module) -> bool:
    """Return whether a module is a plain linear layer, a plain norm, or has no weight."""
    for kind in (nn.Linear, nn.LayerNorm):
        if isinstance(module, kind):
            return type(module) is kind
    return not hasattr(module, "weight")


# Caches grow by this many tokens at a time.
_GROWTH = 16


class FastCache:
    """KV cache of a :class:`FastDecoder`, for all rows."""

    def __init__(self, decoder: FastDecoder, encoded: torch.Tensor, mask: torch.Tensor) -> None:
        self._decoder = decoder
        self._groups = [_CacheGroup(decoder, encoded, mask)]

    def begin(self, start_ids: Sequence[int]) -> torch.Tensor:
        """Decode the forced start, one row per sentence; return the keys."""
        [group] = self._groups
        same = torch.arange(group.rows, device=group.device)
        steps = [self.step(same, torch.full_like(same, token)) for token in start_ids]
        return steps[-1]

    def join(self, other: FastCache) -> None:
        """Append the rows of another cache."""
        self._groups += other._groups

    def step(self, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Append ``tokens`` to ``rows``, which are in the order of the groups; return the keys."""
        counts = self._select(rows)
        decoder, groups = self._decoder, self._groups
        x = _concatenate(
            decoder.embed(part, group.length) for part, group in zip(tokens.split(counts), groups, strict=True)
        )
        for number in range(len(decoder.layers)):
            x = self._run_layer(number, x, counts)
        for group in groups:
            group.length += 1
        return x if decoder.final_norm is None else decoder.final_norm(x)

    def _select(self, rows: torch.Tensor) -> list[int]:
        """Select ``rows`` from all groups and drop empty groups; return the number of rows of each."""
        if len(self._groups) == 1:
            self._groups[0].select(rows)
            return [len(rows)]
        ends = torch.tensor([group.rows for group in self._groups], device=rows.device).cumsum(0)
        owners = torch.searchsorted(ends, rows, right=True)
        counts = owners.bincount(minlength=len(ends)).tolist()
        kept, first = [], 0
        for group, part in zip(self._groups, rows.split(counts), strict=True):
            before = group.rows
            if len(part):
                group.select(part - first)
                kept.append(group)
            first += before
        self._groups = kept
        return [count for count in counts if count]

    def _run_layer(self, number: int, x: torch.Tensor, counts: list[int]) -> torch.Tensor:
        layer = self._decoder.layers[number]

        def self_attention(y: torch.Tensor) -> torch.Tensor:
            made = layer.own.query_key_value(y).view(len(y), 3, layer.own.heads, -1)
            parts = zip(self._groups, made.split(counts), strict=True)
            return layer.own.out(_concatenate(group.attend_self(number, part) for group, part in parts))

        def cross_attention(y: torch.Tensor) -> torch.Tensor:
            parts = zip(self._groups, layer.cross.query(y).split(counts), strict=True)
            return layer.cross.out(_concatenate(group.attend_source(number, part) for group, part in parts))

        def feed_forward(y: torch.Tensor) -> torch.Tensor:
            return layer.fc2(layer.activation(layer.fc1(y)))

        blocks: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (self_attention, cross_attention, feed_forward)
        for block, norm in zip(blocks, layer.norms, strict=True):
            x = block(norm(x)).add_(x) if self._decoder.norm_first else norm(block(x).add_(x))
        return x


class _CacheGroup:
    """KV cache of sentences that started together, so that all their rows have the same length.

    :param encoded: Encoder output: (sentences, source, width).
    :param mask: Attention mask of the sources: (sentences, source).
    """

    def __init__(self, decoder: FastDecoder, encoded: torch.Tensor, mask: torch.Tensor) -> None:
        self._sources = [_source_heads(layer.cross, encoded) for layer in decoder.layers]
        # Added to the products of queries and keys: (sentences, 1, 1, source)
        self._mask = None
        if not bool(mask.all()):
            self._mask = encoded.new_zeros(mask.shape).masked_fill_(~mask.bool(), -torch.inf)[:, None, None]
        self._owners = torch.arange(len(mask), device=mask.device)  # the sentence of each row
        self._sentences = len(mask)
        self.length = 0
        heads = decoder.layers[0].own.heads
        shape = (2, len(mask), heads, 0, encoded.shape[-1] // heads)
        self._own = [encoded.new_empty(shape) for _ in decoder.layers]  # (keys and values, rows, heads, capacity, head)
        self._spare = encoded.new_empty(0)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self._owners)

    @property
    def device(self) -> torch.device:
        """Device of the cache."""
        return self._owners.device

    def attend_self(self, number: int, made: torch.Tensor) -> torch.Tensor:
        """Run the self-attention of each row: ``(rows, width)``.

        :param number: Number of the layer.
        :param made: The new token's query, key and value; key and value are cached: (rows, 3, heads, head).
        """
        cache = self._own[number]
        cache[:, :, :, self.length] = made[:, 1:].transpose(0, 1)
        rows, heads, size = cache.shape[1], cache.shape[2], cache.shape[4]
        # With one query per row, two batched products are faster than fused attention.
        keys, values = cache.view(2, rows * heads, -1, size)[:, :, : self.length + 1]
        queries = (made[:, 0] * size**-0.5).view(rows * heads, 1, size)
        weights = torch.bmm(queries, keys.transpose(1, 2)).softmax(-1)
        return torch.bmm(weights, values).view(rows, -1)

    def attend_source(self, number: int, queries: torch.Tensor) -> torch.Tensor:
        """Run the cross-attention of each row, ``(rows, width)`` in and out; rows of a sentence are adjacent."""
        keys, values = self._sources[number]
        sentences, heads, length, size = values.shape
        split = (queries * size**-0.5).view(sentences, -1, heads, size).transpose(1, 2)
        products = torch.bmm(split.reshape(sentences * heads, -1, size), keys.view(-1, size, length))
        products = products.view(sentences, heads, -1, length)
        weights = (products if self._mask is None else products.add_(self._mask)).softmax(-1)
        read = torch.bmm(weights.view(sentences * heads, -1, length), values.view(-1, length, size))
        return read.view(sentences, heads, -1, size).transpose(1, 2).reshape(len(queries), -1)

    def select(self, rows: torch.Tensor) -> None:
        """Select ``rows`` in all caches, with capacity for another token."""
        if self.length == self._own[0].shape[3]:
            self._own = [F.pad(cache, (0, 0, 0, _GROWTH)) for cache in self._own]
        if len(rows) == len(self._owners) and torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            return
        for number, cache in enumerate(self._own):
            chosen = self._buffer((2, len(rows), *cache.shape[2:]), cache)
            torch.index_select(cache, 1, rows, out=chosen)
            # The old buffer of this layer is the new one of the next.
            self._own[number], self._spare = chosen, cache
        owners = self._owners[rows]
        if not torch.equal(owners, self._owners):
            self._select_sentences(owners)

    def _buffer(self, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        needed = torch.Size(shape).numel()
        if self._spare.numel() < needed:
            return like.new_empty(shape)
        return self._spare.view(-1)[:needed].view(shape)

    def _select_sentences(self, owners: torch.Tensor) -> None:
        """Keep the sentences that still have rows; if they have unequal numbers of rows, each row gets its own copy."""
        kept = owners.unique_consecutive()
        if len(owners) % len(kept) or not torch.equal(owners, kept.repeat_interleave(len(owners) // len(kept))):
            kept = owners
        if len(kept) != self._sentences or not torch.equal(kept, torch.arange(len(kept), device=kept.device)):
            self._sources = [(keys[kept], values[kept]) for keys, values in self._sources]
            self._mask = None if self._mask is None else self._mask[kept]
        self._sentences = len(kept)
        self._owners = torch.arange(len(kept), device=kept.device).repeat_interleave(len(owners) // len(kept))


def _concatenate(parts: Iterable[torch.Tensor]) -> torch.Tensor:
    """Concatenate the rows of all groups; mostly there is only one."""
    listed = list(parts)
    return listed[0] if len(listed) == 1 else torch.cat(listed)


def _source_heads(cross: _CrossAttention, encoded: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys ``(sentences, heads, head, source)`` and values ``(sentences, heads, source, head)``, contiguous."""
    keys, values = (part.unflatten(-1, (cross.heads, -1)) for part in cross.key_value(encoded).chunk(2, -1))
    return keys.permute(0, 2, 3, 1).contiguous(), values.transpose(1, 2).contiguous()
