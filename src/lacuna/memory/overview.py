"""Overview of a memory: counts, margins, the words that need it, a map of its keys, and single sentences.

Words are assembled from subword tokens by the vocabulary's markers of word boundaries. In sentences with pruned
entries, only complete words count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Entry, Store
from lacuna.records import SentencePair

# A known entry with this margin may be pruned, so the memory is not needed for it.
ENOUGH_MARGIN = 4
NEEDED_WORDS = 40
MAP_POINTS = 1_500
# Markers of word boundaries: SentencePiece and byte-level BPE at the start; BPE at the end, or where a word continues.
_BEGINNINGS = ("▁", "Ġ")
_ENDING, _CONTINUES = "</w>", "@@"
_ENTRIES_AT_ONCE = 1 << 20
_MAX_WORD = 64  # tokens of a word that enter its hash


@dataclass(frozen=True, slots=True)
class MarginBin:
    """Number of entries whose margin is at least ``least`` and below the next bin."""

    least: int
    known: int
    unknown: int


@dataclass(frozen=True, slots=True)
class NeededWord:
    """A word that needs the memory.

    :param needed: Number of occurrences with a needed token.
    :param unknown: Number of occurrences with an unknown token.
    :param count: Number of occurrences.
    """

    word: str
    needed: int
    unknown: int
    count: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Statistics of a memory.

    :param known: Number of known entries.
    :param bytes: Size on disk, with index and margins.
    :param made_by: The verb that made it from another store; None for a store built from a corpus.
    :param margins: Histogram of the margins; None if they are not measured.
    :param margins_outdated: Whether entries were added or forgotten after the margins were measured.
    :param unmeasured: Number of entries that were added, which have no margin.
    :param needed_words: Words with the most occurrences that are unknown or have a small margin.
    """

    name: str
    entries: int
    sentences: int
    dimension: int
    known: int
    known_ratio: float
    bytes: int
    index: str
    made_by: str | None
    margins: list[MarginBin] | None
    margins_outdated: bool
    unmeasured: int
    needed_words: list[NeededWord]


@dataclass(frozen=True, slots=True)
class KeyMap:
    """A sample of keys on their first two principal components, scaled to the range from -1 to 1.

    Each list has one item per key.

    :param variance: Share of the keys' variance on each of the two axes.
    """

    name: str
    variance: tuple[float, ...]
    x: list[float]
    y: list[float]
    known: list[bool]
    token: list[str]
    sentence: list[int]


@dataclass(frozen=True, slots=True)
class SentenceEntry:
    """One entry of a sentence; see :class:`lacuna.datastore.Entry`."""

    entry: int
    position: int
    token: str
    model_token: str
    known: bool
    p_gold: float
    margin: int | None


@dataclass(frozen=True, slots=True)
class StoredSentence:
    """A sentence pair of a memory with its entries, in target order.

    :param tag: Its label, if it has one.
    :param id: The id that its owner gave it, if any.
    """

    memory: str
    sentence: int
    source: str
    target: str
    origin: str
    tag: str | None
    id: str | None
    entries: list[SentenceEntry]


def show_sentence(
    memory: str, sentence: int, pair: SentencePair, entries: Sequence[Entry], token_texts: Sequence[str]
) -> StoredSentence:
    """Return a sentence with the texts of its tokens."""
    shown = [
        SentenceEntry(
            entry.entry,
            entry.position,
            token_texts[entry.value],
            token_texts[entry.prediction],
            entry.known,
            entry.p_gold,
            entry.margin,
        )
        for entry in entries
    ]
    origin = pair.origin
    return StoredSentence(memory, sentence, pair.source, pair.target, str(origin), origin.tag, pair.id, shown)


def make_key_map(
    name: str,
    keys: NDArray[np.floating[Any]],
    values: NDArray[np.int32],
    known: NDArray[np.bool_],
    sentences: NDArray[np.integer[Any]],
    token_texts: Sequence[str],
) -> KeyMap:
    """Return a map of keys: (keys, dimension), and one value, flag and sentence for each."""
    points, variance = principal_plane(keys.astype(np.float64))
    scale = max(float(np.abs(points).max(initial=0.0)), 1e-12)
    x, y = np.round(points.T / scale, 4).tolist()
    numbers: list[int] = values.tolist()
    return KeyMap(name, variance, x, y, known.tolist(), [token_texts[value] for value in numbers], sentences.tolist())


