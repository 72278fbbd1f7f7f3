"""Which words a memory is needed for: pieces put together to words, and counted.

Knows of tokenizers only how they spell that a word begins or goes on. Sentences that pruning left gaps in count as far
as their words are whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Entry, Store, entries_of, inspect_store
from lacuna.errors import NotFoundError
from lacuna.margin import read_margins
from lacuna.translator import Memory

_BEGINNINGS = ("▁", "Ġ")
_ENDING, _GOES_ON = "</w>", "@@"
_ENTRIES_AT_ONCE = 1 << 20
_LONGEST = 64  # pieces; what comes later in a word does not tell it from others


@dataclass(frozen=True, slots=True)
class NeededWord:
    """A word that the memory is needed for.

    :param needed: How often it is there with a piece that is needed.
    :param unknown: How often with a piece that the model does not know.
    :param count: How often it is there.
    """

    word: str
    needed: int
    unknown: int
    count: int


@dataclass(frozen=True, eq=False)
class Spelling:
    """How pieces make words: one item for each token.

    :param begins: Whether a word begins with it.
    :param ends: Whether a word ends with it.
    """

    texts: Sequence[str]
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]

    @classmethod
    def of(cls, texts: Sequence[str], eos_id: int) -> Spelling:
        """Find out how a vocabulary marks words. The end, and what has no letters and digits, is a word of its own."""
        signs = np.array([not any(map(str.isalnum, text)) for text in texts], np.bool_)
        signs[eos_id] = True
        begins, ends = signs.copy(), signs.copy()
        if any(text.startswith(_BEGINNINGS) for text in texts):
            begins |= np.array([text.startswith(_BEGINNINGS) for text in texts])
        elif any(text.endswith(_ENDING) for text in texts):
            ends |= np.array([text.endswith(_ENDING) for text in texts])
        else:
            ends |= np.array([not text.endswith(_GOES_ON) for text in texts])
        return cls(texts, begins, ends)

    def join(self, tokens: Sequence[int]) -> str:
        """Write a word."""
        pieces = (self.texts[token].removesuffix(_GOES_ON).removesuffix(_ENDING) for token in tokens)
        text = "".join(pieces)
        for mark in _BEGINNINGS:
            text = text.replace(mark, "")
        return text


def needed_words(store: Store, needed: NDArray[np.bool_], spelling: Spelling, most: int) -> list[NeededWord]:
    """Count words, and give those with most needed occurrences. Loops over different words, not over entries.

    :param needed: Whether each entry is.
    :param most: How many words to give.
    """
    blocks = [_count(store, slice(*edge), needed, spelling) for edge in _edges(store)]
    if not blocks:
        return []
    hashes, firsts, lengths, counts = (np.concatenate(column) for column in zip(*blocks, strict=True))
    _, places, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    totals = np.zeros((len(places), 3), np.int64)
    np.add.at(totals, inverse, counts)
    merged: dict[str, NDArray[np.int64]] = {}  # one word may be written with other pieces elsewhere
    for n in np.argsort(firsts[places], kind="stable").tolist():
        first, length = int(firsts[places[n]]), int(lengths[places[n]])
        word = spelling.join(store.values[first : first + length].tolist())
        # A letter alone is most often what is left of a placeholder.
        if len(word) > 1 and any(map(str.isalnum, word)) and store.values[first] != store.manifest.model.eos_id:
            merged[word] = merged.get(word, np.zeros(3, np.int64)) + totals[n]
    # Of words needed equally often, the one that came first.
    ordered = sorted(merged.items(), key=lambda item: -int(item[1][0]))
    return [NeededWord(word, *counts.tolist()) for word, counts in ordered[:most] if counts[0]]


def _edges(store: Store) -> list[tuple[int, int]]:
    """Cut the entries where sentences end."""
    edges = [0]
    while edges[-1] < store.entries:
        at = min(edges[-1] + _ENTRIES_AT_ONCE, store.entries)
        edges.append(int(np.searchsorted(store.sentence, store.sentence[at - 1], side="right")))
    return list(pairwise(edges))


def _count(
    store: Store, part: slice, needed: NDArray[np.bool_], spelling: Spelling
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count the words of some sentences: a hash of each, its first entry, its length, and the three counts."""
    values = store.values[part]
    follows = np.zeros(len(values), np.bool_)
    same_sentence = store.sentence[part][1:] == store.sentence[part][:-1]
    follows[1:] = same_sentence & (store.position[part][1:] == store.position[part][:-1] + 1)
    begins = ~follows | spelling.begins[values]
    begins[1:] |= spelling.ends[values[:-1]]
    heads = np.flatnonzero(begins)
    # After a gap only a piece that says so is the beginning of a word.
    whole = follows[heads] | (store.position[part][heads] == 0) | spelling.begins[values[heads]]
    lengths = np.diff(heads, append=len(values))
    place = np.minimum(np.arange(len(values)) - np.repeat(heads, lengths), _LONGEST - 1)
    factors = np.random.default_rng(0).integers(1, 2**62, _LONGEST).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = np.add.reduceat((values.astype(np.uint64) + np.uint64(1)) * factors[place], heads)
    of_words = [np.logical_or.reduceat(one, heads) for one in (needed[part], ~store.known[part])]
    counts = np.column_stack([*of_words, np.ones(len(heads), np.bool_)]).astype(np.int64)
    unique, firsts, inverse = np.unique(hashes[whole], return_index=True, return_inverse=True)
    totals = np.zeros((len(unique), 3), np.int64)
    np.add.at(totals, inverse, counts[whole])
    return unique, heads[whole][firsts] + (part.start or 0), lengths[whole][firsts], totals


