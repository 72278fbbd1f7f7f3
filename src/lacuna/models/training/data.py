"""Training data: token ids of sentence pairs in flat arrays, and batches of similar length cut from them.

The batches of an epoch depend on seed and epoch only, so a run can resume anywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.artifacts.arrays import save_array
from lacuna.artifacts.files import atomic_path
from lacuna.errors import TrainingError
from lacuna.models.teacher_forcing import fits_positions
from lacuna.progress import Progress
from lacuna.records import SentencePair

_CHUNK = 20_000


class TextEncoder(Protocol):
    """Turns texts into token ids."""

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode source texts, each with its end token."""

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode target texts, each with its end token."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token ids of many sentence pairs in one array.

    :param ids: Source ids, then target ids of every pair, each side with its end token.
    :param starts: Start of each pair's source and target, and the total length: (2 * pairs + 1,).
    """

    ids: NDArray[np.integer[Any]]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return (len(self.starts) - 1) // 2

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        """Number of source ids of every pair."""
        return self.starts[1::2] - self.starts[:-1:2]

    @property
    def target_lengths(self) -> NDArray[np.int64]:
        """Number of target ids of every pair."""
        return self.starts[2::2] - self.starts[1::2]


@dataclass(frozen=True, slots=True)
class PairSet:
    """Sentence pairs for training or evaluation, from one corpus or several.

    :param tokens: Tokens of all pairs of the corpora, also of those that are not in this set.
    :param parts: For each corpus, the numbers of its pairs.
    :param weights: For each corpus, how often a pair is seen per epoch.
    :param too_long: Number of pairs that were skipped because they exceed the model's maximum length.
    :param names: File names of the corpora. Folders are left out: a model card should not reveal them.
    """

    tokens: Tokens
    parts: tuple[NDArray[np.int64], ...]
    weights: tuple[float, ...] = (1.0,)
    too_long: int = 0
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def epoch_tokens(self) -> float:
        """Number of target tokens in an epoch."""
        lengths = self.tokens.target_lengths
        return float(sum(lengths[part].sum() * weight for part, weight in zip(self.parts, self.weights, strict=True)))

    def batches(self, batch_tokens: int, *seed: int) -> list[NDArray[np.int64]]:
        """Return the batches of one epoch, always the same for the same seed."""
        rng = np.random.default_rng(seed)
        chosen = _choose_pairs(self.parts, self.weights, rng)
        return cut_batches(self.tokens.source_lengths, self.tokens.target_lengths, chosen, batch_tokens, rng)

    def digest(self) -> str:
        """Hash the token ids and the selection of pairs."""
        total = hashlib.sha256()
        for array in (self.tokens.ids, self.tokens.starts, *self.parts):
            total.update(np.ascontiguousarray(array).tobytes())
        return total.hexdigest()


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded tensors of one step."""

    source: torch.Tensor  # (pairs, source length)
    source_mask: torch.Tensor | None  # None without padding: attention is then cheaper
    target_input: torch.Tensor  # (pairs, target length)
    target: torch.Tensor  # (target tokens,) without padding
    target_places: torch.Tensor  # (target tokens,) their positions in the flattened target

    @property
    def tokens(self) -> int:
        """Number of target tokens without padding."""
        return len(self.target)

    def to(self, device: torch.device) -> Batch:
        """Move all tensors to a device."""
        mask = None if self.source_mask is None else self.source_mask.to(device)
        others = (self.target_input.to(device), self.target.to(device), self.target_places.to(device))
        return Batch(self.source.to(device), mask, *others)


def encode_pairs(
    pairs: Iterable[SentencePair],
    encoder: TextEncoder,
    positions: int,
    start_tokens: int,
    dtype: type[np.integer[Any]],
    what: str,
    progress: Progress,
) -> PairSet:
    """Encode a stream of pairs; pairs that are too long are skipped and counted.

    :param positions: Maximum number of tokens that encoder or decoder can read.
    :param start_tokens: Number of tokens that every translation starts with.
    :param what: Name of the corpus in messages.
    """
    ids: list[NDArray[np.integer[Any]]] = [np.zeros(0, dtype)]
    lengths: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
    names: dict[str, None] = {}
    read = 0
    progress.start(f"encoding {what}", unit="pairs")
    stream = iter(pairs)
    while chunk := list(islice(stream, _CHUNK)):
        sources = encoder.encode_sources([pair.source for pair in chunk])
        targets = encoder.encode_targets([pair.target for pair in chunk])
        both = zip(sources, targets, strict=True)
        kept = [pair for pair in both if fits_positions(len(pair[0]), len(pair[1]), positions, start_tokens)]
        sides = list(chain.from_iterable(kept))
        lengths.append(np.fromiter(map(len, sides), np.int64, len(sides)))
        ids.append(np.fromiter(chain.from_iterable(sides), dtype))
        names |= dict.fromkeys(Path(pair.origin.file).name for pair in chunk)
        read += len(chunk)
        progress.advance(len(chunk))
    tokens = Tokens(np.concatenate(ids), np.concatenate(lengths).cumsum())
    too_long = read - len(tokens)
    progress.finish(f"({len(tokens):,} pairs, {too_long:,} too long)")
    if not len(tokens):
        raise TrainingError(f"{what}: {read:,} pairs, none of which fits into {positions} tokens; give others")
    return PairSet(tokens, (np.arange(len(tokens)),), too_long=too_long, names=tuple(names))


