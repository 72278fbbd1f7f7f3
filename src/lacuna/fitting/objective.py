"""What is minimized when a combiner is fitted, and the loop that minimizes it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import nn

from lacuna.combiners.base import Combiner, Neighbors, Weighing, first_places
from lacuna.errors import SettingError
from lacuna.progress import Progress

# Log-probabilities are cut off here: a model may shut a token out for good, and the mean of all would be -infinity.
LOWEST_LOG_P = -1000.0

# The values of so many tokens are compared with each other at once: k * k comparisons for each of them.
_TOKENS_AT_ONCE = 4096

KeyReader = Callable[[torch.Tensor], torch.Tensor]


def _no_keys(rows: torch.Tensor) -> torch.Tensor:
    raise LookupError("these tokens were collected without keys")


@dataclass(frozen=True, eq=False)
class TokenCache:
    """Tokens with their neighbors and what the model alone thinks.

    :param distances: Of the neighbors, as in :class:`~lacuna.combiners.base.Neighbors`: (tokens, k).
    :param values: (tokens, k).
    :param log_weights: (tokens, k), or ``None``.
    :param gold: The right tokens: (tokens,).
    :param log_p_gold: Of the model: (tokens,).
    :param log_p_values: Of the model, of each retrieved value; anything where there is none: (tokens, k).
    :param log_p_sum: Of the model, summed over the vocabulary: (tokens,).
    :param vocabulary_size: How many summands that has.
    :param sentences: The sentence each token is of: (tokens,).
    :param read_queries: Reads what some tokens were searched with; ``None`` where no one needs it: (rows, dimension).
    :param read_keys: Reads the neighbors' keys of some tokens, zeros where there is none: (rows, k, dimension).
    """

    distances: torch.Tensor
    values: torch.Tensor
    log_weights: torch.Tensor | None
    gold: torch.Tensor
    log_p_gold: torch.Tensor
    log_p_values: torch.Tensor
    log_p_sum: torch.Tensor
    vocabulary_size: int
    sentences: torch.Tensor
    read_queries: KeyReader | None = None
    read_keys: KeyReader = _no_keys

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return len(self.gold)

    @cached_property
    def first_places(self) -> torch.Tensor:
        """The place of the nearest neighbor with the same value: (tokens, k)."""
        return torch.cat([first_places(part) for part in self.values.split(_TOKENS_AT_ONCE)])

    @cached_property
    def says_gold(self) -> torch.Tensor:
        """Whether a neighbor's value is the right token: (tokens, k)."""
        return self.values == self.gold[:, None]

    def neighbors(self, rows: torch.Tensor) -> Neighbors:
        """Return the neighbors of some tokens; their keys are read when they are asked for."""
        return Neighbors(
            self.distances.index_select(0, rows),
            self.values.index_select(0, rows),
            None if self.log_weights is None else self.log_weights.index_select(0, rows),
            None if self.read_queries is None else self.read_queries(rows),
            lambda: self.read_keys(rows),
        )


# Tokens that are weighed at once where no gradient is wanted.
_LOSSES_AT_ONCE = 1024
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
    for some in rows.split(_LOSSES_AT_ONCE):
        mass = combiner.mass(cache.neighbors(some))
        share = torch.log1p(-mass.sum(1).clamp(max=1 - torch.finfo(mass.dtype).eps))
        total += float(losses(cache, some, Weighing(share, mass)).sum(dtype=torch.float64))
    return math.exp(total / len(rows))


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train.

    :param learning_rate: Of Adam.
    :param betas: Of Adam.
    :param smoothing: Label smoothing of the loss.
    :param batch: Tokens for each update.
    :param updates: At most so many.
    :param check_every: Updates between two looks at the held-out tokens.
    :param shrink: What the learning rate is multiplied by after ``shrink_after`` checks without progress.
    :param shrink_after: See ``shrink``.
    :param stop_after: Checks without progress after which it ends; the best weights are kept.
    :param clip: The largest norm of a gradient.
    """

    learning_rate: float
    betas: tuple[float, float]
    smoothing: float
    batch: int
    updates: int
    check_every: int
    shrink: float
    shrink_after: int
    stop_after: int
    clip: float = 1.0


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """How it went.

    :param loss: The best held-out loss, whose weights the network now has.
    :param updates: After how many updates that was.
    """

    loss: float
    updates: int


def train(
    network: nn.Module,
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    rows: torch.Tensor,
    held_out_loss: Callable[[], float],
    recipe: Recipe,
    *,
    seed: int,
    progress: Progress,
) -> TrainingRun:
    """Train a network in place, and leave it with the weights that did best on what was held out.

    :param loss_of: The mean loss of some rows.
    :param rows: What to learn from.
    """
    weights = list(network.parameters())
    adam = torch.optim.Adam(weights, recipe.learning_rate, recipe.betas, fused=True)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(adam, factor=recipe.shrink, patience=recipe.shrink_after)
    best, best_weights = TrainingRun(held_out_loss(), 0), copy.deepcopy(network.state_dict())
    for update, batch in enumerate(_batches(rows, recipe, seed), start=1):
        adam.zero_grad()
        loss_of(batch).backward()
        nn.utils.clip_grad_norm_(weights, recipe.clip)
        adam.step()
        progress.advance(1)
        if update % recipe.check_every:
            continue
        loss = held_out_loss()
        schedule.step(loss)
        if loss < best.loss:
            best, best_weights = TrainingRun(loss, update), copy.deepcopy(network.state_dict())
        elif update - best.updates >= recipe.stop_after * recipe.check_every:
            break
    network.load_state_dict(best_weights)
    return best


def _batches(rows: torch.Tensor, recipe: Recipe, seed: int) -> Iterator[torch.Tensor]:
    """Yield batches of rows, in another order each time all were seen."""
    order = torch.Generator().manual_seed(seed)
    left = recipe.updates
    while left > 0:
        for batch in rows[torch.randperm(len(rows), generator=order)].split(recipe.batch)[:left]:
            yield batch
            left -= 1


def hold_out(sentences: torch.Tensor, share: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Split tokens by sentence: rows to learn from, and rows held out.

    :param sentences: The sentence of each token.
    :param share: Of the sentences to hold out, at least one of them.
    """
    different, which = sentences.unique(return_inverse=True)
    if len(different) < 2:
        raise SettingError(
            f"the dev set has {len(different)} sentence; to learn from it and to hold some out, it needs 2"
        )
    drawn = torch.randperm(len(different), generator=torch.Generator().manual_seed(seed))
    held = torch.zeros(len(different), dtype=torch.bool)
    held[drawn[: max(1, min(len(different) - 1, math.floor(share * len(different))))]] = True
    is_held = held[which]
    return (~is_held).nonzero()[:, 0], is_held.nonzero()[:, 0]
