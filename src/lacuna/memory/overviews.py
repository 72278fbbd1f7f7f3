"""Overviews of several memories, computed once for each state of a memory. Knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Entry, entries_of
from lacuna.datastore.inspection import UNMEASURED, StoreReport, measured_margins, summarize_store
from lacuna.errors import NotFoundError
from lacuna.memory import Memory
from lacuna.memory.base import CollectionMemory
from lacuna.memory.collection_overview import collection_entries, collection_map, collection_overview
from lacuna.memory.overview import (
    ENOUGH_MARGIN,
    MAP_POINTS,
    NEEDED_WORDS,
    KeyMap,
    MarginBin,
    NeededWord,
    Overview,
    SentenceEntry,
    StoredSentence,
    WordBoundaries,
    make_key_map,
    needed_words,
)
from lacuna.records import SentencePair

_SEED = 1


class Overviews:
    """Statistics of several memories, by name, computed once for each state of a memory; safe for several threads.

    :param memories: Returns the memories in their current states, by name.
    :param token_texts: Text of every token of the vocabulary.
    """

    def __init__(self, memories: Callable[[], Mapping[str, Memory]], token_texts: Sequence[str]) -> None:
        self._memories, self._texts = memories, token_texts
        self._lock = Lock()
        self._states: dict[str, _State] = {}

    def overview(self, name: str) -> Overview:
        """Return the statistics of a memory."""
        state = self._state(name)
        if isinstance(state.memory, CollectionMemory):
            return collection_overview(state.memory)
        with state.lock:
            return state.overview

    def key_map(self, name: str) -> KeyMap:
        """Return a map of a sample of the keys."""
        state = self._state(name)
        if isinstance(state.memory, CollectionMemory):
            return collection_map(state.memory, self._texts)
        with state.lock:
            return state.key_map

    def sentence(self, name: str, sentence: int) -> StoredSentence:
        """Return a sentence pair and its entries."""
        state = self._state(name)
        store = state.memory.store
        find_sentence(state.memory, sentence)
        pair = store.sentences[sentence]
        if isinstance(state.memory, CollectionMemory):
            entries = collection_entries(state.memory, sentence)
        else:
            with state.lock:
                margins = state.margins
            # A sentence can have no more entries than the store.
            entries = entries_of(store, sentence=sentence, margins=margins, limit=max(1, store.entries))
        shown = [self._shown(entry) for entry in entries]
        origin = pair.origin
        return StoredSentence(name, sentence, pair.source, pair.target, str(origin), origin.tag, pair.id, shown)

    def _state(self, name: str) -> _State:
        memories = self._memories()
        if name not in memories:
            raise NotFoundError(f"memory: got {name!r}; available: {', '.join(memories) or 'none'}")
        with self._lock:
            state = self._states.get(name)
            if state is None or state.memory is not memories[name]:
                state = self._states[name] = _State(memories[name], self._texts)
            return state

    def _shown(self, entry: Entry) -> SentenceEntry:
        value, prediction = self._texts[entry.value], self._texts[entry.prediction]
        return SentenceEntry(entry.entry, entry.position, value, prediction, entry.known, entry.p_gold, entry.margin)


def find_sentence(memory: Memory, sentence: int) -> SentencePair:
    """Return a sentence pair of a memory.

    :raises NotFoundError: It does not exist, or was forgotten.
    """
    sentences = memory.store.sentences
    if sentence in sentences:
        return sentences[sentence]
    if not 0 <= sentence < len(sentences):
        has = f"has sentences 0 to {len(sentences) - 1}" if len(sentences) else "is empty"
        raise NotFoundError(f"sentence: got {sentence}; {memory.name} {has}")
    raise NotFoundError(f"sentence: {sentence} of {memory.name} was forgotten; choose another")


class _State:
    """One state of a memory, with what was computed from it. Use it with its lock."""

    def __init__(self, memory: Memory, token_texts: Sequence[str]) -> None:
        self.memory, self._texts = memory, token_texts
        self.lock = Lock()

    @cached_property
    def _report(self) -> StoreReport:
        return summarize_store(self.memory.store)

    @cached_property
    def margins(self) -> NDArray[np.int32] | None:
        measured = measured_margins(self.memory.store)
        return None if measured is None else measured.values

    @cached_property
    def overview(self) -> Overview:
        memory, report = self.memory, self._report
        manifest, histogram = report.manifest, report.margin_histogram
        return Overview(
            name=memory.name,
            entries=manifest.entries,
            sentences=manifest.sentences,
            dimension=manifest.dimension,
            known=report.known,
            known_ratio=report.known_ratio,
            bytes=report.bytes,
            index=memory.index.kind,
            made_by=None if manifest.parent is None else manifest.parent.made_by,
            margins=None if histogram is None else [MarginBin(int(least), **some) for least, some in histogram.items()],
            margins_outdated=report.margins_outdated,
            unmeasured=report.unmeasured,
            needed_words=self._needed_words(),
        )

    def _needed_words(self) -> list[NeededWord]:
        store, margins = self.memory.store, self.margins
        needed = ~store.known
        if margins is not None:
            needed |= (margins != UNMEASURED) & (margins < ENOUGH_MARGIN)
        return needed_words(store, needed, WordBoundaries.of(self._texts, store.manifest.model.eos_id), NEEDED_WORDS)

    @cached_property
    def key_map(self) -> KeyMap:
        name, store = self.memory.name, self.memory.store
        count = min(store.entries, MAP_POINTS)
        rows = np.sort(np.random.default_rng(_SEED).choice(store.entries, size=count, replace=False)).astype(np.int64)
        keys = store.keys.gather(rows)
        return make_key_map(name, keys, store.values[rows], store.known[rows], store.sentence[rows], self._texts)
