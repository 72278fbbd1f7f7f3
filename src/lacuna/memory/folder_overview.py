"""Overview of a memory in a folder: one state of it, so everything is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Entry, Store, entries_of
from lacuna.datastore.inspection import UNMEASURED, measured_margins, summarize_store
from lacuna.memory.overview import (
    ENOUGH_MARGIN,
    MAP_POINTS,
    NEEDED_WORDS,
    KeyMap,
    MarginBin,
    NeededWord,
    Overview,
    WordBoundaries,
    make_key_map,
    needed_words,
)

_SEED = 1


class FolderOverview:
    """What there is to see in a store; safe for several threads.

    :param name: The name of the memory.
    """

    def __init__(self, name: str, store: Store) -> None:
        self._name, self._store = name, store
        self._lock = Lock()
        self._overview: Overview | None = None
        self._key_map: KeyMap | None = None

    def overview(self, index_kind: str, token_texts: Sequence[str]) -> Overview:
        """Return the statistics."""
        with self._lock:
            self._overview = self._overview or self._summarize(index_kind, token_texts)
            return self._overview

    def key_map(self, token_texts: Sequence[str]) -> KeyMap:
        """Return a map of a sample of the keys."""
        with self._lock:
            self._key_map = self._key_map or self._draw(token_texts)
            return self._key_map

    def entries_of(self, sentence: int) -> list[Entry]:
        """Return the entries of a sentence, in target order."""
        with self._lock:
            margins = self._margins
        # A sentence can have no more entries than the store.
        return entries_of(self._store, sentence=sentence, margins=margins, limit=max(1, self._store.entries))

    @cached_property
    def _margins(self) -> NDArray[np.int32] | None:
        measured = measured_margins(self._store)
        return None if measured is None else measured.values

    def _summarize(self, index_kind: str, token_texts: Sequence[str]) -> Overview:
        report = summarize_store(self._store)
        manifest, histogram = report.manifest, report.margin_histogram
        return Overview(
            name=self._name,
            entries=manifest.entries,
            sentences=manifest.sentences,
            dimension=manifest.dimension,
            known=report.known,
            known_ratio=report.known_ratio,
            bytes=report.bytes,
            index=index_kind,
            made_by=None if manifest.parent is None else manifest.parent.made_by,
            margins=None
            if histogram is None
            else [MarginBin(int(least), **counts) for least, counts in histogram.items()],
            margins_outdated=report.margins_outdated,
            unmeasured=report.unmeasured,
            needed_words=self._needed_words(token_texts),
        )

    def _needed_words(self, token_texts: Sequence[str]) -> list[NeededWord]:
        store, margins = self._store, self._margins
        needed = ~store.known
        if margins is not None:
            needed |= (margins != UNMEASURED) & (margins < ENOUGH_MARGIN)
        return needed_words(store, needed, WordBoundaries.of(token_texts, store.manifest.model.eos_id), NEEDED_WORDS)

    def _draw(self, token_texts: Sequence[str]) -> KeyMap:
        store = self._store
        count = min(store.entries, MAP_POINTS)
        rows = np.sort(np.random.default_rng(_SEED).choice(store.entries, size=count, replace=False)).astype(np.int64)
        keys = store.keys.gather(rows)
        return make_key_map(self._name, keys, store.values[rows], store.known[rows], store.sentence[rows], token_texts)
