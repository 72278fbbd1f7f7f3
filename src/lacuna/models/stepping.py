"""Decode many unfinished translations token by token, with a KV cache.

Returns the keys and log-probabilities of the next token; the caller chooses which translations to continue. Implements
the ``Scorer`` protocol of ``lacuna.decoding`` without importing it. Knows nothing of beams and neighbors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from lacuna.errors import ModelError
from lacuna.models.adapter import Model
from lacuna.models.compiled_decoder import CompiledCache, CompiledModel
from lacuna.models.fast_decoder import FastCache, FastDecoder
from lacuna.models.linears import make_linear, with_fast_linears


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


class _Engine(Protocol):
    """Runs a model: its encoder, decoder steps and output projection.

    :ivar joins: Whether caches with rows of different lengths can be joined.
    :ivar min_sentences: Number of sentences from which on a thread of their own is faster than a part of each product.
    """

    joins: bool
    min_sentences: int

    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """Encode the sources and decode the forced start of each translation."""

    def log_probs(self, keys: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of the next token: (rows, vocabulary)."""


class ModelScorer:
    """Scores next tokens with a model: each source is encoded once, each target token decoded once.

    :param engine: What runs the model: ``compiled`` kernels, our decoder in ``torch``, or the one of ``transformers``.
        By default, the first of these that supports the model.
    :param int8: Round the weights to 8 bits: slightly less exact; on a CPU faster with large models or large batches.
        For families without a decoder of ours, only encoder and projection are rounded.
    """

    def __init__(self, model: Model, *, engine: str | None = None, int8: bool = False) -> None:
        self._model = model
        self._engine = _make_engine(model, engine, int8)

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
        return self._engine.joins

    @property
    def min_sentences(self) -> int:
        """Number of sentences from which on a thread of their own is faster than a part of each product."""
        return self._engine.min_sentences

    @torch.inference_mode()
    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """Encode the sources and decode the forced start of each translation."""
        self._model.check_sources(sources)
        return self._engine.start(sources)

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
        if type(cache) is not type(other) or not isinstance(cache, FastCache | CompiledCache):
            raise ModelError("only states of our own decoders that were not advanced before can be joined")
        cache.join(other)  # type: ignore[arg-type]
        return ModelState(torch.cat([state.keys, others.keys]), cache)

    @torch.inference_mode()
    def score(self, state: ModelState, score_gap: torch.Tensor | None = None) -> torch.Tensor:
        """Return the log-probabilities of the next token, ``(rows, vocabulary)``; ``score_gap`` is not used."""
        return self._engine.log_probs(state.keys)


def _make_engine(model: Model, name: str | None, int8: bool) -> _Engine:
    """Return the engine of this name, or the fastest one. Weights are prepared once per model and shared."""
    compiled: CompiledModel | None = None
    if name in (None, "compiled") and not int8:
        compiled = model.prepared("compiled", lambda: CompiledModel.prepare(model.hf, model.projection))
    if compiled is not None:
        return _CompiledEngine(model, compiled)
    decoder: FastDecoder | None = None
    if name in (None, "torch"):
        form = "decoder, int8" if int8 else "decoder"
        decoder = model.prepared(form, lambda: FastDecoder.prepare(model.hf, int8=int8))
    if decoder is None and name not in (None, "transformers"):
        raise ModelError(f"engine: got {name}, which cannot run {model.name}; allowed is transformers, or none")
    return _TorchEngine(model, decoder, int8)


class _CompiledEngine:
    """All by compiled kernels."""

    joins = True
    min_sentences = 1

    def __init__(self, model: Model, compiled: CompiledModel) -> None:
        self._start_ids, self._compiled = model.start_ids, compiled

    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """See :class:`_Engine`."""
        cache = CompiledCache(self._compiled, sources)
        return ModelState(cache.begin(self._start_ids), cache)

    def log_probs(self, keys: torch.Tensor) -> torch.Tensor:
        """See :class:`_Engine`."""
        return self._compiled.log_probs(keys)


class _TorchEngine:
    """Encoder and projection in torch, and our decoder or that of transformers.

    :param decoder: ``None`` for that of transformers.
    """

    min_sentences = 8

    def __init__(self, model: Model, decoder: FastDecoder | None, int8: bool) -> None:
        self._model, self._decoder = model, decoder
        self.joins = decoder is not None
        self._encoder, self._project = model.fast_forward.hf.get_encoder(), model.fast_projection
        if int8:
            head = model.projection
            self._encoder, self._project = model.prepared(
                "encoder and projection, int8",
                lambda: (
                    with_fast_linears(model.hf.get_encoder(), int8=True),
                    make_linear(head.weight, head.bias, int8=True),
                ),
            )

    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """See :class:`_Engine`."""
        encoded, mask = self._model.encode(sources, self._encoder)
        if self._decoder is None:
            cache = HfCache(self._model, encoded, mask)
            return ModelState(cache.begin(), cache)
        fast = FastCache(self._decoder, encoded, mask)
        return ModelState(fast.begin(self._model.start_ids), fast)

    def log_probs(self, keys: torch.Tensor) -> torch.Tensor:
        """See :class:`_Engine`."""
        scale = self._model.projection.scale
        logits = self._project(keys if scale == 1 else keys * scale).float()
        if logits.device.type != "cpu":
            return logits.log_softmax(-1)
        # In place: on a CPU, allocating this much memory takes longer than the arithmetic.
        return torch.log_softmax(logits, -1, out=logits)


class HfCache:
    """KV cache of transformers; works with every family."""

    def __init__(self, model: Model, encoded: torch.Tensor, mask: torch.Tensor) -> None:
        from transformers import DynamicCache, EncoderDecoderCache  # slow to import, and only used here

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
