"""What a model says of given translations, position by position.

Knows keys and a projection; nothing of the model they come from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import M2M100Config, MBartConfig, MT5Config, PreTrainedModel, T5Config

from lacuna.errors import ModelError

# Logits are made for so many numbers at once (16 MB): a batch of long sentences times a vocabulary of 250,000 would
# otherwise take gigabytes. A GPU wants larger pieces; on a CPU these are quicker.
_LOGITS_AT_ONCE = 2**22
_TIMES_ON_GPU = 4
# On a CPU each logit is read several times, so a stretch of them should stay in its cache. Going over all of them for
# each step instead took 40 to 60 % on top of the projection (16,000 tokens, width 512); this takes about 10.
_CACHED_LOGITS = 2**18


@dataclass(frozen=True, slots=True)
class TeacherForced:
    """What a model says at each position of given translations. Rows run over sentences, then positions; on the CPU.

    :param keys: What enters the output projection, float32.
    :param predictions: The most probable token; of equals, the one with the lowest id.
    :param log_p_gold: Natural log-probability of the given token.
    :param entropy: Entropy of the whole distribution, in nats.
    :param lengths: Rows of each sentence.
    """

    keys: torch.Tensor  # (rows, dimension)
    predictions: torch.Tensor  # (rows,)
    log_p_gold: torch.Tensor  # (rows,)
    entropy: torch.Tensor  # (rows,)
    lengths: tuple[int, ...]


def score_keys(
    keys: torch.Tensor, gold: torch.Tensor, project: Callable[[torch.Tensor], torch.Tensor], vocabulary_size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Give prediction, log-probability of the gold token and entropy for each key, a bounded number at a time."""
    on_cpu = keys.device.type == "cpu"
    rows = max(1, _LOGITS_AT_ONCE * (1 if on_cpu else _TIMES_ON_GPU) // vocabulary_size)
    cached_rows = max(1, _CACHED_LOGITS // vocabulary_size) if on_cpu else rows
    parts = []
    for some_keys, some_gold in zip(torch.split(keys, rows), torch.split(gold, rows), strict=True):
        logits = torch.split(project(some_keys), cached_rows)
        parts += [_read(*stretch) for stretch in zip(logits, torch.split(some_gold, cached_rows), strict=True)]
    predictions, log_p_gold, entropies = (torch.cat(column) for column in zip(*parts, strict=True))
    return predictions, log_p_gold, entropies


def _read(logits: torch.Tensor, gold: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Give prediction, log-probability of the gold token and entropy, with one exponential for each logit.

    With x the logits less their maximum, and z the sum of exp(x): log p = x - log z, and the entropy is
    log z - sum(exp(x) x) / z, two terms of which neither can be negative.
    """
    # Of equal maxima, argmax is documented to return the first.
    predictions = logits.argmax(-1, keepdim=True)
    shifted = logits - logits.gather(-1, predictions)
    weights = shifted.exp()
    total = weights.sum(-1)
    weighted = torch.linalg.vecdot(weights, shifted)
    if weighted.isnan().any():  # 0 times -inf, of a token the bias shuts out: counts 0
        weighted = torch.linalg.vecdot(weights, shifted.clamp(min=torch.finfo(shifted.dtype).min))
    log_p_gold = shifted.gather(-1, gold[:, None])[:, 0] - total.log()
    return predictions[:, 0], log_p_gold, total.log() - weighted / total


# How far the mean square of an undone key may be from 1. In half precision it is off by less than 0.001; keys of the
# other kind were off by 0.4 or more with a trained model.
_TOLERANCE = 0.1
# Where a norm's weight is next to nothing, undoing it would only make rounding errors large.
_SMALL_WEIGHT = 1e-3


@dataclass(frozen=True, slots=True)
class LastLayer:
    """The last layer of a decoder.

    :param norms: The norm that makes the keys of each kind.
    :param layer: The layer, where its output is the decoder's (normalized last: Marian, FSMT, BART); otherwise None.
    """

    norms: dict[str, Any]
    layer: Any

    @classmethod
    def of(cls, hf: PreTrainedModel) -> LastLayer:
        """Find it in a model of a supported kind."""
        decoder: Any = hf.get_decoder()
        if isinstance(hf.config, T5Config | MT5Config):
            return cls({"out": decoder.final_layer_norm, "ffn_in": decoder.block[-1].layer[-1].layer_norm}, None)
        layer = decoder.layers[-1]
        if isinstance(hf.config, M2M100Config | MBartConfig):
            return cls({"out": decoder.layer_norm, "ffn_in": layer.final_layer_norm}, None)
        return cls({"out": layer.final_layer_norm, "ffn_in": layer.encoder_attn_layer_norm}, layer)

    def matches_key_kind(self, kind: str, keys: torch.Tensor) -> torch.Tensor:
        """Say of each key ``(rows, dimension)`` whether the norm of that kind could have given it: ``(rows,)``.

        With the norm's weight and bias undone, the squares of every key have a mean of 1.
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
        """Carry keys of kind ``ffn_in`` to ``out``, as the layer itself does: feed-forward, residual and norm."""
        if self.layer is None:
            raise ModelError(
                f"{name}: keys of kind ffn_in cannot be turned into keys of kind out, because this kind of model adds "
                "to the feed-forward what was there before its norm, which such keys do not hold; build the store anew"
            )
        layer = self.layer
        x = keys.to(layer.fc1.weight.device, layer.fc1.weight.dtype)
        finished: torch.Tensor = layer.final_layer_norm(x + layer.fc2(layer.activation_fn(layer.fc1(x))))
        return finished.float()
