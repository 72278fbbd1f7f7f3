"""Choosing vanilla's settings on a dev set, from retrievals that were made once.

For every dev token it is enough to know the model's probability of the gold token, the distances of the nearest
neighbors, and which of them say the gold token; any (k, temperature, knn_weight) is then a few array operations.
Knows nothing of models or stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners.vanilla import Vanilla
from lacuna.fitting.dev_pass import DevBatch, read_dev
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator.memory import Memory

KS = (1, 2, 4, 8, 16, 32, 64)
TEMPERATURES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
WEIGHTS = tuple(round(0.05 * step, 2) for step in range(20))


@dataclass(frozen=True, slots=True)
class DevRetrievals:
    """What tuning needs of every dev token.

    :param log_p_gold: The model's log-probability of the gold token: (tokens,).
    :param distances: Squared, ascending, infinite where there is no neighbor: (tokens, k).
    :param says_gold: Whether the neighbor's value is the gold token: (tokens, k).
    :param weights: How many entries each neighbor stands for, where some were merged: (tokens, k).
    """

    log_p_gold: NDArray[np.float32]
    distances: NDArray[np.float32]
    says_gold: NDArray[np.bool_]
    weights: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class VanillaTrial:
    """One setting and the dev perplexity it gives."""

    combiner: Vanilla
    perplexity: float


def tune_vanilla(
    dev: DevRetrievals,
    ks: Sequence[int] = KS,
    temperatures: Sequence[float] = TEMPERATURES,
    weights: Sequence[float] = WEIGHTS,
) -> list[VanillaTrial]:
    """Return a trial for every setting, best first; equal ones in the order of the grid."""
    p_model = np.exp(dev.log_p_gold.astype(np.float64))
    trials: list[VanillaTrial] = []
    for k, temperature in product((k for k in ks if k <= max(1, dev.distances.shape[1])), temperatures):
        p_memory, has_any = memory_probability(dev, k, temperature)
        for weight in weights:
            share = weight * has_any
            p_gold = (1 - share) * p_model + share * p_memory
            loss = -np.log(np.maximum(p_gold, 1e-300)).mean()
            trials.append(VanillaTrial(Vanilla(k, weight, temperature), float(np.exp(min(loss, 500.0)))))
    return sorted(trials, key=lambda trial: trial.perplexity)


def memory_probability(dev: DevRetrievals, k: int, temperature: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return p_kNN of the gold tokens, and which tokens have any neighbor at all."""
    distances = dev.distances[:, :k].astype(np.float64)
    nearest = distances.min(axis=1, initial=np.inf)
    has_any = np.isfinite(nearest)
    scores = np.exp(-(distances - np.where(has_any, nearest, 0.0)[:, None]) / temperature)
    if dev.weights is not None:
        scores *= dev.weights[:, :k]
    total = scores.sum(axis=1)
    said = (scores * dev.says_gold[:, :k]).sum(axis=1)
    return np.divide(said, total, out=np.zeros_like(said), where=total > 0), has_any


def collect_retrievals(
    model: Model,
    memories: Sequence[Memory],
    pairs: Iterable[SentencePair],
    k: int = max(KS),
    *,
    batch_size: int = 32,
    progress: Progress = SILENT,
) -> DevRetrievals:
    """Force-decode the pairs and look every target token up, keeping only what tuning needs."""
    batches = read_dev(model, memories, pairs, k, batch_size=batch_size, progress=progress)
    parts = [retrieval_columns(batch) for batch in batches]
    return DevRetrievals(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def retrieval_columns(batch: DevBatch) -> tuple[NDArray[Any], ...]:
    """Return the columns of :class:`DevRetrievals` for the tokens of a batch."""
    found = batch.found.neighbors
    weights = torch.zeros(found.values.shape) if found.log_weights is None else found.log_weights
    says_gold = found.values.cpu() == batch.gold[:, None]
    columns = (batch.forced.log_p_gold, found.distances, says_gold, weights.exp())
    return tuple(column.cpu().numpy() for column in columns)


def tune(
    model: Model, memories: Sequence[Memory], pairs: Iterable[SentencePair], *, progress: Progress = SILENT
) -> list[VanillaTrial]:
    """Return every setting of the grid with its dev perplexity, best first."""
    return tune_vanilla(collect_retrievals(model, memories, pairs, progress=progress))
