"""A memory in Milvus: entries and sentence pairs are searched, read and edited on the server, without files.

Its state is that of the server, so that any number of processes share it. Entries have the numbers of the collection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Collection as Container
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lacuna.corpora.cleaning import DEFAULT_CLEANING, Cleaning
from lacuna.datastore import Entry, Store
from lacuna.datastore.decoded_windows import TeacherForcingModel
from lacuna.datastore.manifest import ModelRecord
from lacuna.datastore.store import VARIANCE_SAMPLE, key_variance
from lacuna.errors import SettingError, StoreError, UnavailableError
from lacuna.index.base import MISSING, check_queries
from lacuna.memory.base import ColumnName, FoundEntries, Memory, no_tag
from lacuna.memory.editing import EditReport
from lacuna.memory.lookup import Selection
from lacuna.memory.matches import SourceTable
from lacuna.memory.milvus_edits import add_to_collection, forget_in_collection, numbers_of, replace_in_collection
from lacuna.memory.milvus_overview import collection_entries, collection_map, collection_overview
from lacuna.memory.overview import KeyMap, Overview
from lacuna.milvus import Collection, MilvusAddress
from lacuna.milvus.schema import MAX_RESULTS, tag_filter
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair

_COUNT_SECONDS = 1.0  # for which a number of entries or sentences is used again
_SOURCES_SECONDS = 60.0  # after which sentences that others have added are matched, too
_FIELDS: dict[str, str] = {"values": "value", "predictions": "prediction"}  # columns with other names there


class MilvusMemory(Memory):
    """A memory that is a collection in Milvus.

    :param name: By default that of the collection.
    :param condition: Only entries that meet this filter expression of Milvus are found; empty for all.
    """

    def __init__(self, collection: Collection, name: str | None = None, condition: str = "") -> None:
        self.collection, self.condition = collection, condition
        self.name = name or collection.address.collection
        self._sentences = CollectionSentences(collection)
        self._count = _RecentCount(collection.count)
        self._sources = _RecentSources(collection)

    def __repr__(self) -> str:
        return f"MilvusMemory({self.place!r}, {self.name!r})"

    @property
    def place(self) -> str:
        return str(self.collection.address)

    @property
    def folders(self) -> tuple[Path, ...]:
        return ()

    @property
    def model(self) -> ModelRecord:
        return self.collection.info.model

    @property
    def dimension(self) -> int:
        return self.collection.info.dimension

    @property
    def entries(self) -> int:
        return self._count()

    @property
    def fingerprint(self) -> str:
        """That of the store that was published."""
        return self.collection.info.store

    @cached_property
    def key_variance(self) -> float:
        """Mean squared distance of the keys from their mean, of those that the server returns first."""
        sample = self.keys(self.collection.entries_where("id >= 0", most=VARIANCE_SAMPLE))
        return key_variance(sample, self.collection.mean)

    @property
    def index_kind(self) -> str:
        return self.collection.kind.name

    @property
    def is_edited(self) -> bool:
        """Not recorded."""
        return False

    @property
    def sentences(self) -> CollectionSentences:
        return self._sentences

    @property
    def store(self) -> Store:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StoreError(f"{self.place}: this needs the files of the store; name its folder instead")

    # --- Searching and reading ----------------------------------------------------------------------------------------

    def search(self, queries: NDArray[np.float32], k: int) -> FoundEntries:
        """Find approximately the ``k`` nearest entries of each query, and read their values in the same request.

        Kinds with lossy codes find more candidates, which are re-ranked by their keys.
        """
        weighted, rerank = self.collection.info.weighted, self.collection.kind.rerank
        fields = ["value", "weight"] if weighted else ["value"]
        queries = check_queries(queries, k, self.dimension)
        if rerank == 1 or not len(queries):
            answer = self.collection.search(queries, k, fields, self.condition)
        else:
            candidates = max(k, min(MAX_RESULTS, k * rerank))
            answer = self.collection.search(queries, candidates, [*fields, "key"], self.condition)
            difference = answer["key"].astype(np.float64) - queries[:, None, :]
            true = np.einsum("qkd,qkd->qk", difference, difference).astype(np.float32)
            answer["distance"] = np.where(answer["id"] == MISSING, np.float32(np.inf), true)
        return _nearest(answer, k)

    def columns(self, entries: NDArray[np.int64], *names: ColumnName) -> dict[str, NDArray[Any]]:
        fields = [_FIELDS.get(name, name) for name in names]
        answer = self.collection.fetch(entries, fields)
        return {name: answer[field] for name, field in zip(names, fields, strict=True)}

    def keys(self, entries: NDArray[np.int64]) -> NDArray[np.float16]:
        return self.collection.fetch(entries, ["key"])["key"].astype(np.float16)

    def keeping(self, keep: NDArray[np.bool_], weights: NDArray[np.float32] | None = None) -> Memory:
        self._refuse()

    def excluding(self, sentences: Container[int]) -> MilvusMemory:
        return self._where(f"sentence not in {sorted(sentences)}")

    def tagged(self, tag: str) -> MilvusMemory:
        if not self.collection.count(tag_filter(tag)):
            raise no_tag(tag, self.place)
        return self._where(tag_filter(tag))

    def _where(self, condition: str) -> MilvusMemory:
        both = f"({self.condition}) and ({condition})" if self.condition else condition
        memory = MilvusMemory(self.collection, self.name, both)
        memory._sentences, memory._count, memory._sources = self._sentences, self._count, self._sources
        return memory

    def reopening(self) -> tuple[Callable[..., Memory], tuple[object, ...]]:
        return open_milvus_memory, (self.collection.address, self.name, self.condition)

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
        """Add sentence pairs in parts. If it is interrupted, the same call adds what is missing."""
        if prune:
            raise SettingError("prune: needs the margins of a memory in files; leave it out")
        self.check_model(model)
        report = add_to_collection(self.collection, pairs, model, cleaning=cleaning, progress=progress)
        self._sources.outdate()
        return report

    def forget(self, selection: Selection, *, dry_run: bool = False, receipt: Path | None = None) -> EditReport:
        """Forget the selected sentences: they are deleted from the collection."""
        if receipt is not None:
            raise SettingError("receipt: a receipt is about files; leave it out for a memory in Milvus")
        numbers = selection.find(self.sentences, self.place).tolist()
        report = forget_in_collection(self.collection, numbers, dry_run=dry_run)
        self._sources.outdate()
        return report

    def replace(
        self, sentence: int, target: str, model: TeacherForcingModel, *, progress: Progress = SILENT
    ) -> EditReport:
        self.check_model(model)
        report = replace_in_collection(self.collection, self.sentences, sentence, target, model)
        self._sources.outdate()
        return report

    def numbers_of(self, pairs: Sequence[SentencePair]) -> tuple[int, ...]:
        return numbers_of(self.collection, pairs)

    def merge_segments(self) -> None:
        """Do nothing: the server does so by itself."""

    # --- States -------------------------------------------------------------------------------------------------------

    def has_changed(self) -> bool:
        """Return False: every search sees the state of the server."""
        return False

    def latest(self) -> MilvusMemory:
        return self

    def load(self, *, for_edits: bool = False) -> None:
        """Do nothing: all is on the server."""

    # --- Looking into it ----------------------------------------------------------------------------------------------

    def overview(self, token_texts: Sequence[str]) -> Overview:
        return collection_overview(self.name, self.collection)

    def key_map(self, token_texts: Sequence[str]) -> KeyMap:
        """Return a map of keys whose numbers leave the same remainder."""
        return collection_map(self.name, self.collection, token_texts)

    def entries_of(self, sentence: int) -> list[Entry]:
        return collection_entries(self.collection, sentence, self.sentences[sentence])

    def sources(self) -> SourceTable:
        """Return the sentences by their sources: all are read once, later only new ones."""
        return self._sources()


class CollectionSentences:
    """Sentence pairs by number, read from the server."""

    def __init__(self, collection: Collection) -> None:
        self._collection, self._count = collection, _RecentCount(collection.count_sentences)

    def __len__(self) -> int:
        """Return the number of sentence pairs, a second ago at most. Their numbers are not consecutive."""
        return self._count()

    def __contains__(self, sentence: int) -> bool:
        return bool(self.find([sentence]))

    def __getitem__(self, sentence: int) -> SentencePair:
        return self.pairs([sentence])[sentence]

    def pairs(self, sentences: Sequence[int]) -> dict[int, SentencePair]:
        """Return the pairs of several sentences; an IndexError if one does not exist."""
        pairs = self.find(sentences)
        for sentence in sentences:
            if sentence not in pairs:
                raise IndexError(f"sentence {sentence}: does not exist, or was forgotten")
        return pairs

    def find(self, sentences: Sequence[int]) -> dict[int, SentencePair]:
        """Return the pairs of those sentences that exist."""
        return self._collection.sentences(sentences)

    def present(self) -> Iterator[tuple[int, SentencePair]]:
        """Yield the number and the pair of each sentence."""
        return self._collection.all_sentences()


class _RecentCount:
    """A number that is asked for again after a second, if the server answers."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._known: tuple[float, int] | None = None

    def __call__(self) -> int:
        now = time.monotonic()
        if self._known is None or now - self._known[0] >= _COUNT_SECONDS:
            try:
                self._known = now, self._count()
            except UnavailableError:
                if self._known is None:
                    raise
                self._known = now, self._known[1]
        return self._known[1]


