"""Teacher forcing: the model's outputs at every token of given translations, and what their keys reveal.

Works on keys, an output projection and the last decoder layer. Knows nothing of text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lacuna.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Logits per block (16 MB): a batch of long sentences times a vocabulary of 250,000 would take gigabytes. On a CPU this
# size is faster than larger ones; a GPU needs larger blocks.
_LOGITS_AT_ONCE = 2**22
_TIMES_ON_GPU = 4
# On a CPU each logit is read several times, so a part of a block is processed while it is in the cache. This adds about
# 10 % to the time of the projection (16,000 tokens, dimension 512); whole blocks add 40 to 60 %.
_CACHED_LOGITS = 2**18


@dataclass(frozen=True, slots=True)
class TeacherForced:
    """Outputs of a model at each token of given translations. Rows run over sentences, then positions; on the CPU.

    :param keys: Inputs of the output projection, float32.
    :param predictions: The most probable token; of equal ones, the lowest id.
    :param log_p_gold: Natural log-probability of the given token.
    :param entropy: Entropy of the distribution, in nats.
    :param lengths: Number of rows of each sentence.
    """

    keys: torch.Tensor  # (rows, dimension)
    predictions: torch.Tensor  # (rows,)
    log_p_gold: torch.Tensor  # (rows,)
    entropy: torch.Tensor  # (rows,)
    lengths: tuple[int, ...]


def fits_positions(source: int, target: int, positions: int, start_tokens: int = 1) -> bool:
    """Return whether a pair of these lengths fits a model, in training and under teacher forcing.

    The encoder reads the whole source, with its end token. The decoder reads the start tokens and the target without
    its last token, the end token, which is only predicted.

    :param source: Number of source tokens, with tags and end token.
    :param target: Number of target tokens, with the end token and without start tokens.
    :param positions: Largest number of tokens that encoder or decoder can read.
    :param start_tokens: Number of tokens that every translation starts with.
    """
    return 1 <= source <= positions and start_tokens + target - 1 <= positions


def score_keys(
    keys: torch.Tensor, gold: torch.Tensor, project: Callable[[torch.Tensor], torch.Tensor], vocabulary_size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return prediction, log-probability of the gold token and entropy for each key, in blocks of bounded size."""
    on_cpu = keys.device.type == "cpu"
    rows = max(1, _LOGITS_AT_ONCE * (1 if on_cpu else _TIMES_ON_GPU) // vocabulary_size)
    cached_rows = max(1, _CACHED_LOGITS // vocabulary_size) if on_cpu else rows
    parts = []
    for some_keys, some_gold in zip(torch.split(keys, rows), torch.split(gold, rows), strict=True):
        logits = torch.split(project(some_keys), cached_rows)
        parts += [_score_logits(*part) for part in zip(logits, torch.split(some_gold, cached_rows), strict=True)]
    predictions, log_p_gold, entropies = (torch.cat(column) for column in zip(*parts, strict=True))
    return predictions, log_p_gold, entropies


def _score_logits(logits: torch.Tensor, gold: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return prediction, log-probability of the gold token and entropy, with one exponential per logit.

    With x the logits minus their maximum and z the sum of exp(x): log p = x - log z, and the entropy is
    log z - sum(exp(x) x) / z, the sum of two nonnegative terms. The logits are overwritten.
    """
    # Of equal maxima, argmax returns the first. On a CPU NumPy's is 8 times as fast as that of torch, and its
    # exponential twice.
    on_cpu = logits.device.type == "cpu"
    predictions = torch.from_numpy(logits.numpy().argmax(-1)) if on_cpu else logits.argmax(-1)
    shifted = logits.sub_(logits.gather(-1, predictions[:, None]))
    weights = torch.from_numpy(np.exp(shifted.numpy())) if on_cpu else shifted.exp()
    total = weights.sum(-1)
    log_p_gold = shifted.gather(-1, gold[:, None])[:, 0] - total.log()
    weighted = shifted.mul_(weights).sum(-1)
    if weighted.isnan().any():  # 0 * -inf, for a token that the bias rules out; it counts 0
        weighted = shifted.nan_to_num_(nan=0.0).sum(-1)
    return predictions, log_p_gold, total.log() - weighted / total


# Tolerance for the mean square of a normalized key, which is 1. Float16 keys are within 0.001; keys of the other kind
# were off by 0.4 or more with a trained model.
_TOLERANCE = 0.1
# Dimensions with a smaller weight (relative to the largest) are left out: dividing by it amplifies rounding errors.
_SMALL_WEIGHT = 1e-3


@dataclass(frozen=True, slots=True)
class LastLayer:
    """The last layer of a decoder.

    :param norms: The layer norm that produces the keys of each kind, ``out`` and ``ffn_in``.
    :param layer: The layer itself for post-norm models, whose last output is the key (Marian, FSMT, BART); otherwise
        ``None``.
    """

    norms: dict[str, Any]
    layer: Any

    @classmethod
    def of(cls, hf: PreTrainedModel) -> LastLayer:
        """Return the last layer of a supported model."""
        decoder: Any = hf.get_decoder()
        if hf.config.model_type in ("t5", "mt5"):
            return cls({"out": decoder.final_layer_norm, "ffn_in": decoder.block[-1].layer[-1].layer_norm}, None)
        layer = decoder.layers[-1]
        if hf.config.model_type in ("m2m_100", "mbart"):
            return cls({"out": decoder.layer_norm, "ffn_in": layer.final_layer_norm}, None)
        return cls({"out": layer.final_layer_norm, "ffn_in": layer.encoder_attn_layer_norm}, layer)

    def matches_key_kind(self, kind: str, keys: torch.Tensor) -> torch.Tensor:
        """Return for each key ``(rows, dimension)`` whether the norm of that kind can have produced it: ``(rows,)``.

        Without the norm's weight and bias, the mean square of such a key is 1.
        """
        norm = self.norms[kind]
        bias = getattr(norm, "bias", None)  # T5's norms have none
        shifted = keys.to(norm.weight.device, torch.float32)
        if bias is not None:
            shifted = shifted - bias.float()
        weight = norm.weight.float()
        usable = weight.abs() > _SMALL_WEIGHT * weight.abs().max()
        mean_square: torch.Tensor = (shifted[:, usable] / weight[usable]).square().mean(-1)
        return (mean_square - 1).abs() < _TOLERANCE

    def apply_ffn(self, keys: torch.Tensor, name: str) -> torch.Tensor:
        """Turn keys of kind ``ffn_in`` into ``out`` as the layer does: feed-forward, residual and norm."""
        if self.layer is None:
            raise ModelError(
                f"{name}: keys of kind ffn_in cannot be turned into keys of kind out, because this is a pre-norm "
                "model: its residual is the state before the norm, which is not in such keys; build the store again"
            )
        layer = self.layer
        x = keys.to(layer.fc1.weight.device, layer.fc1.weight.dtype)
        finished: torch.Tensor = layer.final_layer_norm(x + layer.fc2(layer.activation_fn(layer.fc1(x))))
        return finished.float()