def save_tokens(tokens: Tokens, folder: Path) -> None:
    """Write the two arrays."""
    for name, array in (("ids.npy", tokens.ids), ("starts.npy", tokens.starts)):
        with atomic_path(folder / name) as temporary:
            save_array(temporary, array)


def load_tokens(folder: Path) -> Tokens:
    """Map the arrays from disk."""
    return Tokens(*(np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in ("ids.npy", "starts.npy")))


def join_pairs(tokens: Sequence[Tokens], weights: Sequence[float], too_long: int = 0) -> PairSet:
    """Concatenate the tokens of several corpora into one set."""
    shifts = np.cumsum([0, *(len(part.ids) for part in tokens)])
    starts = [part.starts[:-1] + shift for part, shift in zip(tokens, shifts, strict=False)]
    joined = Tokens(np.concatenate([part.ids for part in tokens]), np.concatenate([*starts, shifts[-1:]]))
    parts = np.split(np.arange(len(joined)), np.cumsum([len(part) for part in tokens])[:-1])
    return PairSet(joined, tuple(parts), tuple(weights), too_long)


def split_pairs(pairs: PairSet, held: NDArray[np.int64]) -> tuple[PairSet, PairSet]:
    """Split a set into the pairs that are kept for training and those held out for dev."""
    kept = tuple(part[~np.isin(part, held)] for part in pairs.parts)
    train = PairSet(pairs.tokens, kept, pairs.weights, pairs.too_long, pairs.names)
    return train, PairSet(pairs.tokens, (np.sort(held),), names=pairs.names)


def cut_batches(
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    pairs: NDArray[np.int64],
    batch_tokens: int,
    rng: np.random.Generator,
) -> list[NDArray[np.int64]]:
    """Cut pairs of similar length into batches whose padded longer side has at most ``batch_tokens`` tokens.

    Sorting by both lengths leaves almost no padding; shuffling first gives each epoch different batches.
    """
    pairs = rng.permutation(pairs)
    sources, targets = source_lengths[pairs], target_lengths[pairs]
    order = np.lexsort((targets, sources))
    longest = np.maximum(sources, targets)[order]
    batches: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        window = longest[start : start + batch_tokens]
        padded = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
        size = max(1, int(np.searchsorted(padded, batch_tokens, side="right")))
        batches.append(pairs[order[start : start + size]])
        start += size
    return [batches[index] for index in rng.permutation(len(batches))]


def make_batch(tokens: Tokens, pairs: NDArray[np.int64], pad_id: int) -> Batch:
    """Gather the ids of ``pairs`` into padded tensors, without a loop over pairs or tokens.

    The decoder input starts with the padding id, as in Marian.
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


def _choose_pairs(
    parts: Sequence[NDArray[np.int64]], weights: Sequence[float], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Choose the pairs of one epoch: each corpus ``weight`` times; a fraction is a random sample."""
    chosen: list[NDArray[np.int64]] = []
    for part, weight in zip(parts, weights, strict=True):
        whole, fraction = int(weight), weight - int(weight)
        chosen.extend([part] * whole)
        if fraction:
            chosen.append(rng.choice(part, round(fraction * len(part)), replace=False))
    if not sum(map(len, chosen)):
        raise TrainingError("no training pairs: every weight rounds to nothing; give a larger weight")
    return np.concatenate(chosen)


def _gather(tokens: Tokens, sides: NDArray[np.int64], pad_id: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    starts, ends = tokens.starts[sides], tokens.starts[sides + 1]
    width = int((ends - starts).max())
    places = starts[:, None] + np.arange(width)
    real = places < ends[:, None]
    ids = tokens.ids[np.minimum(places, len(tokens.ids) - 1)].astype(np.int64)
    ids[~real] = pad_id
    return ids, real
