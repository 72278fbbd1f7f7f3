"""Fit adaptive kNN-MT (Zheng et al., 2021), :mod:`lacuna.combiners.adaptive`, to cached dev tokens.

The loss is the paper's; the optimization is shorter. The network is trained on standardized features, and the
standardization is folded into its first layer afterward. So the saved network reads raw distances and counts, as in the
paper. Adam can use a 30 times larger learning rate than on raw distances, and reaches the same held-out loss in 400
updates instead of 5,000.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import nn

from lacuna.combiners.adaptive import Adaptive
from lacuna.combiners.base import Neighbors
from lacuna.fitting.dev_pass import DevSet
from lacuna.fitting.objective import Edge, FitRecipe, FitRun, Fitted, hold_out, losses, perplexity, train
from lacuna.fitting.token_cache import TokenCache, collect_dev
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.workers import one_thread

# Temperatures to choose from if none is given; the papers use 10 and 100. What suits grows with the variance of the
# keys, which differs by more than ten times between models.
TEMPERATURES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
# The first one to try.
_FIRST_TEMPERATURE = 30.0
RECIPE = FitRecipe(
    learning_rate=0.01,
    betas=(0.9, 0.98),
    label_smoothing=0.001,
    batch=1024,
    updates=400,
    evaluate_every=25,
    decay=0.5,
    decay_patience=2,
    patience=6,
)
# Temperatures are compared after this many updates with half the batch.
_TRIAL_UPDATES = 100
# Trials that the search for a temperature usually takes, for the progress.
_USUAL_TRIALS = 4
# Tokens per block, to bound memory.
_TOKENS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class FitAdaptive:
    """Trains on the dev set, part of which is held out for early stopping.

    :param k: Neighbors per token, a power of two.
    :param temperature: Divides squared distances; default: the best. 1 to 10,000 are tried, by short trainings.
    """

    name: ClassVar[str] = "adaptive"
    k: int = Adaptive.k
    temperature: float | None = None

    def __post_init__(self) -> None:
        with torch.random.fork_rng(devices=()):  # only for its checks
            Adaptive(self.k, Adaptive.temperature if self.temperature is None else self.temperature)

    def fit(
        self, model: Model, memories: Sequence[Memory], dev: DevSet, *, seed: int = 1, progress: Progress = SILENT
    ) -> Fitted:
        """Fit adaptive."""
        started = time.monotonic()
        cache = collect_dev(model, memories, dev, self.k, progress=progress)
        collected = time.monotonic()
        fit = fit_adaptive(cache, temperature=self.temperature, seed=seed, progress=progress)
        learning = time.monotonic() - collected
        return Fitted(
            fit.combiner,
            math.exp(fit.run.loss),
            perplexity(cache, fit.held_out),
            collected - started,
            learning,
            dev.skipped(model),
            () if fit.at_edge is None else (fit.at_edge,),
        )


@dataclass(frozen=True, eq=False, slots=True)
class AdaptiveFit:
    """A trained combiner.

    :param run: Outcome of the training.
    :param held_out: Rows of the cache that were held out.
    :param at_edge: The temperature, if the best one is the smallest or the largest of those to choose from.
    """

    combiner: Adaptive
    run: FitRun
    held_out: torch.Tensor
    at_edge: Edge | None = None


@one_thread()  # the network is tiny
def fit_adaptive(
    cache: TokenCache,
    *,
    temperature: float | None = None,
    recipe: FitRecipe = RECIPE,
    held_out: float = 0.1,
    seed: int = 1,
    progress: Progress = SILENT,
) -> AdaptiveFit:
    """Train on dev tokens, which must not be in the memories; the same seed gives the same weights.

    :param cache: Has as many neighbors per token as the combiner will use.
    :param temperature: Without one, the best of :data:`TEMPERATURES` after a short training; see :func:`descend`.
    :param held_out: Share of the dev sentences for early stopping and for the choice of the temperature.
    """
    rows, held = hold_out(cache.sentences, held_out, seed)
    trainer = _AdaptiveTrainer(cache, rows, held, seed, progress)
    trials, edge = _USUAL_TRIALS if temperature is None else 0, None
    progress.start("fit adaptive", trials * _TRIAL_UPDATES + recipe.updates, "updates")
    if temperature is None:
        short = replace(recipe, updates=_TRIAL_UPDATES, batch=max(1, recipe.batch // 2))
        temperature = descend(TEMPERATURES, _FIRST_TEMPERATURE, lambda trial: trainer.train(trial, short)[1].loss)
        edge = Edge.of("temperature", temperature, TEMPERATURES)
    combiner, run = trainer.train(temperature, recipe)
    progress.finish(f"(best after {run.updates:,} updates)")
    return AdaptiveFit(combiner, run, held, edge)


def descend(choices: Sequence[float], first: float, loss_of: Callable[[float], float]) -> float:
    """Return the choice of the smallest loss, where the loss has one minimum only: a wide grid costs few trials.

    From the first choice it goes up while the loss falls; if it does not fall at once, it goes down in the same way.

    :param choices: Ascending.
    :param first: One of them, in the middle.
    """
    at, found = choices.index(first), dict[int, float]()

    def loss(number: int) -> float:
        if number not in found:
            found[number] = loss_of(choices[number])
        return found[number]

    for step in (1, -1):
        while 0 <= at + step < len(choices) and loss(at + step) < loss(at):
            at += step
    return choices[at]


class _AdaptiveTrainer:
    """Trains combiners of any temperature on the same dev tokens."""

    def __init__(
        self, cache: TokenCache, rows: torch.Tensor, held: torch.Tensor, seed: int, progress: Progress
    ) -> None:
        self._cache, self._rows, self._held, self._seed, self._progress = cache, rows, held, seed, progress
        raw = self._map_tokens(self._new(1.0).features)
        self._mean, self._spread = _moments(raw[rows])
        self._features = (raw - self._mean) / self._spread

    def train(self, temperature: float, recipe: FitRecipe) -> tuple[Adaptive, FitRun]:
        """Train a new combiner."""
        combiner = self._new(temperature)
        kernels = self._map_tokens(combiner.kernels)

        def loss_of(rows: torch.Tensor, smoothing: float = recipe.label_smoothing) -> torch.Tensor:
            weighing = combiner.weigh(self._features.index_select(0, rows), kernels.index_select(0, rows))
            return losses(self._cache, rows, weighing, smoothing).mean()

        @torch.no_grad()
        def held_out_loss() -> float:
            return float(loss_of(self._held, 0.0))

        network = combiner.network
        run = train(network, loss_of, self._rows, held_out_loss, recipe, seed=self._seed, progress=self._progress)
        _fold_standardization(network.get_submodule("0"), self._mean, self._spread)
        return combiner, run

    def _new(self, temperature: float) -> Adaptive:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(self._seed)
            return Adaptive(self._cache.values.shape[1], temperature)

    def _map_tokens(self, what: Callable[[Neighbors], torch.Tensor]) -> torch.Tensor:
        blocks = torch.arange(self._cache.tokens).split(_TOKENS_AT_ONCE)
        return torch.cat([what(self._cache.neighbors(rows)) for rows in blocks])


def _moments(features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and spread of each column; the spread of a nearly constant column is bounded from below."""
    mean = features.mean(0)
    spread = features.std(0, correction=0) + 1e-3 * mean.abs()
    return mean, torch.where(spread > 0, spread, 1.0)


@torch.no_grad()
def _fold_standardization(layer: nn.Module, mean: torch.Tensor, spread: torch.Tensor) -> None:
    """Change a layer for standardized features in place, so that it gives the same output for raw features."""
    weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
    weight.div_(spread)
    bias.sub_(weight @ mean)
