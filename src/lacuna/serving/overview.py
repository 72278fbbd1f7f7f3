"""What a memory holds, for people who look at it: shares, margins, the words it is needed for, a map of its keys.

Reads stores, and has the tokens' texts from a table, so that it may work in any thread while the model is busy. Each
answer is computed once: stores do not change while they are served. Knows nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Entry, Store, entries_of, inspect_store
from lacuna.margin import read_margins
from lacuna.serving.errors import NotFound
from lacuna.serving.needed import NeededWord, Spelling, needed_words
from lacuna.translator import Memory

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
            raise NotFound(f"sentence: got {sentence}; {name} has sentences 0 to {len(store.sentences) - 1}")
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
            raise NotFound(f"memory: got {name!r}; here are {', '.join(self._memories) or 'none'}")
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
