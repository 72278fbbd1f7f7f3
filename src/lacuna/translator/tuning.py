"""Tuning vanilla kNN-MT on a dev set: one pass of forced decoding and retrieval, then arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.combiners.tuning import KS, DevRetrievals, Trial, tune_vanilla
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator.dev_pass import DevBatch, read_dev
from lacuna.translator.memories import Memory


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
) -> list[Trial]:
    """Return every setting of the grid with its dev perplexity, best first."""
    return tune_vanilla(collect_retrievals(model, memories, pairs, progress=progress))