class _RecentSources:
    """The sentences by their sources, brought up to date after a while. A number never gets another pair."""

    def __init__(self, collection: Collection) -> None:
        self._collection, self._lock = collection, Lock()
        self._table: SourceTable | None = None
        self._until = 0.0

    def __call__(self) -> SourceTable:
        with self._lock:
            if self._table is None:
                self._table = SourceTable.read(self._collection.all_sentences())
            elif time.monotonic() >= self._until:
                now = set(self._collection.sentence_numbers())
                gone, new = self._table.numbers - now, sorted(now - self._table.numbers)
                if gone or new:
                    self._table = self._table.changed(gone, self._collection.sentences(new).items())
            else:
                return self._table
            self._until = time.monotonic() + _SOURCES_SECONDS
            return self._table

    def outdate(self) -> None:
        """Look for changes at the next call."""
        self._until = 0.0


def open_milvus_memory(address: MilvusAddress, name: str | None = None, condition: str = "") -> MilvusMemory:
    """Open a memory in Milvus; see :class:`MilvusMemory`."""
    memory = MilvusMemory(Collection.open(address), name, condition)
    _ = memory.entries, len(memory.sentences)  # known from now on, should the server be away later
    return memory


def _nearest(answer: dict[str, NDArray[Any]], k: int) -> FoundEntries:
    """Return the nearest ``k``, nearest first, ties by number."""
    order = np.lexsort((answer["id"], answer["distance"]), axis=1)[:, :k]
    ids, distances, values = (np.take_along_axis(answer[name], order, axis=1) for name in ("id", "distance", "value"))
    missing = ids == MISSING
    values[missing] = -1
    if "weight" not in answer:
        return FoundEntries(distances, ids, values, None)
    weights = np.take_along_axis(answer["weight"], order, axis=1)
    weights[missing] = 1.0
    return FoundEntries(distances, ids, values, weights)
