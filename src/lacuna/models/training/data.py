"""Token ids of a corpus as flat arrays, and the batches cut from them.

Batches are a function of (seed, epoch) alone, so a run can go on anywhere. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.errors import TrainingError
from lacuna.files import atomic_path
from lacuna.models.training.vocabulary import Vocabulary
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair

_CHUNK = 20_000


@dataclass(frozen=True, slots=True)
class Tokens:
    """The ids of many sentence pairs, one after another.

    :param ids: Both sides of every pair: source ids, then target ids, each with its end piece.
    :param starts: Where each pair's source and target begin, and the end of all: (2 * pairs + 1,).
    """

    ids: NDArray[np.integer[Any]]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return (len(self.starts) - 1) // 2

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        """Return the number of source ids of every pair."""
        return self.starts[1::2] - self.starts[:-1:2]

    @property
    def target_lengths(self) -> NDArray[np.int64]:
        """Return the number of target ids of every pair."""
        return self.starts[2::2] - self.starts[1::2]


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded tensors of one step; ``target`` is what the decoder is to say."""

    source: torch.Tensor  # (pairs, source length)
    source_mask: torch.Tensor | None  # None where nothing is padded: attention is then cheaper
    target_input: torch.Tensor  # (pairs, target length)
    target: torch.Tensor  # (real target tokens,)
    target_places: torch.Tensor  # (real target tokens,) their places in the flattened target

    @property
    def tokens(self) -> int:
        """Return the number of real target tokens."""
        return len(self.target)


def encode_pairs(
    pairs: Iterable[SentencePair], vocabulary: Vocabulary, max_positions: int, progress: Progress = SILENT
) -> tuple[Tokens, int]:
    """Encode a stream of pairs; return the tokens and how many pairs were too long to take."""
    dtype: type[np.integer[Any]] = np.uint16 if vocabulary.size <= 2**16 else np.int32
    ids: list[NDArray[np.integer[Any]]] = []
    lengths: list[NDArray[np.int64]] = []
    too_long = 0
    stream = iter(pairs)
    while chunk := list(islice(stream, _CHUNK)):
        sources = vocabulary.encode_sources([pair.source for pair in chunk])
        targets = vocabulary.encode_targets([pair.target for pair in chunk])
        fitting = [
            side
            for source, target in zip(sources, targets, strict=True)
            if max(len(source), len(target)) <= max_positions
            for side in (source, target)
        ]
        too_long += len(chunk) - len(fitting) // 2
        lengths.append(np.fromiter(map(len, fitting), np.int64, len(fitting)))
        ids.append(np.concatenate([np.asarray(side, dtype) for side in fitting]) if fitting else np.zeros(0, dtype))
        progress.advance(len(chunk))
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths or [np.zeros(0, np.int64)]))])
    return Tokens(np.concatenate(ids or [np.zeros(0, dtype)]), starts), too_long


def save_tokens(tokens: Tokens, folder: Path) -> None:
    """Write the two arrays; the starts last, so that their presence means the whole is there."""
    for name, array in (("ids.npy", tokens.ids), ("starts.npy", tokens.starts)):
        with atomic_path(folder / name) as temporary, temporary.open("wb") as file:
            np.save(file, array, allow_pickle=False)


def load_tokens(folder: Path) -> Tokens:
    """Map the arrays from disk."""
    return Tokens(*(np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in ("ids.npy", "starts.npy")))


def choose_pairs(sizes: Sequence[int], weights: Sequence[float], rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose the pairs of one epoch: each corpus ``weight`` times, the fraction as a fresh random part."""
    chosen: list[NDArray[np.int64]] = []
    first = 0
    for size, weight in zip(sizes, weights, strict=True):
        whole, part = int(weight), weight - int(weight)
        everything = np.arange(first, first + size)
        chosen.extend([everything] * whole)
        if part:
            chosen.append(rng.choice(everything, round(part * size), replace=False))
        first += size
    return np.concatenate(chosen)


def cut_batches(
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    pairs: NDArray[np.int64],
    budget: int,
    rng: np.random.Generator,
) -> list[NDArray[np.int64]]:
    """Cut pairs of like lengths into batches whose padded longer side stays within ``budget`` tokens.

    Sorting by both lengths leaves next to no padding; shuffling first makes each epoch's batches its own.
    """
    pairs = rng.permutation(pairs)
    sources, targets = source_lengths[pairs], target_lengths[pairs]
    order = np.lexsort((targets, sources))
    longest = np.maximum(sources, targets)[order]
    batches: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        window = longest[start : start + budget]
        padded = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
        size = max(1, int(np.searchsorted(padded, budget, side="right")))
        batches.append(pairs[order[start : start + size]])
        start += size
    return [batches[place] for place in rng.permutation(len(batches))]


def make_batch(tokens: Tokens, pairs: NDArray[np.int64], pad_id: int) -> Batch:
    """Gather the ids of ``pairs`` into padded tensors, without a loop over pairs or tokens.

    As Marian has it, the decoder starts from the padding id.
    """
    source, source_real = _gather(tokens, 2 * pairs, pad_id)
    target, target_real = _gather(tokens, 2 * pairs + 1, pad_id)
    inputs = np.full_like(target, pad_id)
    inputs[:, 1:] = target[:, :-1]
    places = np.flatnonzero(target_real)
    return Batch(
        source=torch.from_numpy(source),
        source_mask=None if source_real.all() else torch.from_numpy(source_real.astype(np.int64)),
        target_input=torch.from_numpy(inputs),
        target=torch.from_numpy(target.reshape(-1)[places]),
        target_places=torch.from_numpy(places),
    )


def epoch_batches(
    tokens: Tokens, sizes: Sequence[int], weights: Sequence[float], budget: int, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Return the batches of one epoch, always the same for the same arguments."""
    rng = np.random.default_rng([seed, epoch])
    chosen = choose_pairs(sizes, weights, rng)
    if not len(chosen):
        raise TrainingError("no training pairs: every weight rounds to nothing; give a larger weight")
    return cut_batches(tokens.source_lengths, tokens.target_lengths, chosen, budget, rng)


def plain_batches(tokens: Tokens, budget: int) -> Iterator[NDArray[np.int64]]:
    """Return batches over all pairs once, in a fixed order (for evaluation)."""
    rng = np.random.default_rng(0)
    yield from cut_batches(tokens.source_lengths, tokens.target_lengths, np.arange(len(tokens)), budget, rng)


def _gather(tokens: Tokens, sides: NDArray[np.int64], pad_id: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    starts, ends = tokens.starts[sides], tokens.starts[sides + 1]
    width = int((ends - starts).max())
    places = starts[:, None] + np.arange(width)
    real = places < ends[:, None]
    ids = tokens.ids[np.minimum(places, len(tokens.ids) - 1)].astype(np.int64)
    ids[~real] = pad_id
    return ids, real
