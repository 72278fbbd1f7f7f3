"""The objective of fitting, the loop that minimizes it, and the result.

The loss is the cross-entropy of the interpolated distribution over the whole vocabulary, computed exactly from the few
numbers that a :class:`~lacuna.fitting.token_cache.TokenCache` holds for each token.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from lacuna.combiners.base import Combiner, SavableCombiner
from lacuna.combiners.interpolation import Weighing, retrieved_gains
from lacuna.errors import SettingError
from lacuna.fitting.token_cache import TokenCache
from lacuna.progress import Progress
from lacuna.workers import WorkerPool

# Tokens per block where no gradient is needed.
_TOKENS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Edge:
    """A setting whose best value is the last one that was tried, so a value beyond may be better.

    :param setting: Its name.
    :param largest: Whether it is the largest value, not the smallest.
    """

    setting: str
    value: float
    largest: bool

    @classmethod
    def of(cls, setting: str, value: float, tried: Sequence[float]) -> Edge | None:
        """Return the edge at which a value is; ``None`` if there are tried values on both sides, or only one."""
        if len(set(tried)) < 2 or min(tried) < value < max(tried):
            return None
        return cls(setting, value, value == max(tried))

    def __str__(self) -> str:
        end, beyond = ("largest", "larger") if self.largest else ("smallest", "smaller")
        return (
            f"the best {self.setting} on dev, {self.value:g}, is the {end} of those that are tried; "
            f"a {beyond} one may be better"
        )


@dataclass(frozen=True, eq=False, slots=True)
class Fitted:
    """A fitted combiner with its dev perplexity.

    :param perplexity: On the dev tokens by which it was chosen; adaptive is trained on the others.
    :param model_perplexity: Of the model alone on the same tokens.
    :param collecting: Seconds for the dev pass and other searches.
    :param learning: Seconds for fitting proper.
    :param skipped: Dev pairs that were too long for the model and were left out.
    :param at_edge: Settings whose best value is the last one that was tried.
    """

    combiner: SavableCombiner
    perplexity: float
    model_perplexity: float
    collecting: float
    learning: float
    skipped: int
    at_edge: tuple[Edge, ...] = ()


def losses(cache: TokenCache, rows: torch.Tensor, weighing: Weighing, smoothing: float = 0.0) -> torch.Tensor:
    """Return ``(1 - smoothing) * -log p(gold) + smoothing * mean over v of -log p(v)`` for some tokens: (rows,).

    p is the interpolated distribution. For a token v that no neighbor has, ``log p(v) = log_model_share + log
    p_model(v)``. So the sum over the vocabulary is the model's sum plus the gain of each distinct retrieved value.
    """
    share = weighing.log_model_share
    values, ranks = cache.log_p_values.index_select(0, rows), cache.first_ranks.index_select(0, rows)
    gains = retrieved_gains(weighing, values, ranks)
    gold_gain = (gains * cache.says_gold.index_select(0, rows)).sum(1)
    log_p_gold = share + cache.log_p_gold.index_select(0, rows) + gold_gain
    log_p_mean = share + (cache.log_p_sum.index_select(0, rows) + gains.sum(1)) / cache.vocabulary_size
    return -(1 - smoothing) * log_p_gold - smoothing * log_p_mean


def perplexity(cache: TokenCache, rows: torch.Tensor, combiner: Combiner | None = None) -> float:
    """Return the perplexity of some tokens under the model alone, or with a combiner."""
    if combiner is None:
        return math.exp(-float(cache.log_p_gold[rows].double().mean()))

    def total_of(block: torch.Tensor) -> float:
        weighing = Weighing.of(combiner.mass(cache.neighbors(block)))
        return float(losses(cache, block, weighing).sum(dtype=torch.float64))

    total = sum(WorkerPool.of_process().map(total_of, rows.split(_TOKENS_AT_ONCE)))
    return math.exp(total / len(rows))


@dataclass(frozen=True, slots=True)
class FitRecipe:
    """Hyperparameters of the training of a combiner.

    :param learning_rate: Initial learning rate of Adam.
    :param betas: Betas of Adam.
    :param label_smoothing: Label smoothing of the loss.
    :param batch: Tokens per update.
    :param updates: Largest number of updates.
    :param evaluate_every: Updates between two evaluations on the held-out tokens.
    :param decay: Factor of the learning rate after ``decay_patience`` evaluations without improvement.
    :param decay_patience: See ``decay``.
    :param patience: Early stopping after this many evaluations without improvement; the best weights are kept.
    :param clip: Largest norm of the gradient.
    """

    learning_rate: float
    betas: tuple[float, float]
    label_smoothing: float
    batch: int
    updates: int
    evaluate_every: int
    decay: float
    decay_patience: int
    patience: int
    clip: float = 1.0


@dataclass(frozen=True, slots=True)
class FitRun:
    """Outcome of the training of a combiner.

    :param loss: Best held-out loss; the network has the weights that gave it.
    :param updates: Number of updates after which it was reached.
    """

    loss: float
    updates: int


def train(
    network: nn.Module,
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    rows: torch.Tensor,
    held_out_loss: Callable[[], float],
    recipe: FitRecipe,
    *,
    seed: int,
    progress: Progress,
) -> FitRun:
    """Train a network in place and leave it with the weights of the best held-out loss.

    :param loss_of: Mean loss of a batch of rows.
    :param rows: Rows to train on.
    """
    weights = list(network.parameters())
    adam = torch.optim.Adam(weights, recipe.learning_rate, recipe.betas, fused=True)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(adam, factor=recipe.decay, patience=recipe.decay_patience)
    best, best_weights = FitRun(held_out_loss(), 0), copy.deepcopy(network.state_dict())
    for update, batch in enumerate(_batches(rows, recipe, seed), start=1):
        adam.zero_grad()
        loss_of(batch).backward()
        nn.utils.clip_grad_norm_(weights, recipe.clip)
        adam.step()
        progress.advance(1)
        if update % recipe.evaluate_every:
            continue
        loss = held_out_loss()
        schedule.step(loss)
        if loss < best.loss:
            best, best_weights = FitRun(loss, update), copy.deepcopy(network.state_dict())
        elif update - best.updates >= recipe.patience * recipe.evaluate_every:
            break
    network.load_state_dict(best_weights)
    return best


def _batches(rows: torch.Tensor, recipe: FitRecipe, seed: int) -> Iterator[torch.Tensor]:
    """Yield batches of rows, shuffled again in every epoch."""
    order = torch.Generator().manual_seed(seed)
    left = recipe.updates
    while left > 0:
        for batch in rows[torch.randperm(len(rows), generator=order)].split(recipe.batch)[:left]:
            yield batch
            left -= 1


def hold_out(sentences: torch.Tensor, share: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Split tokens by sentence: rows to train on, and held-out rows.

    :param sentences: Sentence of each token.
    :param share: Share of the sentences to hold out; at least one is.
    """
    different, which = sentences.unique(return_inverse=True)
    if len(different) < 2:
        raise SettingError(
            f"the dev set has {len(different)} sentence; fitting needs 2 or more, since some are held out"
        )
    drawn = torch.randperm(len(different), generator=torch.Generator().manual_seed(seed))
    held = torch.zeros(len(different), dtype=torch.bool)
    held[drawn[: max(1, min(len(different) - 1, math.floor(share * len(different))))]] = True
    is_held = held[which]
    return (~is_held).nonzero()[:, 0], is_held.nonzero()[:, 0]
