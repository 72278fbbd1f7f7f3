"""What a model says of given translations, position by position.

Knows keys and a projection; nothing of the model they come from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

# Logits are made for so many numbers at once (16 MB): a batch of long sentences times a vocabulary of 250,000 would
# otherwise take gigabytes. A GPU wants larger pieces; on a CPU these are quicker.
_LOGITS_AT_ONCE = 2**22
_TIMES_ON_GPU = 4
# On a CPU each logit is read several times, so a stretch of them should stay in its cache. Going over all of them for
# each step instead took 40 to 60 % on top of the projection (16,000 tokens, width 512); this takes about 10.
_CACHED_LOGITS = 2**18


@dataclass(frozen=True, slots=True)
class ForcedDecoding:
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


def judge(
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
