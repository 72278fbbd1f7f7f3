"""One pass over a dev set: every pair read through the model, and every target token looked up in the memories.

What is kept of it is for the caller to say; this yields it batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

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


class ForcedBatch(NamedTuple):
    """Some pairs, read through the model.

    :param numbers: Which pairs.
    :param gold: Their target tokens, one pair after the other: (tokens,).
    """

    numbers: list[int]
    gold: torch.Tensor
    forced: ForcedDecoding


class ReadOnce(Sequence[SentencePair]):
    """Pairs that go through a model once, however often they are read: for fitting to many memories in turn.

    Keeps the keys of all target tokens in memory.
    """

    def __init__(self, pairs: Iterable[SentencePair]) -> None:
        self._pairs = list(pairs)
        self._kept: dict[tuple[str, int], list[ForcedBatch]] = {}

    @overload
    def __getitem__(self, place: int) -> SentencePair: ...

    @overload
    def __getitem__(self, place: slice) -> list[SentencePair]: ...

    def __getitem__(self, place: int | slice) -> SentencePair | list[SentencePair]:
        return self._pairs[place]

    def __len__(self) -> int:
        return len(self._pairs)

    def forced(self, model: Model, batch_size: int) -> list[ForcedBatch]:
        """Read the pairs through the model, or remember how that went."""
        key = (model.fingerprint, batch_size)
        if key not in self._kept:
            self._kept[key] = list(_force(model, self._pairs, batch_size))
        return self._kept[key]


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
    texts = pairs if isinstance(pairs, ReadOnce) else list(pairs)
    progress.start("retrieve", len(texts), "sentences")
    for numbers, gold, forced in (
        texts.forced(model, batch_size) if isinstance(texts, ReadOnce) else _force(model, texts, batch_size)
    ):
        yield DevBatch(
            sentences=torch.tensor(numbers).repeat_interleave(torch.tensor(forced.lengths)),
            gold=gold,
            forced=forced,
            found=find_neighbors(memories, forced.keys, k),
        )
        progress.advance(len(numbers))
    progress.finish()


def _force(model: Model, pairs: Sequence[SentencePair], batch_size: int) -> Iterator[ForcedBatch]:
    sources = model.encode_sources([pair.source for pair in pairs])
    targets = model.encode_targets([pair.target for pair in pairs])
    # A sentence too long for the model cannot be measured; it is no reason to give up the others.
    fitting = [n for n in range(len(pairs)) if max(len(sources[n]), len(targets[n])) < model.max_length]
    if not fitting:
        raise CorpusError("the dev set has no sentence that the model can take; give another --dev")
    for batch in plan_batches([len(targets[n]) for n in fitting], batch_size=batch_size):
        chosen = [fitting[n] for n in batch]
        forced = model.force_decode([sources[n] for n in chosen], [targets[n] for n in chosen])
        yield ForcedBatch(chosen, torch.tensor([token for n in chosen for token in targets[n]]), forced)
