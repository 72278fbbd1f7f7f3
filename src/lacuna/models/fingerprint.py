"""Fingerprint of a model: a hash of everything that its keys depend on.

It covers the weights, the settings that change the computation, and the vocabulary. It does not depend on the file
format, the path, the library version that saved the model, or the direction. Knows nothing of stores.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from lacuna.models.tokenization import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

# Settings that change what the same weights compute. The list is explicit, because new versions of transformers add
# fields and a fingerprint must stay the same. Sizes are covered by the shapes of the weights.
_DECIDING = (
    "model_type",
    "activation_function",
    "decoder_attention_heads",
    "decoder_start_token_id",
    "encoder_attention_heads",
    "eos_token_id",
    "feed_forward_proj",
    "layer_norm_epsilon",
    "num_heads",
    "pad_token_id",
    "relative_attention_max_distance",
    "scale_decoder_outputs",
    "scale_embedding",
)


def fingerprint_of(hf: PreTrainedModel, tokenizer: Tokenizer) -> str:
    """Hash a loaded float32 model and its tokenizer (64 hexadecimal digits)."""
    total = hashlib.sha256()
    for line in (*_weight_lines(hf), *_config_lines(hf.config), *_tokenizer_lines(tokenizer)):
        total.update(line.encode() + b"\n")
    return total.hexdigest()


def _weight_lines(hf: PreTrainedModel) -> Iterator[str]:
    recomputed = _recomputed(hf)
    digests: dict[tuple[int, torch.Size], str] = {}  # tied weights have many names and are read once
    for name, tensor in sorted(hf.state_dict().items()):
        if name in recomputed:
            continue
        storage = (tensor.data_ptr(), tensor.shape)
        if storage not in digests:
            digests[storage] = _digest(tensor)
        yield f"weight {name} {tensor.dtype} {tuple(tensor.shape)} {digests[storage]}"


def _recomputed(hf: PreTrainedModel) -> set[str]:
    """Return the weights that are computed, not learned: their last bit depends on the machine, and FSMT's grow."""
    sinusoidal = (name for name, module in hf.named_modules() if "Sinusoidal" in type(module).__name__)
    return {f"{name}.weight" for name in sinusoidal}


def _digest(tensor: torch.Tensor) -> str:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().data).hexdigest()


def _config_lines(config: PreTrainedConfig) -> Iterator[str]:
    for field in _DECIDING:
        value = getattr(config, field, None)
        if value is not None:
            yield f"config {field} {json.dumps(value)}"


def _tokenizer_lines(tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the vocabulary, and all that decides how text is tokenized: merges, scores, sentencepiece models."""
    yield f"vocabulary {_hash_json(sorted(tokenizer.get_vocab().items()))}"
    for name in ("target_encoder", "encoder", "decoder"):  # FSMT and Marian may have a vocabulary for each side
        vocabulary = getattr(tokenizer, name, None)
        if isinstance(vocabulary, dict):
            yield f"{name} {_hash_json(sorted(vocabulary.items()))}"
    if hasattr(tokenizer, "bpe_ranks"):
        yield f"merges {_hash_json(sorted(tokenizer.bpe_ranks.items(), key=lambda pair: pair[1]))}"
    if hasattr(tokenizer, "word_bpe"):
        for name, content in sorted(tokenizer.word_bpe.files.items()):
            yield f"{name} {hashlib.sha256(content).hexdigest()}"
    for name in ("spm_source", "spm_target", "sp_model"):
        if hasattr(tokenizer, name):
            yield f"{name} {hashlib.sha256(getattr(tokenizer, name).serialized_model_proto()).hexdigest()}"
    if tokenizer.is_fast:
        backend = json.loads(tokenizer.backend_tokenizer.to_str())
        yield f"model {_hash_json([backend['model'].get('vocab'), backend['model'].get('merges')])}"
        yield f"normalizer {_hash_json(backend['normalizer'])}"


def _hash_json(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
