"""The most probable tokens of distributions over a vocabulary, in torch, or by a compiled kernel on a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from lacuna.kernels import load_kernels
from lacuna.likely_tokens import NextTokens

_BLOCK = 64


def best_tokens(log_probs: torch.Tensor, count: int, banned: Sequence[int] = ()) -> NextTokens:
    """Return the most probable tokens of each row of ``(rows, vocabulary)``, at most ``count``.

    :param banned: Tokens that are left out; their log-probabilities are overwritten.
    """
    if banned and log_probs.device.type == "cpu":
        log_probs.numpy()[:, list(banned)] = -np.inf  # a tenth of the time that torch takes
    elif banned:
        log_probs[:, list(banned)] = -torch.inf
    best, tokens = (part.cpu().numpy() for part in top_k(log_probs, min(count, log_probs.shape[1])))
    return NextTokens(tokens, best)


def top_k(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the ``k`` largest of each row of ``(rows, columns)``, largest first, and their columns.

    The k largest numbers lie in the k blocks with the largest maxima, and block maxima are cheap to compute: on a CPU
    this takes a fraction of the time of ``torch.topk`` over a vocabulary. Ties are broken arbitrarily.
    """
    columns = scores.shape[1]
    if scores.device.type == "cpu" and scores.dtype == torch.float32 and (kernels := load_kernels()) is not None:
        values, places = np.empty((len(scores), k), np.float32), np.empty((len(scores), k), np.int64)
        kernels.top_k(scores.numpy(), k, values, places)
        return torch.from_numpy(values), torch.from_numpy(places)
    blocks = columns // _BLOCK
    if scores.device.type != "cpu" or blocks < 4 * k:
        best = scores.topk(k)
        return best.values, best.indices
    split = blocks * _BLOCK
    grouped = scores[:, :split].view(-1, blocks, _BLOCK)
    chosen = grouped.amax(-1).topk(k, sorted=False).indices  # (rows, k)
    # The last columns may not fill a block; they are few, so all of them are candidates.
    candidates = grouped.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    best = torch.cat([candidates, scores[:, split:]], 1).topk(k)
    block, offset = best.indices // _BLOCK, best.indices % _BLOCK
    inside = chosen.gather(1, block.clamp(max=k - 1)) * _BLOCK + offset
    return best.values, torch.where(block < k, inside, best.indices - k * _BLOCK + split)
