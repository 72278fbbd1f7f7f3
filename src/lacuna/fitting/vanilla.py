"""Fit vanilla kNN-MT, :mod:`lacuna.combiners.vanilla`: a grid search over its settings on the dev set.

For every dev token it is enough to know the model's probability of the right token, the distances of its neighbors, and
which of them have that token. Each setting of the grid then takes a few array operations and no further search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners.interpolation import interpolate
from lacuna.combiners.vanilla import Vanilla, gold_p_knn
from lacuna.fitting.dev_pass import DevBatch, DevSet
from lacuna.fitting.objective import Edge, Fitted
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair

# A larger k often lowers the perplexity a little more, but a search for twice as many takes about twice as long.
KS = (1, 2, 4, 8, 16, 32, 64, 128)
TEMPERATURES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
WEIGHTS = tuple(round(0.05 * step, 2) for step in range(20))
# Keeps the logarithm of a probability of 0 finite; and the exponential of such a loss.
_MIN_P, _MAX_LOSS = 1e-300, 500.0


@dataclass(frozen=True, slots=True)
class DevRetrievals:
    """Columns of the dev tokens that the grid search needs.

    A :class:`~lacuna.fitting.token_cache.TokenCache` has more, which takes the output projection of every token.

    :param log_p_gold: The model's log-probability of the right token: (tokens,).
    :param distances: Squared L2, ascending; infinite for a missing neighbor: (tokens, k).
    :param says_gold: Whether the neighbor's value is the right token: (tokens, k).
    :param weights: Number of entries that each neighbor stands for, where some were merged: (tokens, k).
    """

    log_p_gold: NDArray[np.float32]
    distances: NDArray[np.float32]
    says_gold: NDArray[np.bool_]
    weights: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class VanillaTrial:
    """One setting and its dev perplexity."""

    combiner: Vanilla
    perplexity: float


@dataclass(frozen=True, slots=True)
class GridSearch:
    """Result of a grid search on a dev set.

    :param trials: Every setting, best first.
    :param model_perplexity: Dev perplexity of the model alone.
    :param collecting: Seconds for the dev pass.
    :param learning: Seconds for the grid.
    """

    trials: list[VanillaTrial]
    model_perplexity: float
    collecting: float
    learning: float

    @property
    def at_edge(self) -> tuple[Edge, ...]:
        """Settings of the best trial that are at an edge of the grid; see :func:`edges_of`."""
        return edges_of(self.trials)


@dataclass(frozen=True, slots=True)
class FitVanilla:
    """Takes the best setting of the grid, by perplexity of the whole dev set.

    :param k: Neighbors per token; default: the best. Powers of 2 up to 128 are tried.
    :param temperature: Divides squared distances; default: the best. 1 to 3000 are tried.
    """

    name: ClassVar[str] = "vanilla"
    k: int | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        given = {name: value for name, value in asdict(self).items() if value is not None}
        Vanilla(**given)  # only for its checks

    def fit(
        self, model: Model, memories: Sequence[Memory], dev: DevSet, *, seed: int = 1, progress: Progress = SILENT
    ) -> Fitted:
        """Fit vanilla; nothing is random, so the seed has no effect."""
        grid = self.search(model, memories, dev, progress=progress)
        best = grid.trials[0]
        return Fitted(
            best.combiner,
            best.perplexity,
            grid.model_perplexity,
            grid.collecting,
            grid.learning,
            dev.skipped(model),
            grid.at_edge,
        )

    def search(
        self, model: Model, memories: Sequence[Memory], dev: DevSet, *, progress: Progress = SILENT
    ) -> GridSearch:
        """Run the dev pass and try every setting of the grid."""
        started = time.monotonic()
        ks = KS if self.k is None else (self.k,)
        temperatures = TEMPERATURES if self.temperature is None else (self.temperature,)
        retrievals = collect_retrievals(model, memories, dev, max(ks), progress=progress)
        collected = time.monotonic()
        trials = search_grid(retrievals, ks, temperatures)
        alone = math.exp(-float(retrievals.log_p_gold.mean(dtype=np.float64)))
        return GridSearch(trials, alone, collected - started, time.monotonic() - collected)


def tune(
    model: Model, memories: Sequence[Memory], dev: DevSet | Iterable[SentencePair], *, progress: Progress = SILENT
) -> list[VanillaTrial]:
    """Return every setting of the grid of :class:`FitVanilla` with its dev perplexity, best first.

    :param dev: Held-out pairs; a :class:`DevSet` reuses its pass over the model.
    """
    return FitVanilla().search(model, memories, DevSet.of(dev), progress=progress).trials


def collect_retrievals(
    model: Model, memories: Sequence[Memory], dev: DevSet, k: int = max(KS), *, progress: Progress = SILENT
) -> DevRetrievals:
    """Run the dev pass and keep the columns that the grid search needs."""
    parts = dev.retrieve(model, memories, k, retrieval_columns, progress=progress)
    return DevRetrievals(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def retrieval_columns(batch: DevBatch) -> tuple[NDArray[Any], ...]:
    """Return the columns of :class:`DevRetrievals` for the tokens of a batch."""
    near = batch.retrieval.neighbors
    weights = torch.zeros(near.values.shape) if near.log_weights is None else near.log_weights
    says_gold = near.values.cpu() == batch.gold[:, None]
    columns = (batch.outputs.log_p_gold, near.distances, says_gold, weights.exp())
    return tuple(column.cpu().numpy() for column in columns)


def search_grid(
    dev: DevRetrievals,
    ks: Sequence[int] = KS,
    temperatures: Sequence[float] = TEMPERATURES,
    weights: Sequence[float] = WEIGHTS,
) -> list[VanillaTrial]:
    """Return a trial for every setting, best first; ties stay in the order of the grid."""
    p_model = _model_probability(dev)
    trials: list[VanillaTrial] = []
    for k, temperature in product((k for k in ks if k <= max(1, dev.distances.shape[1])), temperatures):
        p_memory, has_any = _memory_probability(dev, k, temperature)
        for weight in weights:
            loss = -_log_p(p_model, p_memory, weight * has_any).mean()
            trials.append(VanillaTrial(Vanilla(k, weight, temperature), float(np.exp(min(loss, _MAX_LOSS)))))
    return sorted(trials, key=lambda trial: trial.perplexity)


def edges_of(trials: Sequence[VanillaTrial]) -> tuple[Edge, ...]:
    """Return the settings whose best value is the last of the grid, although it makes a difference.

    A k of 1 and a weight of 0 are no edges, since nothing lies beyond. Neither is a temperature where another one is
    just as good, such as with k 1.

    :param trials: Of a whole grid, best first.
    """
    best, edges = trials[0], list[Edge]()
    for setting in ("k", "temperature", "knn_weight"):
        value, tried = getattr(best.combiner, setting), [getattr(trial.combiner, setting) for trial in trials]
        edge = Edge.of(setting, value, tried)
        if edge is None or not (edge.largest or setting == "temperature"):
            continue
        others = (trial.perplexity for trial, each in zip(trials, tried, strict=True) if each != value)
        if next(others) > best.perplexity:
            edges.append(edge)
    return tuple(edges)


def gold_log_p(dev: DevRetrievals, combiner: Vanilla) -> NDArray[np.float64]:
    """Return the log-probability that the model with a combiner gives to the right tokens: (tokens,)."""
    p_memory, has_any = _memory_probability(dev, combiner.k, combiner.temperature)
    return _log_p(_model_probability(dev), p_memory, combiner.knn_weight * has_any)


def _log_p(p_model: NDArray[Any], p_memory: NDArray[Any], knn_weight: NDArray[Any]) -> NDArray[np.float64]:
    """Return the log of the interpolated probability: (tokens,)."""
    return np.asarray(np.log(np.maximum(interpolate(p_model, p_memory, knn_weight), _MIN_P)), dtype=np.float64)


def _model_probability(dev: DevRetrievals) -> NDArray[np.float64]:
    return np.exp(dev.log_p_gold.astype(np.float64))


def _memory_probability(
    dev: DevRetrievals, k: int, temperature: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return p_kNN of the right tokens, and which tokens have any neighbor: (tokens,) each."""
    distances, weights = dev.distances[:, :k], None if dev.weights is None else dev.weights[:, :k]
    has_any = np.isfinite(distances.min(axis=1, initial=np.inf))
    return gold_p_knn(distances, dev.says_gold[:, :k], weights, temperature), has_any
