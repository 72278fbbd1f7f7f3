"""Fitting KSTER on entries of the memories themselves, each with itself left out; dev tokens say when to stop.

The paper takes 30,000 updates of 32,768 tokens, at a label smoothing of 0.1. This is its loss and optimizer scaled to
a CPU: fewer and smaller updates with a larger learning rate, over a sample of the entries, and with the smoothing that
adaptive kNN-MT is fitted with.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lacuna.combiners.kster import Kster
from lacuna.fitting.objective import Recipe, TokenCache, TrainingRun, losses, train
from lacuna.progress import SILENT, Progress

RECIPE = Recipe(
    learning_rate=5e-4,
    betas=(0.9, 0.999),
    smoothing=0.001,
    batch=512,
    updates=1500,
    check_every=50,
    shrink=0.7,
    shrink_after=2,
    stop_after=6,
)
# Tokens weighed at once where no gradient is wanted: k keys are read for each.
_TOKENS_AT_ONCE = 512


@dataclass(frozen=True, eq=False, slots=True)
class KsterFit:
    """What was learned.

    :param run: How the training went; its loss is that of the dev tokens.
    """

    combiner: Kster
    run: TrainingRun


def fit_kster(
    entries: TokenCache,
    dev: TokenCache,
    dimension: int,
    *,
    kernel: str = Kster.kernel,
    recipe: Recipe = RECIPE,
    seed: int = 1,
    progress: Progress = SILENT,
) -> KsterFit:
    """Learn from entries; the same seed gives the same weights.

    :param entries: With queries and keys, and as many neighbors as the combiner is to have.
    :param dev: Tokens that are not in the memories, with queries and keys; all are looked at after every few updates.
    :param dimension: Width of a key.
    """
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        combiner = Kster(dimension, entries.values.shape[1], kernel)

    def loss_of(rows: torch.Tensor) -> torch.Tensor:
        return losses(entries, rows, combiner.weigh(entries.neighbors(rows)), recipe.smoothing).mean()

    @torch.no_grad()
    def dev_loss() -> float:
        parts = torch.arange(dev.tokens).split(_TOKENS_AT_ONCE)
        total = sum(float(losses(dev, rows, combiner.weigh(dev.neighbors(rows))).sum()) for rows in parts)
        return total / dev.tokens

    progress.start("fit kster", recipe.updates, "updates")
    run = train(combiner.network, loss_of, torch.arange(entries.tokens), dev_loss, recipe, seed=seed, progress=progress)
    progress.finish(f"(best after {run.updates:,} updates)")
    return KsterFit(combiner, run)
