"""Fit KSTER (Jiang et al., 2021), :mod:`lacuna.combiners.kster`, to entries, each left out of its own neighbors.

Dev tokens decide when to stop. The paper takes 30,000 updates of 32,768 tokens with a label smoothing of 0.1. This is
its loss and optimizer, scaled to a CPU: fewer and smaller updates with a larger learning rate, on a sample of the
entries, and with the label smoothing of adaptive kNN-MT.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from lacuna.combiners.kster import Kster
from lacuna.errors import SettingError
from lacuna.fitting.dev_pass import DevSet
from lacuna.fitting.objective import FitRecipe, FitRun, Fitted, losses, perplexity, train
from lacuna.fitting.token_cache import TokenCache, collect_dev, collect_entries
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.workers import one_thread

# Dev pairs, drawn at random, for early stopping.
STOPPING_PAIRS = 250
RECIPE = FitRecipe(
    learning_rate=5e-4,
    betas=(0.9, 0.999),
    label_smoothing=0.001,
    batch=512,
    updates=1500,
    evaluate_every=50,
    decay=0.7,
    decay_patience=2,
    patience=6,
)
# Tokens per block where no gradient is needed; k keys are read for each.
_TOKENS_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class FitKster:
    """Trains on entries of the memories.

    :param k: Neighbors per token.
    :param kernel: laplacian or gaussian.
    :param entries: Entries to learn from. If the memories have more, they are drawn at random.
    """

    name: ClassVar[str] = "kster"
    k: int = Kster.k
    kernel: str = Kster.kernel
    entries: int = 50_000

    def __post_init__(self) -> None:
        with torch.random.fork_rng(devices=()):  # only for its checks
            Kster(1, self.k, self.kernel)
        if self.entries < 1:
            raise SettingError(f"entries: got {self.entries}; allowed is 1 or more")

    def fit(
        self, model: Model, memories: Sequence[Memory], dev: DevSet, *, seed: int = 1, progress: Progress = SILENT
    ) -> Fitted:
        """Fit KSTER."""
        started = time.monotonic()
        stopping = dev.draw(STOPPING_PAIRS, seed)
        held_out = collect_dev(model, memories, stopping, self.k, keep_queries=True, progress=progress)
        entries = collect_entries(model, memories, self.k, most=self.entries, seed=seed, progress=progress)
        collected = time.monotonic()
        fit = fit_kster(entries, held_out, model.dimension, kernel=self.kernel, seed=seed, progress=progress)
        learning = time.monotonic() - collected
        return Fitted(
            fit.combiner,
            math.exp(fit.run.loss),
            perplexity(held_out, torch.arange(held_out.tokens)),
            collected - started,
            learning,
            stopping.skipped(model),
        )


@dataclass(frozen=True, eq=False, slots=True)
class KsterFit:
    """A trained combiner.

    :param run: Outcome of the training, with the loss of the dev tokens.
    """

    combiner: Kster
    run: FitRun


@one_thread()  # the network is tiny
def fit_kster(
    entries: TokenCache,
    dev: TokenCache,
    dimension: int,
    *,
    kernel: str = Kster.kernel,
    recipe: FitRecipe = RECIPE,
    seed: int = 1,
    progress: Progress = SILENT,
) -> KsterFit:
    """Train on entries; the same seed gives the same weights.

    :param entries: With queries and keys, and as many neighbors per entry as the combiner will use.
    :param dev: Tokens that are not in the memories, with queries and keys, for early stopping.
    :param dimension: Dimension of the keys.
    """
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        combiner = Kster(dimension, entries.values.shape[1], kernel)

    def loss_of(rows: torch.Tensor) -> torch.Tensor:
        return losses(entries, rows, combiner.weigh(entries.neighbors(rows)), recipe.label_smoothing).mean()

    @torch.no_grad()
    def dev_loss() -> float:
        parts = torch.arange(dev.tokens).split(_TOKENS_AT_ONCE)
        total = sum(float(losses(dev, rows, combiner.weigh(dev.neighbors(rows))).sum()) for rows in parts)
        return total / dev.tokens

    progress.start("fit kster", recipe.updates, "updates")
    run = train(combiner.network, loss_of, torch.arange(entries.tokens), dev_loss, recipe, seed=seed, progress=progress)
    progress.finish(f"(best after {run.updates:,} updates)")
    return KsterFit(combiner, run)
