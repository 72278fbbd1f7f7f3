"""Tuning vanilla kNN-MT on a dev set: one pass of forced decoding and retrieval, then arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from lacuna.combiners.tuning import KS, DevRetrievals, Trial, tune_vanilla
from lacuna.decoding import plan_batches
from lacuna.errors import CorpusError
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator.memories import Memory, find_neighbors


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
    for memory in memories:
        memory.store.check_model(model.fingerprint)
    texts = list(pairs)
    sources = model.encode_sources([pair.source for pair in texts])
    targets = model.encode_targets([pair.target for pair in texts])
    # A sentence too long for the model cannot be measured; it is no reason to give up the others.
    fitting = [n for n in range(len(texts)) if max(len(sources[n]), len(targets[n])) < model.max_length]
    if not fitting:
        raise CorpusError("the dev set has no sentence that the model can take; give another --dev")
    parts = []
    progress.start("retrieve", len(fitting), "sentences")
    for batch in plan_batches([len(targets[n]) for n in fitting], batch_size=batch_size):
        chosen = [fitting[n] for n in batch]
        forced = model.force_decode([sources[n] for n in chosen], [targets[n] for n in chosen])
        gold = torch.tensor([token for n in chosen for token in targets[n]])
        found = find_neighbors(memories, forced.keys, k)
        parts.append((forced.log_p_gold.numpy(), found.distances.numpy(), (found.values == gold[:, None]).numpy()))
        progress.advance(len(batch))
    progress.finish()
    log_p_gold, distances, says_gold = (np.concatenate(column) for column in zip(*parts, strict=True))
    return DevRetrievals(log_p_gold, distances, says_gold)


def tune(
    model: Model, memories: Sequence[Memory], pairs: Iterable[SentencePair], *, progress: Progress = SILENT
) -> list[Trial]:
    """Return every setting of the grid with its dev perplexity, best first."""
    return tune_vanilla(collect_retrievals(model, memories, pairs, progress=progress))
