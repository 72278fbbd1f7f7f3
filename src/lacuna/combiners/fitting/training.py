"""Learning by gradient descent with a held-out set that says when to stop. Knows nothing of what is learned."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from lacuna.errors import SettingError
from lacuna.progress import Progress


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
