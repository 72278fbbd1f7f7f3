"""Differences between the families of Hugging Face translation models, in one table.

They differ in five ways: the decoder output that enters the output projection, the projection itself, the start tokens
of a translation, how a direction is set, and how target text is tokenized.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from lacuna.errors import ModelError
from lacuna.models.directions import (
    Asked,
    Direction,
    direct_bart,
    direct_fsmt,
    direct_m2m100,
    direct_marian,
    direct_mbart,
    direct_t5,
)
from lacuna.models.facts import ModelFacts
from lacuna.models.tokenization import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Projection:
    """The output projection: ``logits = scale * keys @ weight.T + bias``."""

    weight: torch.Tensor  # (vocabulary, dimension)
    bias: torch.Tensor | None = None  # (vocabulary,)
    scale: float = 1.0


class Decoder(Protocol):
    """A decoder without the output projection: its ``last_hidden_state`` is the keys."""

    def __call__(
        self,
        *,
        input_ids: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        encoder_attention_mask: torch.Tensor,
        past_key_values: object = None,
        use_cache: bool = False,
    ) -> Any:  # noqa: ANN401 - a transformers output object
        """Run the decoder over target prefixes."""


TargetEncoder = Callable[[Sequence[str]], list[list[int]]]


@dataclass(frozen=True, slots=True)
class Family:
    """One family of models.

    :param examples: Well-known names, for the error that lists supported models.
    :param decoder: Returns the decoder without the projection.
    :param projection: Returns the output projection.
    :param direct: Sets the direction of the tokenizer and returns it; raises if languages are missing or wrong.
    :param target_encoder: Returns a function from target texts to token ids, without special tokens.
    """

    examples: str
    decoder: Callable[[PreTrainedModel], Decoder]
    projection: Callable[[PreTrainedModel], Projection]
    direct: Callable[[ModelFacts, Tokenizer, Asked, str], Direction]
    target_encoder: Callable[[Tokenizer], TargetEncoder]


# --- decoders ------------------------------------------------------------------------------------------------------


def _inner_decoder(hf: PreTrainedModel) -> Decoder:
    decoder: Decoder = hf.get_decoder()
    return decoder


def _fsmt_decoder(hf: PreTrainedModel) -> Decoder:
    """FSMT projects inside its decoder, so make a copy that shares every layer but has no projection."""
    copied = copy.copy(hf.model.decoder)
    copied._modules = {**copied._modules, "output_projection": torch.nn.Identity()}

    def decode(
        *,
        input_ids: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        encoder_attention_mask: torch.Tensor,
        past_key_values: object = None,
        use_cache: bool = False,
    ) -> object:
        length = input_ids.shape[1]
        # FSMT omits the causal mask whenever use_cache is on, its default: the decoder then sees future tokens. With
        # a cache there is one new token at a time, which needs no mask.
        causal = encoder_hidden_states.new_full((length, length), float("-inf")).triu(1)
        return copied(
            input_ids,
            encoder_hidden_states,
            encoder_attention_mask,
            decoder_padding_mask=None,
            decoder_causal_mask=None if past_key_values is not None else causal,
            past_key_values=past_key_values,
            use_cache=use_cache,
        )

    return decode


# --- projections ---------------------------------------------------------------------------------------------------


def _head(hf: PreTrainedModel) -> Projection:
    bias = getattr(hf, "final_logits_bias", None)
    return Projection(hf.lm_head.weight, None if bias is None else bias[0])


def _fsmt_projection(hf: PreTrainedModel) -> Projection:
    # Not get_output_embeddings(): for FSMT that is the decoder's input embedding, tied or not.
    return Projection(hf.model.decoder.output_projection.weight)


def _t5_projection(hf: PreTrainedModel) -> Projection:
    """T5 scales the key where embeddings were trained tied (the original checkpoints; not 1.1, not mT5)."""
    scaled = getattr(hf.config, "scale_decoder_outputs", False)
    return Projection(hf.lm_head.weight, scale=hf.config.d_model**-0.5 if scaled else 1.0)


# --- target text ---------------------------------------------------------------------------------------------------


def _shared_tokenizer(tokenizer: PreTrainedTokenizerBase) -> TargetEncoder:
    # Unigram tokenizers (T5, mBART) have "</s>" and "<pad>" among their subwords and also match them in text.
    controls, unknown = (tokenizer.eos_token_id, tokenizer.pad_token_id), tokenizer.unk_token_id

    def encode(texts: Sequence[str]) -> list[list[int]]:
        sentences = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [[unknown if token in controls else token for token in sentence] for sentence in sentences]

    return encode


def _marian_targets(tokenizer: Tokenizer) -> TargetEncoder:
    if hasattr(tokenizer, "word_bpe"):
        by_words: TargetEncoder = tokenizer.encode_targets
        return by_words
    # With the tokenizer of transformers, the target mode is a flag on the object, which is not thread-safe.
    vocabulary = tokenizer.target_encoder if tokenizer.separate_vocabs else tokenizer.encoder
    unknown = vocabulary[tokenizer.unk_token]

    def encode(texts: Sequence[str]) -> list[list[int]]:
        pieces = (tokenizer.spm_target.encode(text, out_type=str) for text in texts)
        return [[vocabulary.get(piece, unknown) for piece in sentence] for sentence in pieces]

    return encode


def _fsmt_targets(tokenizer: PreTrainedTokenizerBase) -> TargetEncoder:
    """Tokenize as the target language: the tokenizer's own call uses source rules and the source vocabulary."""
    vocabulary = {piece: number for number, piece in tokenizer.decoder.items()}
    unknown = vocabulary[tokenizer.unk_token]

    def encode_one(text: str) -> list[int]:
        text = tokenizer.moses_pipeline(text.lower() if tokenizer.do_lower_case else text, tokenizer.tgt_lang)
        words = tokenizer.moses_tokenize(text, tokenizer.tgt_lang)
        return [vocabulary.get(piece, unknown) for word in words if word for piece in tokenizer.bpe(word).split(" ")]

    return lambda texts: [encode_one(text) for text in texts]


# By ``model_type``.
FAMILIES: dict[str, Family] = {
    "marian": Family("Marian (OPUS-MT)", _inner_decoder, _head, direct_marian, _marian_targets),
    "fsmt": Family("FSMT (facebook/wmt19)", _fsmt_decoder, _fsmt_projection, direct_fsmt, _fsmt_targets),
    "m2m_100": Family("M2M100 and NLLB", _inner_decoder, _head, direct_m2m100, _shared_tokenizer),
    "mbart": Family("mBART and mBART-50", _inner_decoder, _head, direct_mbart, _shared_tokenizer),
    "bart": Family("BART", _inner_decoder, _head, direct_bart, _shared_tokenizer),
    "t5": Family("T5", _inner_decoder, _t5_projection, direct_t5, _shared_tokenizer),
    "mt5": Family("mT5", _inner_decoder, _t5_projection, direct_t5, _shared_tokenizer),
}


def family_of(model_type: str, name: str) -> Family:
    """Return the family of a ``model_type``, which stands for one exact architecture."""
    family = FAMILIES.get(model_type)
    if family is None:
        supported = ", ".join(each.examples for each in FAMILIES.values())
        raise ModelError(f"{name} is a {model_type} model, which is not supported; supported are {supported}")
    return family
