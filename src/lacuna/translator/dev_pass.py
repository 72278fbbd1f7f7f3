"""One pass over a dev set: every pair read through the model, and every target token looked up in the memories.

What is kept of it is for the caller to say; this yields it batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from lacuna.decoding import plan_batches
from lacuna.errors import CorpusError
from lacuna.models import ForcedDecoding, Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator.memories import Found, Memory, find_neighbors


@dataclass(frozen=True, eq=False, slots=True)
class DevBatch:
    """Some dev pairs after the pass. Rows run over sentences, then positions.

    :param sentences: The number of the dev pair that each token is of: (tokens,).
    :param gold: The right tokens: (tokens,).
    :param forced: What the model says of them.
    :param found: Their neighbors.
    """

    sentences: torch.Tensor
    gold: torch.Tensor
    forced: ForcedDecoding
    found: Found


def read_dev(
    model: Model,
    memories: Sequence[Memory],
    pairs: Iterable[SentencePair],
    k: int,
    *,
    batch_size: int = 32,
    progress: Progress = SILENT,
) -> Iterator[DevBatch]:
    """Force-decode the pairs in batches of like length, and find the k neighbors of every target token."""
    for memory in memories:
        memory.store.check_model(model.fingerprint)
    texts = list(pairs)
    sources = model.encode_sources([pair.source for pair in texts])
    targets = model.encode_targets([pair.target for pair in texts])
    # A sentence too long for the model cannot be measured; it is no reason to give up the others.
    fitting = [n for n in range(len(texts)) if max(len(sources[n]), len(targets[n])) < model.max_length]
    if not fitting:
        raise CorpusError("the dev set has no sentence that the model can take; give another --dev")
    progress.start("retrieve", len(fitting), "sentences")
    for batch in plan_batches([len(targets[n]) for n in fitting], batch_size=batch_size):
        chosen = [fitting[n] for n in batch]
        forced = model.force_decode([sources[n] for n in chosen], [targets[n] for n in chosen])
        yield DevBatch(
            sentences=torch.tensor(chosen).repeat_interleave(torch.tensor(forced.lengths)),
            gold=torch.tensor([token for n in chosen for token in targets[n]]),
            forced=forced,
            found=find_neighbors(memories, forced.keys, k),
        )
        progress.advance(len(batch))
    progress.finish()
