"""Encoder, decoder and output projection by compiled kernels, for the families with BART-like layers, on a CPU.

All rows of a search share one KV cache, which has a *slot* for each decoded token. A row is a list of slots: selecting
rows copies these lists, not keys and values, and rows of different lengths and sources need no padding. Reads the
weights from a model of transformers. Knows nothing of beams.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lacuna.kernels import load_kernels
from lacuna.models.families import Projection
from lacuna.models.fast_decoder import LAYOUTS, Layout, is_plain, position_table
from lacuna.models.linears import joined_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

# Kernels by the name of the activation in a model's configuration.
_ACTIVATIONS = {"relu": "RELU", "silu": "SILU", "swish": "SILU", "gelu": "GELU"}
_FIRST_SLOTS = 256
# Numbers in a part of the output projection that is worth a thread: handing it over takes some 50 microseconds.
_WORTH_A_THREAD = 1 << 22


class CompiledModel:
    """Packed weights of a model, shared by all searches with it.

    :param kernels: :mod:`lacuna.kernels.compiled`.
    """

    def __init__(self, hf: PreTrainedModel, head: Projection, layout: Layout, kernels: Any) -> None:  # noqa: ANN401
        self._kernels = kernels
        self._encoder, self._decoder = (_layers(stack, layout, hf, kernels) for stack in _stacks(hf))
        self._encoder_input, self._decoder_input = (_Embedding(stack, layout) for stack in _stacks(hf))
        bias = None if head.bias is None else head.bias.detach().numpy().reshape(-1)
        self._head = kernels.pack(head.weight.detach().numpy() * np.float32(head.scale), bias)
        self._vocabulary = len(head.weight)
        layers, heads, width = len(self._decoder.norms), self._decoder.settings[0], int(head.weight.shape[1])
        self.cache_shape = layers, 2, 0, heads, width // heads

    @classmethod
    def prepare(cls, hf: PreTrainedModel, head: Projection) -> CompiledModel | None:
        """Pack the weights of a model; return ``None`` if the kernels cannot run it."""
        layout, kernels = LAYOUTS.get(hf.config.model_type), load_kernels()
        if layout is None or kernels is None or hf.config.activation_function not in _ACTIVATIONS:
            return None
        if any(weight.device.type != "cpu" or weight.dtype != torch.float32 for weight in hf.parameters()):
            return None
        # See FastDecoder.prepare.
        plain = all(is_plain(module) for stack in _stacks(hf) for module in stack.layers.modules())
        longest = hf.config.max_position_embeddings
        fitting = all(len(position_table(stack)) >= layout.first_position(stack) + longest for stack in _stacks(hf))
        return cls(hf, head, layout, kernels) if plain and fitting else None

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[Floats, Integers]:
        """Run the encoder; return keys and values of cross-attention, and where each source starts and ends in them."""
        ends = np.cumsum([0, *map(len, sources)])
        tokens = np.fromiter((token for source in sources for token in source), np.int64, int(ends[-1]))
        positions = np.arange(len(tokens)) - np.repeat(ends[:-1], np.diff(ends))
        places, *tables = self._encoder_input.at(positions)
        source: Floats = self._kernels.encode(tokens, places, ends, *tables, self._encoder, self._decoder)
        return source, np.stack([ends[:-1], ends[1:]], 1)

    def decode(
        self,
        tokens: Integers,
        cache: Floats,
        slots: Integers,
        lengths: Integers,
        source: Floats,
        source_places: Integers,
    ) -> Floats:
        """Run the decoder for one token of each row; see :func:`lacuna.kernels.compiled.decode`."""
        tables = self._decoder_input.at(lengths - 1)
        states: Floats = self._kernels.decode(
            tokens, *tables, self._decoder, cache, slots, lengths, source, source_places
        )
        return states

    def log_probs(self, keys: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of the next token: (rows, vocabulary)."""
        kernels, (weight, bias), rows = self._kernels, self._head, keys.numpy()
        out = np.empty((len(rows), len(bias)), np.float32)
        parts = max(1, min(torch.get_num_threads(), weight.size // _WORTH_A_THREAD))
        if parts == 1:
            kernels.project(rows, weight, bias, 0, out)
        else:
            ends = np.linspace(0, len(weight), parts + 1).astype(int).tolist()

            def project(first: int, end: int) -> None:
                columns = slice(first * kernels.COLUMNS, end * kernels.COLUMNS)
                kernels.project(rows, weight[first:end], bias[columns], first, out)

            first, *rest = pairwise(ends)
            others = [_threads(parts - 1).submit(project, *part) for part in rest]
            project(*first)
            for other in others:
                other.result()
        kernels.log_softmax(out, self._vocabulary)
        return torch.from_numpy(out)[:, : self._vocabulary]


class CompiledCache:
    """KV cache of a :class:`CompiledModel`, for all rows."""

    def __init__(self, model: CompiledModel, sources: Sequence[Sequence[int]]) -> None:
        self._model = model
        self._source, self._source_places = model.encode(sources)  # (layers, 2, tokens, heads, size), (rows, 2)
        self._cache = np.empty(model.cache_shape, np.float32)  # (layers, 2, slots, heads, size)
        self._used = 0  # slots
        self._slots = np.zeros((len(sources), 0), np.int64)  # (rows, tokens), undefined beyond the length of a row
        self._lengths = np.zeros(len(sources), np.int64)

    def begin(self, start_ids: Sequence[int]) -> torch.Tensor:
        """Decode the forced start, one row per sentence; return the keys."""
        same = torch.arange(len(self._lengths))
        steps = [self.step(same, torch.full_like(same, token)) for token in start_ids]
        return steps[-1]

    def join(self, other: CompiledCache) -> None:
        """Append the rows of another cache."""
        self._drop_sources()
        self._source_places = np.concatenate([self._source_places, other._source_places + self._source.shape[2]])
        self._source = np.concatenate([self._source, other._source], axis=2)
        self._cache = np.concatenate([self._cache[:, :, : self._used], other._cache[:, :, : other._used]], axis=2)
        width = max(self._slots.shape[1], other._slots.shape[1])
        self._slots = np.concatenate([_widened(self._slots, width), _widened(other._slots + self._used, width)])
        self._used += other._used
        self._lengths = np.concatenate([self._lengths, other._lengths])

    def step(self, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Append ``tokens`` to ``rows``; return the keys."""
        chosen = rows.numpy()
        self._source_places = self._source_places[chosen]
        self._lengths = self._lengths[chosen] + 1
        longest = int(self._lengths.max())
        self._slots = _widened(self._slots[chosen, :longest], longest)
        if self._used + len(chosen) > self._cache.shape[2]:
            self._free_slots()
        ends = self._used + len(chosen)
        self._slots[np.arange(len(chosen)), self._lengths - 1] = np.arange(self._used, ends)
        self._used = ends
        return torch.from_numpy(
            self._model.decode(
                tokens.numpy(), self._cache, self._slots, self._lengths, self._source, self._source_places
            )
        )

    def _free_slots(self) -> None:
        """Move the slots that rows still use into a new cache, at least half of which is free."""
        filled = np.arange(self._slots.shape[1]) < self._lengths[:, None] - 1
        live, places = np.unique(self._slots[filled], return_inverse=True)
        self._slots[filled] = places
        slots = max(_FIRST_SLOTS, 2 * (len(live) + len(self._lengths)))
        cache = np.empty((*self._cache.shape[:2], slots, *self._cache.shape[3:]), np.float32)
        cache[:, :, : len(live)] = self._cache[:, :, live]
        self._cache, self._used = cache, len(live)

    def _drop_sources(self) -> None:
        """Drop the sources of sentences that have ended."""
        places, rows = np.unique(self._source_places, axis=0, return_inverse=True)
        lengths = places[:, 1] - places[:, 0]
        if int(lengths.sum()) < self._source.shape[2]:
            kept = np.concatenate([np.arange(start, end) for start, end in places.tolist()])
            self._source = self._source[:, :, kept]
            ends = np.cumsum(lengths)
            self._source_places = np.stack([ends - lengths, ends], 1)[rows.ravel()]


class _Embedding:
    """Tables of token and position embeddings of an encoder or a decoder."""

    def __init__(self, stack: Any, layout: Layout) -> None:  # noqa: ANN401 - one of ten classes that share their names
        self._tokens: Floats = stack.embed_tokens.weight.detach().numpy()
        self._positions: Floats = position_table(stack).detach().numpy()
        self._first = layout.first_position(stack)
        scaling = stack if layout.scale_outside else stack.embed_tokens
        self._scale = float(scaling.embed_scale)

    def at(self, positions: Integers) -> tuple[Integers, Floats, Floats, float]:
        """Return the arguments of a kernel for tokens at these positions."""
        return positions + self._first, self._tokens, self._positions, self._scale


def _stacks(hf: PreTrainedModel) -> tuple[Any, Any]:
    return hf.model.encoder, hf.model.decoder


def _layers(stack: Any, layout: Layout, hf: PreTrainedModel, kernels: Any) -> Any:  # noqa: ANN401 - of numba or one of ten classes
    """Pack the layers of an encoder or a decoder."""
    layers = list(stack.layers)
    own = [layer.self_attn for layer in layers]
    cross = [layer.encoder_attn for layer in layers if hasattr(layer, "encoder_attn")]
    names = ["self_attn_layer_norm", *(["encoder_attn_layer_norm"] if cross else []), "final_layer_norm"]
    norms = [[getattr(layer, name) for name in names] for layer in layers]

    def packed(parts: list[list[nn.Linear]]) -> Any:  # noqa: ANN401 - PackedLinear
        return _pack_layers(parts, kernels)

    return kernels.Layers(
        own=packed([[attention.q_proj, attention.k_proj, attention.v_proj] for attention in own]),
        own_out=packed([[attention.out_proj] for attention in own]),
        cross_query=packed([[attention.q_proj] for attention in cross]),
        cross_source=packed([[attention.k_proj, attention.v_proj] for attention in cross]),
        cross_out=packed([[attention.out_proj] for attention in cross]),
        widen=packed([[layer.fc1] for layer in layers]),
        narrow=packed([[layer.fc2] for layer in layers]),
        norms=np.stack([_norms(each, hf) for each in norms]),
        first_norm=_norms([stack.layernorm_embedding] if layout.norm_embedding else [], hf),
        last_norm=_norms([stack.layer_norm] if layout.norm_first else [], hf),
        settings=(
            own[0].num_heads,
            getattr(kernels, _ACTIVATIONS[hf.config.activation_function]),
            layout.norm_first,
            norms[0][0].eps,
        ),
    )


def _pack_layers(layers: list[list[nn.Linear]], kernels: Any) -> Any:  # noqa: ANN401 - PackedLinear
    """Pack the same part of each layer: linear layers with the same input, joined. Encoders lack some parts."""
    if not layers:
        return kernels.PackedLinear(np.empty((0, 0, 0, kernels.COLUMNS), np.float32), np.empty((0, 0), np.float32))
    packed = [kernels.pack(*(part.detach().numpy() for part in joined_weights(*parts))) for parts in layers]
    return kernels.PackedLinear(*(np.stack(column) for column in zip(*packed, strict=True)))


def _norms(modules: Sequence[nn.LayerNorm], hf: PreTrainedModel) -> Floats:  # (norms, 2, width)
    each = [torch.stack([module.weight, module.bias]).detach().numpy() for module in modules]
    return np.stack(each) if each else np.empty((0, 2, hf.config.hidden_size), np.float32)


def _widened(slots: Integers, width: int) -> Integers:
    """Copy lists of slots into longer ones."""
    wide = np.zeros((len(slots), width), np.int64)
    wide[:, : slots.shape[1]] = slots
    return wide


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    """Return threads that all models share."""
    return ThreadPoolExecutor(count, "lacuna-projection")
