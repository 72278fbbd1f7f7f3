"""Decode many unfinished translations token by token, with a KV cache.

Returns the keys and the most probable next tokens; the caller chooses which translations to continue. Implements the
``Scorer`` protocol of ``lacuna.decoding``. Knows nothing of beams and neighbors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.errors import ModelError
from lacuna.likely_tokens import NextTokens
from lacuna.models.adapter import Model
from lacuna.models.compiled_decoder import CompiledCache, CompiledModel, relative
from lacuna.models.fast_decoder import FastCache, FastDecoder
from lacuna.models.top_tokens import best_tokens


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


class Prediction(NamedTuple):
    """What a model says about the next token of each row.

    :param best: The most probable tokens.
    :param log_probs_of: Returns the log-probabilities of any tokens, minus infinity for negative ones:
        (rows, tokens) to (rows, tokens).
    """

    best: NextTokens
    log_probs_of: Callable[[NDArray[np.int64]], NDArray[np.float32]]


class _Engine(Protocol):
    """Runs a model: its encoder, decoder steps and output projection.

    :ivar joins: Whether caches with rows of different lengths can be joined.
    :ivar min_sentences: Number of sentences from which on a thread of their own is faster than a part of each product.
    """

    joins: bool
    min_sentences: int

    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """Encode the sources and decode the forced start of each translation."""

    def predict(self, keys: torch.Tensor, count: int) -> Prediction:
        """Return the most probable next tokens, at most ``count`` of each row."""


class ModelScorer:
    """Scores next tokens with a model: each source is encoded once, each target token decoded once.

    :param engine: What runs the model: ``compiled`` kernels, our decoder in ``torch``, or the one of ``transformers``.
        By default, the first of these that supports the model.
    :param int8: Round the weights, to 8 bits in the output projection and 12 in the layers: faster on a CPU, and nearly
        the same translations. Needs compiled kernels. ``None``: if there are such kernels for this model.
    """

    def __init__(self, model: Model, *, engine: str | None = None, int8: bool | None = False) -> None:
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
        device = self._model.device
        return ModelState(cache.step(rows.to(device), tokens.to(device)), cache)

    @torch.inference_mode()
    def join(self, state: ModelState, others: ModelState) -> ModelState:
        """Return a state with the rows of both. Invalidates both."""
        cache, other = state.cache, others.cache
        state.cache = others.cache = None
        if type(cache) is not type(other) or not isinstance(cache, FastCache | CompiledCache):
            raise ModelError("only states of our own decoders that were not advanced before can be joined")
        cache.join(other)  # type: ignore[arg-type]
        return ModelState(torch.cat([state.keys, others.keys]), cache)

    def score(
        self,
        state: ModelState,
        count: int,
        score_gap: torch.Tensor | None = None,
        also: NDArray[np.int64] | None = None,
    ) -> NextTokens:
        """Return the most probable next tokens of each row, and others; ``score_gap`` is not used."""
        best, log_probs_of = self.predict(state, count)
        return best if also is None else best.append(also, log_probs_of(also), self.banned_ids)

    @torch.inference_mode()
    def predict(self, state: ModelState, count: int) -> Prediction:
        """Return the most probable next tokens of each row, and a way to ask for others.

        :param count: Number of tokens, if there are as many.
        """
        return self._engine.predict(state.keys, min(count, self.vocabulary_size))


def _make_engine(model: Model, name: str | None, int8: bool | None) -> _Engine:
    """Return the engine of this name, or the fastest one. Weights are prepared once per model and shared."""
    if name in (None, "compiled"):
        for precision in {None: ("int8", "float32"), True: ("int8",), False: ("float32",)}[int8]:
            compiled = CompiledModel.of(model, precision)
            if compiled is not None:
                return _CompiledEngine(model, compiled)
    if int8:
        raise ModelError(
            f"int8: {model.name} cannot run with 8-bit weights here; they need a CPU, a model with BART-like layers "
            "and numba (pip install lacuna-mt[fast]); leave int8 out"
        )
    decoder: FastDecoder | None = None
    if name in (None, "torch"):
        decoder = model.prepared("decoder", lambda: FastDecoder.prepare(model.hf))
    if decoder is None and name not in (None, "transformers"):
        raise ModelError(f"engine: got {name}, which cannot run {model.name}; allowed is transformers, or none")
    return _TorchEngine(model, decoder)


class _CompiledEngine:
    """All by compiled kernels."""

    joins = True
    min_sentences = 1

    def __init__(self, model: Model, compiled: CompiledModel) -> None:
        self._start_ids, self._compiled = model.start_ids, compiled
        self._banned = np.array(model.banned_ids, np.int64)

    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """See :class:`_Engine`."""
        cache = CompiledCache(self._compiled, sources)
        return ModelState(cache.begin(self._start_ids), cache)

    def predict(self, keys: torch.Tensor, count: int) -> Prediction:
        """See :class:`_Engine`."""
        rows = keys.numpy()
        likely = self._compiled.find_next(rows, count, self._banned)

        def log_probs_of(tokens: NDArray[np.int64]) -> NDArray[np.float32]:
            return relative(self._compiled.logits_of(rows, tokens), likely.log_sums)

        return Prediction(NextTokens(likely.tokens, likely.log_probs), log_probs_of)


class _TorchEngine:
    """Encoder and projection in torch, and our decoder or that of transformers.

    :param decoder: ``None`` for that of transformers.
    """

    min_sentences = 8

    def __init__(self, model: Model, decoder: FastDecoder | None) -> None:
        self._model, self._decoder = model, decoder
        self.joins = decoder is not None
        self._encoder, self._project = model.fast_forward.hf.get_encoder(), model.fast_projection

    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """See :class:`_Engine`."""
        encoded, mask = self._model.encode(sources, self._encoder)
        if self._decoder is None:
            cache = HfCache(self._model, encoded, mask)
            return ModelState(cache.begin(), cache)
        fast = FastCache(self._decoder, encoded, mask)
        return ModelState(fast.begin(self._model.start_ids), fast)

    def predict(self, keys: torch.Tensor, count: int) -> Prediction:
        """See :class:`_Engine`."""
        log_probs = self._log_probs(keys)

        def log_probs_of(tokens: NDArray[np.int64]) -> NDArray[np.float32]:
            asked = torch.from_numpy(tokens).to(log_probs.device)
            found = log_probs.gather(1, asked.clamp(min=0)).masked_fill_(asked < 0, -torch.inf)
            return np.asarray(found.cpu().numpy(), np.float32)

        return Prediction(best_tokens(log_probs, count, self._model.banned_ids), log_probs_of)

    def _log_probs(self, keys: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of the next token: (rows, vocabulary)."""
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
