"""Sentence pairs as a model's own tokens, and which of them are for training and which for dev.

Knows how a model makes tokens of text; nothing of weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import TrainingError
from lacuna.models.adapter import Model
from lacuna.models.training.data import Tokens, cut_batches
from lacuna.progress import Progress
from lacuna.records import SentencePair

_CHUNK = 5_000
_MOST_HELD_OUT = 0.1


@dataclass(frozen=True, slots=True)
class PairSet:
    """Some pairs of a corpus.

    :param tokens: Of the whole corpus.
    :param chosen: Which pairs are meant.
    :param too_long: Pairs of the corpus that were left out, because the model has no room for them.
    :param names: Names of the corpus' files, without folders: a model need not tell where its text lay.
    """

    tokens: Tokens
    chosen: NDArray[np.int64]
    too_long: int
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.chosen)

    def batches(self, budget: int, *seed: int) -> list[NDArray[np.int64]]:
        """Cut the pairs into batches of like lengths, always the same for the same seed."""
        lengths = self.tokens.source_lengths, self.tokens.target_lengths
        return cut_batches(*lengths, self.chosen, budget, np.random.default_rng(seed))

    def digest(self) -> str:
        """Hash the tokens and the choice: the same text through the same tokenizer."""
        total = hashlib.sha256()
        for array in (self.tokens.ids, self.tokens.starts, self.chosen):
            total.update(np.ascontiguousarray(array).tobytes())
        return total.hexdigest()


def encode_corpus(model: Model, pairs: Iterable[SentencePair], what: str, progress: Progress) -> PairSet:
    """Read a whole stream of pairs; those that are too long for the model are left out and counted."""
    ids: list[NDArray[np.int32]] = []
    lengths: list[NDArray[np.int64]] = []
    names: dict[str, None] = {}
    read = 0
    progress.start(f"encoding {what}", unit="pairs")
    for chunk in _chunks(pairs):
        sides = [side for pair in _fitting(model, chunk) for side in pair]
        lengths.append(np.fromiter(map(len, sides), np.int64, len(sides)))
        ids.append(np.fromiter(chain.from_iterable(sides), np.int32))
        names |= dict.fromkeys(Path(pair.origin.file).name for pair in chunk)
        read += len(chunk)
        progress.advance(len(chunk))
    starts = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
    tokens = Tokens(np.concatenate(ids or [np.zeros(0, np.int32)]), starts)
    progress.finish(f"({len(tokens):,} pairs, {read - len(tokens):,} too long)")
    if not len(tokens):
        raise TrainingError(f"{what}: {read:,} pairs, none of which fits into {model.max_length} tokens; give others")
    return PairSet(tokens, np.arange(len(tokens)), read - len(tokens), tuple(names))


def hold_out(pairs: PairSet, most: int, seed: int) -> tuple[PairSet, PairSet]:
    """Part some pairs at random from the rest: for training, and for dev."""
    count = min(most, int(len(pairs) * _MOST_HELD_OUT))
    if not count:
        raise TrainingError(f"{len(pairs)} training pairs are too few to hold some out; give --dev, or 10 or more")
    shuffled = np.random.default_rng(seed).permutation(pairs.chosen)
    kept, held = np.sort(shuffled[count:]), np.sort(shuffled[:count])
    return PairSet(pairs.tokens, kept, pairs.too_long, pairs.names), PairSet(pairs.tokens, held, 0, pairs.names)


def _chunks(pairs: Iterable[SentencePair]) -> Iterator[list[SentencePair]]:
    stream = iter(pairs)
    while chunk := list(islice(stream, _CHUNK)):
        yield chunk


def _fitting(model: Model, pairs: list[SentencePair]) -> Iterator[tuple[list[int], list[int]]]:
    sources = model.encode_sources([pair.source for pair in pairs])
    targets = model.encode_targets([pair.target for pair in pairs])
    longest_target = model.max_length - len(model.start_ids) + 1
    for source, target in zip(sources, targets, strict=True):
        if 1 <= len(source) <= model.max_length and len(target) <= longest_target:
            yield source, target
