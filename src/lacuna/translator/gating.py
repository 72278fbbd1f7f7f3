"""Collecting what a gate learns from: regions of the memories' keys, and what a search would gain on dev tokens.

Knows nothing of how a gate learns, nor of BLEU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners import Combiner
from lacuna.combiners.fitting.gate import search_gains
from lacuna.combiners.gate import Regions, gate_features
from lacuna.datastore import Store
from lacuna.margin import read_margins
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator.collecting import collect_dev
from lacuna.translator.memories import Memory

_REGIONS = 256
_DRAWN_PER_REGION = 128
_ROWS_AT_ONCE = 16_384


@dataclass(frozen=True, eq=False, slots=True)
class GateTokens:
    """Dev tokens: what a gate sees of each, what a search gains, and the sentence it is of."""

    features: torch.Tensor  # (tokens, features)
    gains: torch.Tensor  # (tokens,)
    sentences: torch.Tensor  # (tokens,)


def find_regions(memories: Sequence[Memory], *, seed: int, progress: Progress = SILENT) -> Regions:
    """Cut the keys of the memories into regions, and describe the entries of each; margins must have been measured."""
    stores = [memory.store for memory in memories]
    margins = [read_margins(store).values for store in stores]
    total = sum(store.entries for store in stores)
    count = max(1, min(_REGIONS, total // 8))
    rng = np.random.default_rng(seed)
    drawn = np.concatenate([_draw(store, count * _DRAWN_PER_REGION * store.entries // total, rng) for store in stores])
    kmeans = faiss.Kmeans(drawn.shape[1], count, niter=10, seed=seed, min_points_per_centroid=1)
    kmeans.train(drawn)
    centers = np.asarray(kmeans.centroids, np.float32)
    sums = np.zeros((count, 3))
    progress.start("describe regions", total, "entries")
    for store, own in zip(stores, margins, strict=True):
        for first, block in store.keys.blocks(_ROWS_AT_ONCE):
            part = slice(first, first + len(block))
            nearest = _nearest(block.astype(np.float32), centers)
            columns = (np.log1p(own[part].astype(np.float64)), ~store.known[part], np.ones(len(block)))
            for place, column in enumerate(columns):
                sums[:, place] += np.bincount(nearest, weights=column, minlength=count)
            progress.advance(len(block))
    progress.finish()
    traits = sums[:, :2] / np.maximum(sums[:, 2:], 1)
    return Regions(torch.from_numpy(centers), torch.from_numpy(traits.astype(np.float32)))


def collect_gate_tokens(
    model: Model,
    memories: Sequence[Memory],
    combiner: Combiner,
    regions: Regions,
    pairs: Sequence[SentencePair],
    *,
    progress: Progress = SILENT,
) -> GateTokens:
    """Read a dev set through the model and the memories."""
    tokens = collect_dev(model, memories, pairs, combiner.k, keep_queries=True, progress=progress)
    assert tokens.read_queries is not None
    features = []
    with torch.inference_mode():
        for rows in torch.arange(tokens.tokens).split(512):
            keys = tokens.read_queries(rows)
            log_p_best = model.project(keys).log_softmax(-1).amax(1)
            features.append(gate_features(regions, keys.cpu(), log_p_best.cpu()))
    return GateTokens(torch.cat(features).clone(), search_gains(tokens, combiner), tokens.sentences)


def _draw(store: Store, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    rows = np.sort(rng.choice(store.entries, size=min(store.entries, max(1, count)), replace=False))
    return store.keys.gather(rows.astype(np.int64)).astype(np.float32)


def _nearest(keys: NDArray[np.float32], centers: NDArray[np.float32]) -> NDArray[np.int64]:
    products = (centers**2).sum(1) - 2 * keys @ centers.T
    return np.asarray(products.argmin(1), np.int64)
