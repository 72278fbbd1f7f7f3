"""Building and opening the index of a store.

An index is in ``STORE/index``. Its data file is named by its hash and complete before the manifest names it, so an
interrupted build leaves the earlier index unchanged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lacuna.artifacts.files import sha256_of, sync
from lacuna.artifacts.locks import alone
from lacuna.errors import IndexingError
from lacuna.index.base import KeyStore, VectorIndex, check_seed
from lacuna.index.exact import ExactIndex
from lacuna.index.faiss import FaissIndex, make_empty, make_index, read_faiss, write_faiss
from lacuna.index.kinds import AUTO, IndexKind, choose_kind, search_settings
from lacuna.index.manifest import (
    FOLDER,
    DataFile,
    IndexManifest,
    checked_data,
    read_manifest,
    store_identity,
    write_manifest,
)
from lacuna.index.milvus import MilvusIndex, open_linked
from lacuna.index.segmented import SegmentedIndex
from lacuna.milvus import read_link, remove_link
from lacuna.progress import SILENT, Progress
from lacuna.workers import one_thread

# faiss recommends at least this many training keys per list.
_ENOUGH_PER_LIST = 39


@dataclass(frozen=True, slots=True)
class IndexReport:
    """A finished index.

    :param index: The index, ready to search.
    :param path: The folder of the index.
    :param seconds: Duration of the build.
    """

    index: VectorIndex
    path: Path
    manifest: IndexManifest
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the content as JSON-ready values."""
        content = self.manifest.model_dump(mode="json")
        data = content.pop("data")
        return {
            "into": str(self.path),
            **content,
            "bytes": data["bytes"] if data else 0,
            "sha256": data["sha256"] if data else None,
            "seconds": round(self.seconds, 3),
        }


@alone("store", "index")
def build_index(
    store: KeyStore,
    kind: str = AUTO,
    *,
    seed: int = 1,
    nprobe: int | None = None,
    ef_search: int | None = None,
    rerank: int | None = None,
    training_rows: int | None = None,
    progress: Progress = SILENT,
) -> IndexReport:
    """Build the index of a store and replace an earlier one.

    :param kind: ``auto`` (chosen by size), ``exact``, or a faiss factory string such as ``IVF4096,PQ64``.
    :param seed: Seed of the training sample and of faiss.
    :param nprobe: Lists read for each query (IVF kinds).
    :param ef_search: Size of the candidate list (HNSW kinds).
    :param rerank: Candidates per neighbor that are re-ranked; 0 for none.
    :param training_rows: Number of training keys, for kinds that are trained.
    """
    started = time.monotonic()
    check_seed(seed)
    if store.segments is not None:
        raise IndexingError(
            f"{store.path}: this memory was edited, and each of its {len(store.segments)} segments has an index; "
            f"to build a new one, use lacuna compact {store.path} with `kind` {kind}"
        )
    identity = store_identity(store)
    rows, dimension = store.keys.rows, store.keys.dimension
    choice = choose_kind(kind, rows, dimension)
    settings = search_settings(choice.kind, nprobe, ef_search, rerank)
    folder, trained, data = store.path / FOLDER, 0, None
    _check_writable(folder)
    index: VectorIndex
    if choice.kind.is_exact:
        index = ExactIndex(store)
    else:
        with training_threads(choice.kind):
            made, trained = make_index(store, choice.kind, seed, training_rows, progress)
        with _writing(folder):
            data = _write_data(folder, made)
        index = FaissIndex(made, store, choice.kind, settings)
    manifest = IndexManifest(
        asked=kind,
        kind=choice.kind.name,
        why=choice.why,
        seed=seed,
        probes=settings.nprobe,
        ef=settings.ef_search,
        rerank=settings.rerank,
        rows=rows,
        dimension=dimension,
        training_rows=trained,
        store=identity,
        data=data,
        notes=_notes(choice.kind, trained),
    )
    with _writing(folder):
        write_manifest(store, manifest)
        _remove_earlier(folder, data)
        remove_link(store.path)
    return IndexReport(index, folder, manifest, time.monotonic() - started)


