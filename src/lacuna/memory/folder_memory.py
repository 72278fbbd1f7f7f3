"""A memory in a folder: a store with its index. Each edit is one commit, which makes the next state of the memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.corpora.cleaning import DEFAULT_CLEANING, Cleaning
from lacuna.datastore import Entry, Store, open_store
from lacuna.datastore.columns import SentenceTable
from lacuna.datastore.decoded_windows import TeacherForcingModel
from lacuna.datastore.manifest import ModelRecord
from lacuna.datastore.segments import MEMORY
from lacuna.index import FilteredIndex, VectorIndex, open_index
from lacuna.index.segmented import opened_indexes
from lacuna.memory.base import ColumnName, FoundEntries, Memory, no_tag
from lacuna.memory.editing import EditReport
from lacuna.memory.folder_edits import add_pairs, compact_memory, forget_sentences, replace_sentence
from lacuna.memory.folder_overview import FolderOverview
from lacuna.memory.lookup import Selection, SentenceLookup
from lacuna.memory.matches import SourceTable
from lacuna.memory.overview import KeyMap, Overview
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair

_Stamp = tuple[int, int, int]
_UNKNOWN: _Stamp = (0, 0, 0)


class FolderMemory(Memory):
    """A store with its index. Both are opened when they are first used, so a new memory can be made by :meth:`add`.

    :param path: Its folder.
    :param name: By default that of the folder.
    :param store: The store, if it is open already.
    :param index: Its index, if it is open already.
    """

    def __init__(
        self, path: Path, name: str | None = None, *, store: Store | None = None, index: VectorIndex | None = None
    ) -> None:
        self.path, self.name = path, name or path.name
        self._store, self._index = store, index
        # Kept from state to state, because it has the hashes of all sentences.
        self._lookup = SentenceLookup()
        self._seen = None if store is None else _seen_with(store)
        self._lock = Lock()
        self._sources: SourceTable | None = None
        self._overview: FolderOverview | None = None
        self._weights: NDArray[np.float32] | None = None  # instead of those of the store

    @classmethod
    def of(cls, store: Store, name: str | None = None, index: VectorIndex | None = None) -> FolderMemory:
        """Return the memory of an open store.

        :param index: By default the one in its folder.
        """
        return cls(store.path, name, store=store, index=index)

    def __repr__(self) -> str:
        return f"FolderMemory({str(self.path)!r}, {self.name!r})"

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.path,)

    @property
    def model(self) -> ModelRecord:
        return self.store.manifest.model

    @property
    def dimension(self) -> int:
        return self.store.dimension

    @property
    def entries(self) -> int:
        return self.store.entries

    @property
    def fingerprint(self) -> str:
        return self.store.fingerprint

    @property
    def key_variance(self) -> float:
        return self.store.key_variance

    @property
    def index_kind(self) -> str:
        return self.index.kind

    @property
    def is_edited(self) -> bool:
        return self.store.segments is not None

    @property
    def sentences(self) -> SentenceTable:
        return self.store.sentences

    @property
    def store(self) -> Store:
        """The files with all columns."""
        if self._store is None:
            self._store = open_store(self.path)
            self._seen = _seen_with(self._store)
        return self._store

    @property
    def index(self) -> VectorIndex:
        """The index of the keys."""
        if self._index is None:
            self._index = open_index(self.store)
        return self._index

    # --- Searching and reading ----------------------------------------------------------------------------------------

    def search(self, queries: NDArray[np.float32], k: int) -> FoundEntries:
        distances, ids = self.index.search(queries, k)
        weights = self.store.weights if self._weights is None else self._weights
        found = None if weights is None else _read(weights, ids, 1.0)
        return FoundEntries(distances, ids, _read(self.store.values, ids, -1), found)

    def columns(self, entries: NDArray[np.int64], *names: ColumnName) -> dict[str, NDArray[Any]]:
        return {name: getattr(self.store, name)[entries] for name in names}

    def keys(self, entries: NDArray[np.int64]) -> NDArray[np.float16]:
        return self.store.keys.gather(entries)

    def keeping(self, keep: NDArray[np.bool_], weights: NDArray[np.float32] | None = None) -> FolderMemory:
        memory = self._derived(self.store, FilteredIndex(self.index, keep))
        memory._weights = weights
        return memory

    def excluding(self, sentences: Collection[int]) -> FolderMemory:
        return self.keeping(~np.isin(self.store.sentence, np.asarray(sorted(sentences))))

    def tagged(self, tag: str) -> FolderMemory:
        chosen = [number for number, pair in self.sentences.present() if pair.origin.tag == tag]
        if not chosen:
            raise no_tag(tag, self.place)
        return self.keeping(np.isin(self.store.sentence, np.asarray(chosen)))

    def reopening(self) -> tuple[Callable[..., Memory], tuple[object, ...]]:
        keep = self.index.keep if isinstance(self.index, FilteredIndex) else None
        return _reopen, (self.store, self.name, keep, self._weights)

    # --- Editing ------------------------------------------------------------------------------------------------------

    def add(
        self,
        pairs: Iterable[SentencePair],
        model: TeacherForcingModel,
        *,
        cleaning: Cleaning | None = DEFAULT_CLEANING,
        merge: bool = True,
        prune: bool = False,
        progress: Progress = SILENT,
    ) -> EditReport:
        """Add sentence pairs; a folder that does not exist becomes a new memory."""
        return add_pairs(
            self.path,
            pairs,
            model,
            cleaning=cleaning,
            lookup=self._lookup,
            before=self._store,
            merge=merge,
            prune=prune,
            progress=progress,
        )

    def forget(self, selection: Selection, *, dry_run: bool = False, receipt: Path | None = None) -> EditReport:
        """Forget the selected sentences. Their bytes stay in the files until the memory is compacted."""
        return forget_sentences(self.path, selection, dry_run=dry_run, receipt=receipt, before=self._store)

    def replace(
        self, sentence: int, target: str, model: TeacherForcingModel, *, progress: Progress = SILENT
    ) -> EditReport:
        return replace_sentence(self.path, sentence, target, model, before=self._store, progress=progress)

    def numbers_of(self, pairs: Sequence[SentencePair]) -> tuple[int, ...]:
        numbers = self._lookup.find(self.store, pairs)
        return tuple(numbers[index] for index in range(len(pairs)))

    def merge_segments(self) -> None:
        compact_memory(self.path, tiers=True)

    # --- States -------------------------------------------------------------------------------------------------------

    def has_changed(self) -> bool:
        """Tell whether there was a commit since this state, also by another process."""
        return _stamp(self.path) != self._seen

    def latest(self) -> FolderMemory:
        """Return the state of the last commit."""
        stamp = _stamp(self.path)
        if stamp == self._seen:
            return self
        self._seen = stamp  # a state that cannot be opened is not tried again
        store = open_store(self.path.resolve(), before=self.store)
        memory = self._derived(store, open_index(store, opened=opened_indexes(self.store, self.index)))
        memory._seen = stamp
        store.load(self.store)
        memory.index.search(store.mean[None], 1)  # the first search opens files
        return memory

    def load(self, *, for_edits: bool = False) -> None:
        """Read all columns, and with ``for_edits`` all sentences."""
        self.store.load()
        if for_edits:
            self._lookup.find(self.store, ())

    def _derived(self, store: Store, index: VectorIndex) -> FolderMemory:
        """Return this memory with other entries, or with another choice of them."""
        memory = FolderMemory(self.path, self.name, store=store, index=index)
        memory._lookup = self._lookup
        if store is self._store:
            memory._sources, memory._overview, memory._seen = self._sources, self._overview, self._seen
        return memory

    # --- Looking into it ----------------------------------------------------------------------------------------------

    def overview(self, token_texts: Sequence[str]) -> Overview:
        return self._look().overview(self.index_kind, token_texts)

    def key_map(self, token_texts: Sequence[str]) -> KeyMap:
        return self._look().key_map(token_texts)

    def entries_of(self, sentence: int) -> list[Entry]:
        return self._look().entries_of(sentence)

    def _look(self) -> FolderOverview:
        with self._lock:
            self._overview = self._overview or FolderOverview(self.name, self.store)
            return self._overview

    def sources(self) -> SourceTable:
        """Return the sentences by their sources; they are read once."""
        with self._lock:
            self._sources = self._sources or SourceTable.read(self.sentences.present())
            return self._sources


def _reopen(
    store: Store, name: str, keep: NDArray[np.bool_] | None, weights: NDArray[np.float32] | None
) -> FolderMemory:
    memory = FolderMemory.of(store, name)
    return memory if keep is None else memory.keeping(keep, weights)


def _read(column: NDArray[Any], entries: NDArray[np.int64], missing: float) -> NDArray[Any]:  # of the shape of entries
    """Read a column of a store; ``missing`` where there is no neighbor."""
    if not len(column):
        return np.full(entries.shape, missing)
    result = column[entries]
    if len(entries) and entries[:, -1].min() < 0:  # missing neighbors are last
        result[entries < 0] = missing
    return result


def _seen_with(store: Store) -> _Stamp | None:
    """Return the stamp of an open store. One that was edited may have been edited again since it was opened."""
    return None if store.segments is None else _UNKNOWN


def _stamp(folder: Path) -> _Stamp | None:
    """Return what changes with every commit to a memory; ``None`` for a store that was never edited."""
    try:
        status = (folder / MEMORY).stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