def principal_plane(keys: NDArray[np.floating[Any]]) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Project keys onto their first two principal components; return (keys, 2) and the share of variance of each."""
    centered = keys.astype(np.float64)
    if len(centered):
        centered -= centered.mean(axis=0)
    values, vectors = np.linalg.eigh(centered.T @ centered)
    # One-dimensional keys have one component; the other axis is 0 then.
    axes = np.zeros((keys.shape[1], 2))
    leading = vectors[:, ::-1][:, :2]
    axes[:, : leading.shape[1]] = leading
    shares = np.zeros(2)
    shares[: leading.shape[1]] = values[::-1][:2].clip(min=0) / max(float(values.sum()), 1e-12)
    return centered @ axes, (float(shares[0]), float(shares[1]))


@dataclass(frozen=True, eq=False)
class WordBoundaries:
    """How the tokens of a vocabulary form words, one item per token.

    :param begins: Whether a word begins with the token.
    :param ends: Whether a word ends with the token.
    """

    texts: Sequence[str]
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]

    @classmethod
    def of(cls, texts: Sequence[str], eos_id: int) -> WordBoundaries:
        """Detect the markers of a vocabulary. The end token and tokens without letters or digits are words."""
        signs = np.array([not any(map(str.isalnum, text)) for text in texts], np.bool_)
        signs[eos_id] = True
        begins, ends = signs.copy(), signs.copy()
        if any(text.startswith(_BEGINNINGS) for text in texts):
            begins |= np.array([text.startswith(_BEGINNINGS) for text in texts])
        elif any(text.endswith(_ENDING) for text in texts):
            ends |= np.array([text.endswith(_ENDING) for text in texts])
        else:
            ends |= np.array([not text.endswith(_CONTINUES) for text in texts])
        return cls(texts, begins, ends)

    def join(self, tokens: Sequence[int]) -> str:
        """Return the text of a word."""
        return "".join(without_marks(self.texts[token]) for token in tokens)


def without_marks(token: str) -> str:
    """Return the text of a token without markers of word boundaries."""
    token = token.removesuffix(_CONTINUES).removesuffix(_ENDING)
    for mark in _BEGINNINGS:
        token = token.replace(mark, "")
    return token


def needed_words(store: Store, needed: NDArray[np.bool_], boundaries: WordBoundaries, most: int) -> list[NeededWord]:
    """Return the words with the most needed occurrences. Loops over distinct words, not over entries.

    :param needed: Mask of the needed entries.
    :param most: Number of words to return.
    """
    blocks = [_count(store, slice(*edge), needed, boundaries) for edge in _edges(store)]
    if not blocks:
        return []
    hashes, firsts, lengths, counts = (np.concatenate(column) for column in zip(*blocks, strict=True))
    _, places, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    totals = np.zeros((len(places), 3), np.int64)
    np.add.at(totals, inverse, counts)
    merged: dict[str, NDArray[np.int64]] = {}  # a word may be tokenized in several ways
    for n in np.argsort(firsts[places], kind="stable").tolist():
        first, length = int(firsts[places[n]]), int(lengths[places[n]])
        word = boundaries.join(store.values[first : first + length].tolist())
        # Single letters are mostly parts of placeholders.
        if len(word) > 1 and any(map(str.isalnum, word)) and store.values[first] != store.manifest.model.eos_id:
            merged[word] = merged.get(word, np.zeros(3, np.int64)) + totals[n]
    # Ties keep the order of first occurrence.
    ordered = sorted(merged.items(), key=lambda item: -int(item[1][0]))
    return [NeededWord(word, *counts.tolist()) for word, counts in ordered[:most] if counts[0]]


def _edges(store: Store) -> list[tuple[int, int]]:
    """Split the entries into blocks that end at sentence ends."""
    edges = [0]
    while edges[-1] < store.entries:
        at = min(edges[-1] + _ENTRIES_AT_ONCE, store.entries)
        edges.append(int(np.searchsorted(store.sentence, store.sentence[at - 1], side="right")))
    return list(pairwise(edges))


def _count(
    store: Store, part: slice, needed: NDArray[np.bool_], boundaries: WordBoundaries
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count the words of a block: hash, first entry, length, and the three counts of each."""
    values = store.values[part]
    follows = np.zeros(len(values), np.bool_)
    same_sentence = store.sentence[part][1:] == store.sentence[part][:-1]
    follows[1:] = same_sentence & (store.position[part][1:] == store.position[part][:-1] + 1)
    begins = ~follows | boundaries.begins[values]
    begins[1:] |= boundaries.ends[values[:-1]]
    heads = np.flatnonzero(begins)
    # After a pruned entry, only a token with a marker is known to begin a word.
    whole = follows[heads] | (store.position[part][heads] == 0) | boundaries.begins[values[heads]]
    lengths = np.diff(heads, append=len(values))
    offsets = np.minimum(np.arange(len(values)) - np.repeat(heads, lengths), _MAX_WORD - 1)
    factors = np.random.default_rng(0).integers(1, 2**62, _MAX_WORD).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = np.add.reduceat((values.astype(np.uint64) + np.uint64(1)) * factors[offsets], heads)
    of_words = [np.logical_or.reduceat(flags, heads) for flags in (needed[part], ~store.known[part])]
    counts = np.column_stack([*of_words, np.ones(len(heads), np.bool_)]).astype(np.int64)
    unique, firsts, inverse = np.unique(hashes[whole], return_index=True, return_inverse=True)
    totals = np.zeros((len(unique), 3), np.int64)
    np.add.at(totals, inverse, counts[whole])
    return unique, heads[whole][firsts] + (part.start or 0), lengths[whole][firsts], totals
