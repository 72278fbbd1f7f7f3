"""Decode many unfinished translations token by token, with a KV cache.

Returns the keys and log-probabilities of the next token; the caller chooses which translations to continue. Implements
the ``Scorer`` protocol of ``lacuna.decoding`` without importing it. Knows nothing of beams, scores or neighbors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache

from lacuna.errors import ModelError
from lacuna.models.adapter import Model
from lacuna.models.fast_decoder import FastCache, FastDecoder
from lacuna.models.linears import Linear, make_linear, with_fast_linears


class KVCache(Protocol):
    """Attention keys and values of all rows for the tokens decoded so far."""

    def step(self, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Append ``tokens`` to ``rows`` and update the cache; return the keys ``(rows, dimension)``."""


@dataclass(slots=True)
class ModelState:
    """Unfinished translations.

    :param keys: Input of the output projection for the next token; a memory is searched with it.
    """

    keys: torch.Tensor  # (rows, dimension)
    cache: KVCache | None


@dataclass(frozen=True, slots=True)
class _PreparedWeights:
    """The weights of a model, prepared for decoding.

    :param decoder: ``None`` if only transformers can run it.
    """

    decoder: FastDecoder | None
    encoder: nn.Module
    project: Linear


def _prepared_weights(model: Model, int8: bool) -> _PreparedWeights:
    """Prepare the weights once per model: many translators may share it, and each form is a copy of the weights."""

    def prepare() -> _PreparedWeights:
        decoder = FastDecoder.prepare(model.hf, int8=int8)
        if not int8:
            return _PreparedWeights(decoder, model.fast_forward.hf.get_encoder(), model.fast_projection)
        head = model.projection
        encoder = with_fast_linears(model.hf.get_encoder(), int8=True)
        return _PreparedWeights(decoder, encoder, make_linear(head.weight, head.bias, int8=True))

    return model.prepared("int8" if int8 else "float", prepare)


class ModelScorer:
    """Scores next tokens with a model: each source is encoded once, each target token decoded once.

    :param fast: Use our own decoder for the families that it supports; otherwise that of transformers.
    :param int8: Round the weights to 8 bits: faster on a CPU, and slightly less exact. For families without a fast
        decoder, only encoder and projection are rounded.
    """

    def __init__(self, model: Model, *, fast: bool = True, int8: bool = False) -> None:
        self._model = model
        forms = _prepared_weights(model, int8)
        self._fast = forms.decoder if fast else None
        self._encoder = forms.encoder if fast or int8 else None
        self._project = forms.project if fast else None

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens that are scored."""
        return self._model.vocabulary_size

    @property
    def eos_id(self) -> int:
        """The token that ends a translation."""
        return self._model.eos_id

    @property
    def banned_ids(self) -> tuple[int, ...]:
        """Tokens that are never generated."""
        return self._model.banned_ids

    @property
    def max_new_tokens(self) -> int:
        """Maximum number of tokens of a translation, without its forced start."""
        return self._model.max_length - len(self._model.start_ids)

    @property
    def joins(self) -> bool:
        """Whether continuous batching is possible; the rows of a transformers cache all have the same length."""
        return self._fast is not None

    @torch.inference_mode()
    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """Encode the sources and decode the forced start of each translation."""
        encoded, mask = self._model.encode(sources, self._encoder)
        if self._fast is None:
            cache = HfCache(self._model, encoded, mask)
            return ModelState(cache.begin(), cache)
        fast = FastCache(self._fast, encoded, mask)
        return ModelState(fast.begin(self._model.start_ids), fast)

    @torch.inference_mode()
    def advance(self, state: ModelState, rows: torch.Tensor, tokens: torch.Tensor) -> ModelState:
        """Return the state in which row ``i`` is the old row ``rows[i]`` plus ``tokens[i]``. Invalidates ``state``."""
        cache, state.cache = state.cache, None
        if cache is None:
            raise ModelError("this state was advanced before; continue from the state that advance() returned")
        return ModelState(cache.step(rows, tokens), cache)

    @torch.inference_mode()
    def join(self, state: ModelState, others: ModelState) -> ModelState:
        """Return a state with the rows of both. Invalidates both."""
        cache, other = state.cache, others.cache
        state.cache = others.cache = None
        if not isinstance(cache, FastCache) or not isinstance(other, FastCache):
            raise ModelError("only states of our own decoder that were not advanced before can be joined")
        cache.join(other)
        return ModelState(torch.cat([state.keys, others.keys]), cache)

    @torch.inference_mode()
    def score(self, state: ModelState, score_gap: torch.Tensor | None = None) -> torch.Tensor:
        """Return the log-probabilities of the next token, ``(rows, vocabulary)``; ``score_gap`` is not used."""
        logits = self._logits(state.keys)
        if logits.device.type != "cpu":
            return logits.log_softmax(-1)
        # In place: on a CPU, allocating this much memory takes longer than the arithmetic.
        return torch.log_softmax(logits, -1, out=logits)

    def _logits(self, keys: torch.Tensor) -> torch.Tensor:
        if self._project is None:
            return self._model.project(keys)
        scale = self._model.projection.scale
        return self._project(keys if scale == 1 else keys * scale).float()


class HfCache:
    """KV cache of transformers; works with every family."""

    def __init__(self, model: Model, encoded: torch.Tensor, mask: torch.Tensor) -> None:
        self._model = model
        self._encoded = encoded  # (rows, source, width): of each row's sentence
        self._mask = mask  # (rows, source)
        self._owners = torch.arange(len(mask), device=mask.device)  # the sentence of each row
        self._cache = EncoderDecoderCache(DynamicCache(), DynamicCache())

    def begin(self) -> torch.Tensor:
        """Decode the forced start, one row per sentence; return the keys."""
        return self._decode(torch.tensor([self._model.start_ids] * len(self._mask), device=self._mask.device))

    def step(self, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """See :class:`KVCache`."""
        self._cache.self_attention_cache.reorder_cache(rows)  # type: ignore[arg-type]
        owners = self._owners[rows]
        # Rows mostly move within their sentence; the cross-attention cache then stays as it is.
        if not torch.equal(owners, self._owners):
            self._cache.cross_attention_cache.reorder_cache(rows)  # type: ignore[arg-type]
            self._encoded, self._mask = self._encoded[rows], self._mask[rows]
            self._owners = owners
        return self._decode(tokens[:, None])

    def _decode(self, tokens: torch.Tensor) -> torch.Tensor:
        output = self._model.decoder(
            input_ids=tokens,
            encoder_hidden_states=self._encoded,
            encoder_attention_mask=self._mask,
            past_key_values=self._cache,
            use_cache=True,
        )
        keys: torch.Tensor = output.last_hidden_state[:, -1]
        return keys
