"""The write side of a memory: new segments, forgotten sentences, and the commit that makes them visible.

A commit is the replacement of ``memory.json``; everything that it names was flushed to disk before. Files that no
commit names are removed when the next edit begins. What fails after the commit is a warning, since the edit itself has
not failed.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.files import sync, writing
from lacuna.artifacts.locks import LOCK_FILES, write_lock
from lacuna.datastore import Store, open_store
from lacuna.datastore.columns import MEAN
from lacuna.datastore.log import Action, LogEntry, append_log, utc_now
from lacuna.datastore.manifest import MANIFEST, KeyMaker, describe_model
from lacuna.datastore.segments import (
    FORGOTTEN,
    LOG,
    MEMORY,
    ROOT,
    SEGMENTS,
    MemoryManifest,
    SegmentRecord,
    is_edited,
    read_memory_manifest,
    write_forgotten,
    write_memory_manifest,
)
from lacuna.datastore.store import join_segments
from lacuna.errors import LacunaError, LacunaWarning, StoreError
from lacuna.version import __version__

# What a store has in its own folder, besides the files of an edited memory.
_ROOT_FILES = (MANIFEST, MEAN, "shards", "index")


class MemoryWriter:
    """An edit in progress. Use :func:`edit_memory` to open one.

    :param folder: Folder of the memory.
    :param manifest: The last commit.
    """

    def __init__(self, folder: Path, manifest: MemoryManifest) -> None:
        self.folder, self.manifest = folder, manifest

    def begin(self) -> None:
        """Mark the folder as an edited memory, before the first edit writes anything else into it.

        After a kill, the files of the edit then belong to a memory. Without its manifest they would be taken for the
        rest of a memory that was copied in part.
        """
        if not (self.folder / MEMORY).is_file():
            with writing(self.folder):
                write_memory_manifest(self.folder, self.manifest)

    def new_folder(self) -> Path:
        """Return the folder of a new segment; nothing is in it, or a killed build of it."""
        return self.folder / SEGMENTS / f"{self.manifest.next_segment:06d}"

    def record(self, segment: Store) -> SegmentRecord:
        """Return the record of a new segment that is complete, with its index."""
        with writing(self.folder):
            sync(segment.path.parent)
        return SegmentRecord(
            folder=segment.path.relative_to(self.folder).as_posix(),
            manifest=segment.fingerprint,
            entries=segment.entries,
            sentences=len(segment.sentences),
        )

    def forgetting(self, store: Store, sentences: NDArray[np.int64]) -> tuple[SegmentRecord, ...]:
        """Return the records of the segments after more sentences are forgotten; their files are written.

        :param store: The memory in the state of the last commit.
        :param sentences: Ids in the memory, sorted.
        """
        records, first = [], 0
        for number, record in enumerate(self.manifest.segments):
            low, high = np.searchsorted(sentences, [first, first + record.sentences])
            if low < high:
                segment = store.segments[number] if store.segments else None
                before = np.empty(0, np.int32) if segment is None else segment.forgotten
                gone = np.union1d(before, (sentences[low:high] - first).astype(np.int32)).astype(np.int32)
                own = store.sentence if segment is None else segment.store.sentence
                entries = int(np.isin(own, gone).sum())
                record = record.model_copy(update={"forgotten": write_forgotten(self.folder, gone, entries)})
            records.append(record)
            first += record.sentences
        return tuple(records)

    def after(self, segments: Sequence[SegmentRecord]) -> MemoryManifest:
        """Return the manifest after a commit of these segments."""
        numbers = [int(each.folder.rpartition("/")[2]) for each in segments if each.folder != ROOT]
        return self.manifest.model_copy(
            update={
                "lacuna": __version__,
                "commit": self.manifest.commit + 1,
                "segments": tuple(segments),
                "next_segment": max([self.manifest.next_segment, *(each + 1 for each in numbers)]),
            }
        )

    def commit(self, action: Action, segments: Sequence[SegmentRecord], *, added: int, forgotten: int) -> LogEntry:
        """Make new segments visible, and log it; then remove what no commit names any more."""
        after = self.after(segments)
        entry = LogEntry(
            commit=after.commit,
            time=utc_now(),
            action=action,
            added=added,
            forgotten=forgotten,
            entries=after.live_entries,
            segments=len(segments),
        )
        with writing(self.folder):
            append_log(self.folder, entry)
            write_memory_manifest(self.folder, after)
        self.manifest = after
        with committed(self.folder, "files that are not needed any more are still there, until the next edit"):
            self.clean()
        return entry

    def clean(self) -> None:
        """Remove what no commit names, except a killed build of the next segment, which may be resumed."""
        named = {self.folder / each.folder for each in self.manifest.segments}
        segments = self.folder / SEGMENTS
        for path in sorted(segments.iterdir()) if segments.is_dir() else []:
            if path not in named and path != self.new_folder():
                shutil.rmtree(path)
        for name in (MEMORY, LOG):  # a write that was killed
            for path in self.folder.glob(f".{name}.*.tmp"):
                path.unlink()
        files = {each.forgotten.path(self.folder) for each in self.manifest.segments if each.forgotten}
        for path in (self.folder / FORGOTTEN).glob("*"):
            if path not in files:
                path.unlink()
        if self.folder / ROOT not in named and is_edited(self.folder):
            for name in _ROOT_FILES:
                path = self.folder / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@contextmanager
def committed(folder: Path, consequence: str) -> Iterator[None]:
    """Turn what fails after the commit of an edit into a warning: the edit itself was done.

    :param consequence: What it means, as the end of a sentence.
    """
    try:
        yield
    except (LacunaError, OSError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        warnings.warn(
            f"{folder}: the edit is committed, but {consequence} ({reason}); do not repeat the command",
            LacunaWarning,
            stacklevel=3,
        )


@contextmanager
def edit_memory(
    folder: Path, model: KeyMaker | None = None, before: Store | None = None
) -> Iterator[tuple[MemoryWriter, Store]]:
    """Lock a memory and open it for one edit.

    :param model: The model of the memory, which may be new: then a memory without entries is created.
    :param before: The same memory, opened earlier, to open it faster.
    :raises StoreError: There is no memory, it belongs to another model, or it is being edited.
    """
    folder = folder.resolve()
    if folder.exists() or model is None:
        current = _read_or_start(folder, model)  # refuses what is wrong before anything is written
        if model is not None and model.fingerprint != current.model.fingerprint:
            open_store(folder).check_model(model)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with write_lock(folder):
        manifest = _read_or_start(folder, model)
        writer = MemoryWriter(folder, manifest)
        with suppress(OSError):  # what stays takes space, and is tried again by the next edit
            writer.clean()
        store = _open(folder, manifest, before)
        if model is not None:
            store.check_model(model)
        yield writer, store


def _open(folder: Path, manifest: MemoryManifest, before: Store | None) -> Store:
    if manifest.segments:
        return open_store(folder, before=before)
    return join_segments(folder, [], manifest)


def _read_or_start(folder: Path, model: KeyMaker | None) -> MemoryManifest:
    """Read the last commit; a store that was never edited is a memory of one segment."""
    if is_edited(folder):
        manifest = read_memory_manifest(folder)
    elif (folder / MANIFEST).is_file():
        store = open_store(folder)
        segment = SegmentRecord(
            folder=ROOT, manifest=store.fingerprint, entries=store.entries, sentences=len(store.sentences)
        )
        manifest = MemoryManifest(
            lacuna=__version__,
            commit=0,
            next_segment=1,
            dimension=store.dimension,
            vocabulary_size=store.manifest.vocabulary_size,
            model=store.manifest.model,
            segments=(segment,),
        )
    elif model is None:
        raise StoreError(f"{folder}: no such memory; name the folder of a memory")
    elif not folder.is_dir() or not all(_is_left(path.name) for path in folder.iterdir()):
        raise StoreError(f"{folder}: not empty and not a memory; name the folder of a memory, or a new folder")
    else:
        return MemoryManifest(
            lacuna=__version__,
            commit=0,
            next_segment=1,
            dimension=model.dimension,
            vocabulary_size=model.vocabulary_size,
            model=describe_model(model),
            segments=(),
        )
    return manifest


def _is_left(name: str) -> bool:
    """Tell whether a first edit that was killed has left this file in a new folder, before its manifest."""
    return name in LOCK_FILES or name.startswith(f".{MEMORY}.")
