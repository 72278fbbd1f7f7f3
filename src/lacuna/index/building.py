"""Making the index of a store, and opening it.

An index lives in ``STORE/index``. Its data file is named by its own hash and is whole before the manifest names it,
so a build that dies at any moment leaves the earlier index as it was. Knows nothing of how an index searches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lacuna.errors import IndexingError
from lacuna.files import sha256_of, sync
from lacuna.index.base import KeyStore, VectorIndex, check_seed
from lacuna.index.exact import ExactIndex
from lacuna.index.faiss import FaissIndex, make_index, read_faiss, write_faiss
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
from lacuna.progress import SILENT, Progress

# Below this many training keys per list or code word, faiss calls the result poor.
_ENOUGH_PER_LIST = 39


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What was built.

    :param path: The folder of the index.
    :param seconds: How long it took.
    """

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


def build_index(
    store: KeyStore,
    kind: str = AUTO,
    *,
    seed: int = 1,
    probes: int | None = None,
    ef: int | None = None,
    rerank: int | None = None,
    training_rows: int | None = None,
    progress: Progress = SILENT,
) -> IndexReport:
    """Make the index of a store, in place of an earlier one.

    :param kind: ``auto`` (chosen by size), ``exact``, or a faiss factory string such as ``IVF4096,PQ64``.
    :param seed: Decides the training sample and all chance inside faiss.
    :param probes: Lists read for each query, where the kind has lists.
    :param ef: Candidates kept on a walk, where the kind is a graph.
    :param rerank: Candidates per neighbor whose true distances are computed from the keys; 0 for none.
    :param training_rows: Keys drawn for training, where the kind is trained.
    """
    started = time.monotonic()
    check_seed(seed)
    identity = store_identity(store)
    rows, dimension = store.keys.rows, store.keys.dimension
    choice = choose_kind(kind, rows, dimension)
    settings = search_settings(choice.kind, probes, ef, rerank)
    folder, trained, data = store.path / FOLDER, 0, None
    _check_place(folder)
    if not choice.kind.is_exact:
        index, trained = make_index(store, choice.kind, seed, training_rows, progress)
        with _writing(folder):
            data = _write_data(folder, index)
    manifest = IndexManifest(
        asked=kind,
        kind=choice.kind.name,
        why=choice.why,
        seed=seed,
        probes=settings.probes,
        ef=settings.ef,
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
    return IndexReport(folder, manifest, time.monotonic() - started)


def open_index(
    store: KeyStore, *, probes: int | None = None, ef: int | None = None, rerank: int | None = None
) -> VectorIndex:
    """Open the index of a store; what is not given here is as it was built.

    :param probes: Lists read for each query.
    :param ef: Candidates kept on a walk through the graph.
    :param rerank: Candidates per neighbor whose true distances are computed from the keys; 0 for none.
    """
    manifest = read_manifest(store)
    kind = choose_kind(manifest.kind, manifest.rows, manifest.dimension).kind
    settings = search_settings(
        kind,
        manifest.probes if probes is None else probes,
        manifest.ef if ef is None else ef,
        manifest.rerank if rerank is None else rerank,
    )
    if manifest.data is None:
        return ExactIndex(store)
    return FaissIndex(read_faiss(str(checked_data(store, manifest.data))), store, kind, settings)


def _check_place(folder: Path) -> None:
    """Refuse what cannot be written before the slow work, not after it."""
    place = folder if folder.exists() else folder.parent
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise _unwritable(folder, "permission is missing" if place.is_dir() else "it is not a folder")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn a failure to write into an error that names the folder."""
    try:
        yield
    except OSError as error:
        raise _unwritable(folder, error.strerror) from error


def _unwritable(folder: Path, reason: str | None) -> IndexingError:
    return IndexingError(f"{folder}: cannot be written ({reason}); free space, mend the permissions or move it away")


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
    """Remove the data of the index before, and what a build that was killed could not take away."""
    for path in [*folder.glob("index-*.faiss"), *folder.glob(".building-*.tmp")]:
        if data is None or path.name != data.file:
            path.unlink(missing_ok=True)


def _notes(kind: IndexKind, trained: int) -> tuple[str, ...]:
    if kind.lists and trained < _ENOUGH_PER_LIST * kind.lists:
        return (
            f"{trained:,} training keys for {kind.lists:,} lists, faiss advises "
            f"{_ENOUGH_PER_LIST * kind.lists:,}; fewer lists would be better trained",
        )
    return ()