def check_kind(kind: str, rows: int, dimension: int) -> None:
    """Refuse a kind of index that cannot be built, before slow work.

    :raises IndexingError: The kind is unknown, or not possible for this dimension.
    """
    choice = choose_kind(kind, rows, dimension).kind
    if not choice.is_exact:
        make_empty(choice, dimension)


def training_threads(kind: IndexKind) -> AbstractContextManager[None]:
    """Return a context with the number of threads for training and filling an index of this kind.

    faiss splits training and filling into many small products. With two threads it is a quarter faster than with one on
    an idle machine, but half as fast beside a busy process. A graph is filled entry by entry, which can be split.
    """
    return nullcontext() if kind.graph else one_thread()


def open_index(
    store: KeyStore,
    *,
    nprobe: int | None = None,
    ef_search: int | None = None,
    rerank: int | None = None,
    opened: Mapping[KeyStore, VectorIndex] = MappingProxyType({}),
) -> VectorIndex:
    """Open the index of a store. Search settings that are not given are those of the build.

    :param nprobe: Lists read for each query (IVF kinds).
    :param ef_search: Size of the candidate list (HNSW kinds).
    :param rerank: Candidates per neighbor that are re-ranked; 0 for none.
    :param opened: Indexes of segments that are open already, see :func:`~lacuna.index.segmented.opened_indexes`.
    """
    link = read_link(store.path)
    if link is not None:
        earlier = next((index.collection for index in opened.values() if isinstance(index, MilvusIndex)), None)
        return open_linked(store, link, nprobe=nprobe, ef_search=ef_search, rerank=rerank, opened=earlier)
    if store.segments is not None:

        def open_one(segment: KeyStore) -> VectorIndex:
            return opened.get(segment) or open_index(segment, nprobe=nprobe, ef_search=ef_search, rerank=rerank)

        return SegmentedIndex(store, open_one)
    manifest = read_manifest(store)
    kind = choose_kind(manifest.kind, manifest.rows, manifest.dimension).kind
    settings = search_settings(
        kind,
        manifest.probes if nprobe is None else nprobe,
        manifest.ef if ef_search is None else ef_search,
        manifest.rerank if rerank is None else rerank,
    )
    if manifest.data is None:
        return ExactIndex(store)
    return FaissIndex(read_faiss(str(checked_data(store, manifest.data))), store, kind, settings)


def _check_writable(folder: Path) -> None:
    """Check that the folder can be written, before the slow work starts."""
    existing = folder if folder.exists() else folder.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise _unwritable(folder, "permission is missing" if existing.is_dir() else "it is not a folder")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Convert write errors to errors that name the folder."""
    try:
        yield
    except OSError as error:
        raise _unwritable(folder, error.strerror) from error


def _unwritable(folder: Path, reason: str | None) -> IndexingError:
    return IndexingError(
        f"{folder}: cannot be written ({reason}); free space, fix the permissions, or move the folder away"
    )


def _write_data(folder: Path, index: Any) -> DataFile:  # noqa: ANN401 - faiss has no types
    folder.mkdir(exist_ok=True)
    temporary = folder / f".building-{os.getpid()}.tmp"
    try:
        write_faiss(index, str(temporary))
        sync(temporary)
        digest, size = sha256_of(temporary), temporary.stat().st_size
        data = DataFile(file=f"index-{digest[:16]}.faiss", bytes=size, sha256=digest)
        temporary.replace(folder / data.file)
        sync(folder)
    finally:
        temporary.unlink(missing_ok=True)
    return data


def _remove_earlier(folder: Path, data: DataFile | None) -> None:
    """Remove the data of the earlier index and of killed builds."""
    for path in [*folder.glob("index-*.faiss"), *folder.glob(".building-*.tmp")]:
        if data is None or path.name != data.file:
            path.unlink(missing_ok=True)


def _notes(kind: IndexKind, trained: int) -> tuple[str, ...]:
    if kind.lists and trained < _ENOUGH_PER_LIST * kind.lists:
        return (
            f"{trained:,} training keys for {kind.lists:,} lists, faiss recommends "
            f"{_ENOUGH_PER_LIST * kind.lists:,}; use fewer lists",
        )
    return ()
