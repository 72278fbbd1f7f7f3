"""A store that is read from its collections instead of files.

Entries have the numbers of the collection. A column can be read for given entries, which is all that translating and
explaining needs; what needs whole columns, such as pruning, needs the files of the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.columns import Keys, SentenceTable
from lacuna.datastore.manifest import BuildSettings, CorpusRecord, FileRecord, Manifest
from lacuna.datastore.store import Store
from lacuna.errors import StoreError, UnavailableError
from lacuna.milvus.collection import Collection
from lacuna.records import SentencePair
from lacuna.version import __version__

_COUNT_SECONDS = 1.0  # for which a number of entries or sentences is used again


@dataclass(frozen=True, eq=False)
class CollectionStore(Store):
    """The entries and sentence pairs of a collection. Opened with :func:`open_collection_store`."""

    collection: Collection = field(kw_only=True)

    @property
    def name(self) -> str:
        """The address of the collection."""
        return str(self.collection.address)

    @property
    def entries(self) -> int:
        """Number of entries, a second ago at most."""
        return self._count()

    @cached_property
    def _count(self) -> _RecentCount:
        return _RecentCount(self.collection.count)

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the store that was published."""
        return self.collection.info.store

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Not available: only entries that were found have numbers."""
        self._refuse()

    @cached_property
    def weights(self) -> NDArray[np.float32] | None:
        """How many entries each one represents; None if no entries were merged."""
        return cast(NDArray[np.float32], EntryColumn(self, "weight")) if self.collection.info.weighted else None

    def load(self, before: Store | None = None) -> None:
        """Do nothing: all is on the server."""

    def _column(self, name: str, before: Store | None = None) -> NDArray[np.generic]:
        named = {"values": "value", "predictions": "prediction"}.get(name, name)
        return cast(NDArray[np.generic], EntryColumn(self, named))

    def _refuse(self) -> NoReturn:
        raise StoreError(f"{self.name}: this needs the files of the store; name its folder instead")


class EntryColumn:
    """A field of given entries: ``column[numbers]``."""

    def __init__(self, store: CollectionStore, name: str) -> None:
        self._store, self._name = store, name

    def __getitem__(self, entries: Any) -> Any:  # noqa: ANN401 - a number, or an array of numbers
        wanted = np.asarray(entries)
        if wanted.dtype.kind not in "iu":
            self._store._refuse()
        found = self._store.collection.fetch(wanted.reshape(-1).astype(np.int64), [self._name])[self._name]
        return found.reshape(wanted.shape)[()]

    def __len__(self) -> int:
        return self._store.entries

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:  # noqa: ANN401 - NumPy's own
        self._store._refuse()

    def __eq__(self, other: object) -> NoReturn:
        self._store._refuse()

    def __invert__(self) -> NoReturn:
        self._store._refuse()

    __hash__ = None  # type: ignore[assignment]


class CollectionKeys(Keys):
    """The keys of given entries."""

    def __init__(self, collection: Collection) -> None:
        super().__init__([], collection.info.dimension)
        self._collection = collection

    def gather(self, ids: NDArray[np.int64]) -> NDArray[np.float16]:
        """Return the keys of the given entries, ``(n, dimension)``, in their order; ids may repeat."""
        return self._collection.fetch(np.asarray(ids, np.int64), [], keys=True)["key"].astype(np.float16)

    def sample(self, count: int) -> NDArray[np.float16]:
        """Return up to ``count`` keys, whichever the server returns first: (n, dimension)."""
        return self.gather(self._collection.entries_where("id >= 0", most=count))


class CollectionSentences(SentenceTable):
    """Sentence pairs by number, read from the server."""

    def __init__(self, collection: Collection) -> None:
        super().__init__([], [])
        self._collection, self._count = collection, _RecentCount(collection.count_sentences)

    def __len__(self) -> int:
        """Return the number of sentence pairs, a second ago at most. Their numbers are not consecutive."""
        return self._count()

    def __contains__(self, sentence: int) -> bool:
        return bool(self._collection.sentences([sentence]))

    def __getitem__(self, sentence: int) -> SentencePair:
        return self.pairs([sentence])[sentence]

    def pairs(self, sentences: Sequence[int]) -> dict[int, SentencePair]:
        """Return the pairs of several sentences."""
        found = self._collection.sentences(sentences)
        for sentence in sentences:
            if sentence not in found:
                raise IndexError(f"sentence {sentence}: does not exist, or was forgotten")
        return found

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


def open_collection_store(collection: Collection) -> CollectionStore:
    """Read a collection like a store."""
    info = collection.info
    manifest = Manifest(
        lacuna=__version__,
        entries=0,
        sentences=0,
        skipped=0,
        dimension=info.dimension,
        vocabulary_size=info.vocabulary_size,
        model=info.model,
        corpus=CorpusRecord(pairs=0, skipped=0, xxh3="", files=()),
        settings=BuildSettings(),
        mean=FileRecord(bytes=0, xxh3=""),
        shards=(),
    )
    store = CollectionStore(
        Path(str(collection.address)),
        manifest,
        CollectionKeys(collection),
        collection.mean,
        CollectionSentences(collection),
        (),
        collection=collection,
    )
    _ = store.entries, len(store.sentences)  # known from now on, should the server be away later
    return store
