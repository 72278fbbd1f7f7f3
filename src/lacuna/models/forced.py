"""What a model says of given translations, position by position.

Knows keys and a projection; nothing of the model they come from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

# Logits are made for so many numbers at once (64 MB): a batch of long sentences times a vocabulary of 250,000 would
# otherwise take gigabytes.
_LOGITS_AT_ONCE = 2**24


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
    rows = max(1, _LOGITS_AT_ONCE // vocabulary_size)
    parts = []
    for some_keys, some_gold in zip(torch.split(keys, rows), torch.split(gold, rows), strict=True):
        logits = project(some_keys)
        log_p = logits.log_softmax(-1)
        # entr(0) is 0, where p * log p would be NaN for a token the bias shuts out.
        entropy = torch.special.entr(log_p.exp()).sum(-1)
        # Of equal maxima, argmax is documented to return the first.
        parts.append((logits.argmax(-1), log_p.gather(-1, some_gold[:, None])[:, 0], entropy))
    predictions, log_p_gold, entropies = (torch.cat(column) for column in zip(*parts, strict=True))
    return predictions, log_p_gold, entropies
