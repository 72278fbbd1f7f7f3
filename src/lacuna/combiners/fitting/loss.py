"""The loss of a combiner on cached tokens: exactly that of the whole mixed distribution, from k numbers per token."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from lacuna.combiners.base import Combiner
from lacuna.combiners.fitting.cache import TokenCache
from lacuna.combiners.weighing import Weighing

# Tokens that are weighed at once where no gradient is wanted.
_TOKENS_AT_ONCE = 1024
# From here on log(1 + exp(x)) is x to the last digit.
_EXACT = 50.0


def losses(cache: TokenCache, rows: torch.Tensor, weighing: Weighing, smoothing: float = 0.0) -> torch.Tensor:
    """Return ``(1 - smoothing) * -log p(gold) + smoothing * mean over v of -log p(v)`` for some tokens: (rows,).

    p is the mixture. For a value that no neighbor has, ``log p(v) = log_model_share + log p_model(v)``; so the sum over
    the vocabulary is the model's, plus what each different retrieved value gains.
    """
    share, mass = weighing
    log_p = share[:, None] + cache.log_p_values.index_select(0, rows)
    totals = torch.zeros_like(mass).scatter_add(1, cache.first_places.index_select(0, rows), mass)
    # Where a total is 0 (too far, or not the first of its value), the logarithm would have no gradient.
    ratios = totals.clamp(min=torch.finfo(mass.dtype).tiny).log() - log_p
    gains = F.softplus(ratios, threshold=_EXACT).masked_fill(totals == 0, 0.0)  # log((p + total) / p)
    gold_gain = (gains * cache.says_gold.index_select(0, rows)).sum(1)
    log_p_gold = share + cache.log_p_gold.index_select(0, rows) + gold_gain
    log_p_mean = share + (cache.log_p_sum.index_select(0, rows) + gains.sum(1)) / cache.vocabulary_size
    return -(1 - smoothing) * log_p_gold - smoothing * log_p_mean


def perplexity(cache: TokenCache, rows: torch.Tensor, combiner: Combiner | None = None) -> float:
    """Return the perplexity of some tokens under the model, or under its mixture with what a combiner says."""
    if combiner is None:
        return math.exp(-float(cache.log_p_gold[rows].double().mean()))
    total = 0.0
    for some in rows.split(_TOKENS_AT_ONCE):
        mass = combiner.mass(cache.neighbors(some))
        share = torch.log1p(-mass.sum(1).clamp(max=1 - torch.finfo(mass.dtype).eps))
        total += float(losses(cache, some, Weighing(share, mass)).sum(dtype=torch.float64))
    return math.exp(total / len(rows))
