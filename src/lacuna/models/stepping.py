"""Running a model token by token, many unfinished translations at once.

Gives the keys and log-probabilities of the next token; which translations live on is the caller's choice. Knows nothing
of beams, scores or neighbors: it fits the ``Scorer`` protocol of ``lacuna.decoding`` without knowing of it.
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
from lacuna.models.linears import Linear, make_linear, with_int8_layers


class KVCache(Protocol):
    """What a decoder has seen so far, for all rows."""

    def step(self, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Go on with ``tokens`` after ``rows``, changing the memory; give the keys ``(rows, dimension)``."""


@dataclass(slots=True)
class ModelState:
    """Unfinished translations.

    :param keys: What the model would project to get the next token: the keys a memory is searched with.
    """

    keys: torch.Tensor  # (rows, dimension)
    memory: KVCache | None


@dataclass(frozen=True, slots=True)
class _Forms:
    """The weights of a model, made ready for stepping.

    :param decoder: ``None`` where only transformers can run it.
    :param encoder: ``None`` where it is run as it is.
    """

    decoder: FastDecoder | None
    encoder: nn.Module | None
    project: Linear


def _forms_of(model: Model, int8: bool) -> _Forms:
    """Make the forms once for each model: many translators may share it, and each form is another copy of weights."""
    name = "int8" if int8 else "float"
    if name not in model.forms:
        head = model.projection
        model.forms[name] = _Forms(
            FastDecoder.fitting(model.hf, int8=int8),
            with_int8_layers(model.hf.get_encoder()) if int8 else None,
            make_linear(head.weight, head.bias, int8=int8),
        )
    forms: _Forms = model.forms[name]
    return forms


class ModelScorer:
    """Scores next tokens with a model: each source is encoded once, each target token decoded once.

    :param fast: Use our own decoder step where the family has one; otherwise that of transformers.
    :param int8: Round the weights to 8 bits: quicker on a CPU, and a little less exact. Where our own step does not
        know the family, only encoder and projection.
    """

    def __init__(self, model: Model, *, fast: bool = True, int8: bool = False) -> None:
        self._model = model
        forms = _forms_of(model, int8)
        self._fast = forms.decoder if fast else None
        self._encoder = forms.encoder
        self._project = forms.project if fast else None

    @property
    def vocabulary_size(self) -> int:
        """Columns of the scores."""
        return self._model.vocabulary_size

    @property
    def eos_id(self) -> int:
        """The token that ends a translation."""
        return self._model.eos_id

    @property
    def banned_ids(self) -> tuple[int, ...]:
        """Tokens that are never to be chosen."""
        return self._model.banned_ids

    @property
    def max_new_tokens(self) -> int:
        """The most tokens a translation can have besides its forced start."""
        return self._model.max_length - len(self._model.start_ids)

    @property
    def joins(self) -> bool:
        """Whether sentences may begin while others are under way; the caches of transformers are all of one length."""
        return self._fast is not None

    @torch.inference_mode()
    def start(self, sources: Sequence[Sequence[int]]) -> ModelState:
        """Encode the sources and decode the forced start of each translation."""
        encoded, mask = self._model.encode(sources, self._encoder)
        if self._fast is None:
            generic = HfCache(self._model, encoded, mask)
            return ModelState(generic.begin(), generic)
        memory = FastCache(self._fast, encoded, mask)
        return ModelState(memory.begin(self._model.start_ids), memory)

    @torch.inference_mode()
    def advance(self, state: ModelState, rows: torch.Tensor, tokens: torch.Tensor) -> ModelState:
        """Go on: new row ``i`` is old row ``rows[i]`` followed by ``tokens[i]``. Uses the state up."""
        memory, state.memory = state.memory, None
        if memory is None:
            raise ModelError("this state was advanced before; go on from the state that came of it")
        return ModelState(memory.step(rows, tokens), memory)

    @torch.inference_mode()
    def join(self, state: ModelState, others: ModelState) -> ModelState:
        """Go on with the rows of both; uses both up."""
        memory, other = state.memory, others.memory
        state.memory = others.memory = None
        if not isinstance(memory, FastCache) or not isinstance(other, FastCache):
            raise ModelError("only states of our own decoder that were not advanced before can be joined")
        memory.join(other)
        return ModelState(torch.cat([state.keys, others.keys]), memory)

    @torch.inference_mode()
    def score(self, state: ModelState, score_gap: torch.Tensor | None = None) -> torch.Tensor:
        """Give the log-probabilities of the next token, ``(rows, vocabulary)``; all rows are worth the same trouble."""
        logits = self._logits(state.keys)
        if logits.device.type != "cpu":
            return logits.log_softmax(-1)
        # In place: on a CPU, getting fresh memory of this size from the system takes longer than the arithmetic.
        return torch.log_softmax(logits, -1, out=logits)

    def _logits(self, keys: torch.Tensor) -> torch.Tensor:
        if self._project is None:
            return self._model.project(keys)
        scale = self._model.projection.scale
        return self._project(keys if scale == 1 else keys * scale).float()


class HfCache:
    """The caches of transformers: fits every family."""

    def __init__(self, model: Model, encoded: torch.Tensor, mask: torch.Tensor) -> None:
        self._model = model
        self._encoded = encoded  # (rows, source, width): of each row's sentence
        self._mask = mask  # (rows, source)
        self._owners = torch.arange(len(mask), device=mask.device)  # which sentence each row belongs to
        self._cache = EncoderDecoderCache(DynamicCache(), DynamicCache())

    def begin(self) -> torch.Tensor:
        """Decode the forced start, one row for each sentence."""
        return self._decode(torch.tensor([self._model.start_ids] * len(self._mask), device=self._mask.device))

    def step(self, rows: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """See :class:`KVCache`."""
        self._cache.self_attention_cache.reorder_cache(rows)  # type: ignore[arg-type]
        owners = self._owners[rows]
        # Rows mostly move within their sentence, and what was read from the source need not be moved then.
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