# An entry that the model knows with this margin is one that pruning may drop, so the memory is not needed for it.
ENOUGH_MARGIN = 4
NEEDED_WORDS = 40
MAP_POINTS = 1_500
_SEED = 1


@dataclass(frozen=True, slots=True)
class MarginBin:
    """Entries whose knowledge margin is ``least`` or more, and less than that of the next bin."""

    least: int
    known: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Overview:
    """A memory in numbers.

    :param known: Entries whose token the model would have said by itself.
    :param bytes: Size on disk, with index and margins.
    :param made_by: The verb that made it from another store; None for one made from a corpus.
    :param margins: None where they are not measured.
    :param needed_words: Those with most occurrences that the model does not know, or only with a small margin.
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
    needed_words: list[NeededWord]


@dataclass(frozen=True, slots=True)
class KeyMap:
    """Some keys on their first two principal components, divided by the largest number there, so from -1 to 1.

    One item for each key in each of the lists.

    :param variance: The share of the keys' variance that each of the two axes shows.
    """

    name: str
    variance: tuple[float, float]
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
    """A sentence pair of a memory with its entries, in the order of the target."""

    memory: str
    sentence: int
    source: str
    target: str
    origin: str
    entries: list[SentenceEntry]


class Overviews:
    """Answers questions about memories by name.

    :param token_texts: The text of every token.
    """

    def __init__(self, memories: Sequence[Memory], token_texts: Sequence[str]) -> None:
        self._memories = {memory.name: memory for memory in memories}
        self._texts = token_texts
        self._lock = Lock()
        self._overview, self._key_map = cache(self._make_overview), cache(self._make_key_map)
        self._margins = cache(self._read_margins)

    def overview(self, name: str) -> Overview:
        """Give a memory in numbers."""
        self._check(name)
        with self._lock:
            return self._overview(name)

    def key_map(self, name: str) -> KeyMap:
        """Give a map of some of its keys."""
        self._check(name)
        with self._lock:
            return self._key_map(name)

    def sentence(self, name: str, sentence: int) -> StoredSentence:
        """Give a sentence pair and its entries."""
        store = self._check(name).store
        if not 0 <= sentence < len(store.sentences):
            raise NotFoundError(f"sentence: got {sentence}; {name} has sentences 0 to {len(store.sentences) - 1}")
        with self._lock:
            margins = self._margins(name)
        pair = store.sentences[sentence]
        # A sentence can have no more entries than the store.
        entries = entries_of(store, sentence=sentence, margins=margins, limit=max(1, store.entries))
        return StoredSentence(
            name, sentence, pair.source, pair.target, str(pair.origin), [self._shown(entry) for entry in entries]
        )

    def _check(self, name: str) -> Memory:
        if name not in self._memories:
            raise NotFoundError(f"memory: got {name!r}; here are {', '.join(self._memories) or 'none'}")
        return self._memories[name]

    def _shown(self, entry: Entry) -> SentenceEntry:
        value, prediction = self._texts[entry.value], self._texts[entry.prediction]
        return SentenceEntry(entry.entry, entry.position, value, prediction, entry.known, entry.p_gold, entry.margin)

    def _read_margins(self, name: str) -> NDArray[np.uint16] | None:
        store = self._memories[name].store
        # Margins of an earlier state of the store count as none, as in `lacuna inspect`.
        return None if inspect_store(store.path).margin_histogram is None else read_margins(store).values

    def _make_overview(self, name: str) -> Overview:
        memory = self._memories[name]
        report = inspect_store(memory.store.path)
        manifest, histogram = report.manifest, report.margin_histogram
        return Overview(
            name=name,
            entries=manifest.entries,
            sentences=manifest.sentences,
            dimension=manifest.dimension,
            known=report.known,
            known_ratio=report.known_ratio,
            bytes=report.bytes,
            index=memory.index.kind,
            made_by=None if manifest.parent is None else manifest.parent.made_by,
            margins=None if histogram is None else [MarginBin(int(least), **some) for least, some in histogram.items()],
            needed_words=self._needed_words(memory.store, self._margins(name)),
        )

    def _needed_words(self, store: Store, margins: NDArray[np.uint16] | None) -> list[NeededWord]:
        needed = ~store.known if margins is None else ~store.known | (margins < ENOUGH_MARGIN)
        return needed_words(store, needed, Spelling.of(self._texts, store.manifest.model.eos_id), NEEDED_WORDS)

    def _make_key_map(self, name: str) -> KeyMap:
        store = self._memories[name].store
        count = min(store.entries, MAP_POINTS)
        rows = np.sort(np.random.default_rng(_SEED).choice(store.entries, size=count, replace=False)).astype(np.int64)
        points, variance = principal_plane(store.keys.gather(rows).astype(np.float64))
        scale = max(float(np.abs(points).max(initial=0.0)), 1e-12)
        x, y = np.round(points.T / scale, 4).tolist()
        values: list[int] = store.values[rows].tolist()
        tokens = [self._texts[value] for value in values]
        return KeyMap(name, variance, x, y, store.known[rows].tolist(), tokens, store.sentence[rows].tolist())


def principal_plane(keys: NDArray[np.floating[Any]]) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Lay keys onto their first two principal components: (keys, 2), and the share of the variance on each."""
    centered = keys.astype(np.float64)
    if len(centered):
        centered -= centered.mean(axis=0)
    values, vectors = np.linalg.eigh(centered.T @ centered)
    # A key of one number has one component; the other axis then shows nothing.
    axes = np.zeros((keys.shape[1], 2))
    leading = vectors[:, ::-1][:, :2]
    axes[:, : leading.shape[1]] = leading
    shares = np.zeros(2)
    shares[: leading.shape[1]] = values[::-1][:2].clip(min=0) / max(float(values.sum()), 1e-12)
    return centered @ axes, (float(shares[0]), float(shares[1]))
