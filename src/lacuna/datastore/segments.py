"""The manifest of an edited memory, ``memory.json``: its segments, and the sentences forgotten in each.

A store that was never edited has no such file, or one of commit 0: it is written before all other files of an edit, so
that a folder with these files and without it is known to be incomplete. Segments are stores that are never changed: the
first one is the folder itself, later ones are in ``segments``. The manifest is replaced atomically, so a reader sees
one commit or the next. Plain files rather than a database: they can be copied, verified and read over a network file
system like the rest of a store.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import xxhash
from numpy.typing import NDArray
from pydantic import Field

from lacuna.artifacts.files import reading, write_bytes, writing
from lacuna.artifacts.manifests import Record, read_manifest, write_sealed
from lacuna.datastore.columns import map_array, record_of
from lacuna.datastore.manifest import FileRecord, ModelRecord
from lacuna.errors import StoreError

FORMAT = 1
MEMORY = "memory.json"
SEGMENTS = "segments"
FORGOTTEN = "forgotten"
LOG = "log.jsonl"
ROOT = "."

_AGAIN = "copy the memory again"


class Forgotten(Record):
    """The forgotten sentences of a segment, in a file of ``forgotten`` that is named by its hash.

    :param sentences: Number of sentences.
    :param entries: Number of their entries.
    """

    sentences: int = Field(ge=1)
    entries: int = Field(ge=0)
    file: FileRecord

    def path(self, memory: Path) -> Path:
        """Return the file: sorted sentence ids of the segment, int32."""
        return memory / FORGOTTEN / f"{self.file.xxh3}.npy"


class SegmentRecord(Record):
    """A segment.

    :param folder: Relative to the memory.
    :param manifest: SHA-256 of the manifest of the segment.
    :param entries: Number of entries, those of forgotten sentences included.
    :param sentences: Number of sentence ids, those of forgotten sentences included.
    """

    folder: Annotated[str, Field(pattern=r"^(\.|segments/[0-9]{6})$")]
    manifest: str
    entries: int = Field(ge=0)
    sentences: int = Field(ge=0)
    forgotten: Forgotten | None = None


class MemoryManifest(Record):
    """The segments of a memory.

    :param commit: Number of edits so far.
    :param next_segment: Number of the next new segment; numbers are not used twice.
    """

    format: int = FORMAT
    kind: Literal["memory"] = "memory"
    lacuna: str
    commit: int = Field(ge=0)
    next_segment: int = Field(ge=1)
    dimension: int = Field(ge=1)
    vocabulary_size: int = Field(ge=1)
    model: ModelRecord
    segments: tuple[SegmentRecord, ...]

    @property
    def live_entries(self) -> int:
        """Number of entries, without those of forgotten sentences."""
        return sum(each.entries - (each.forgotten.entries if each.forgotten else 0) for each in self.segments)

    @property
    def never_edited(self) -> bool:
        """Whether the memory is still the store in its folder, because its first edit was not committed."""
        return self.commit == 0 and bool(self.segments)


def is_edited(folder: Path) -> bool:
    """Tell whether a folder has a memory that was edited, or whose first edit has begun.

    :raises StoreError: The folder has files of an edited memory, but not its manifest. Without it, the store in the
        folder would be read as it was before all edits.
    """
    if (folder / MEMORY).is_file():
        return True
    left = next((name for name in (SEGMENTS, FORGOTTEN, LOG) if (folder / name).exists()), None)
    if left is not None:
        raise StoreError(
            f"{folder}: has {left} but no {MEMORY}, so this is not the whole memory; copy the memory again with all of "
            "its files"
        )
    return False


def read_memory_manifest(folder: Path) -> MemoryManifest:
    """Read the manifest of an edited memory."""
    missing = f"{folder}: has no {MEMORY}; name the folder of a memory"
    return read_manifest(folder / MEMORY, MemoryManifest, StoreError, missing=missing, again=_AGAIN)


def write_memory_manifest(folder: Path, manifest: MemoryManifest) -> None:
    """Replace the manifest: the commit of an edit."""
    write_sealed(folder / MEMORY, manifest)


def write_forgotten(folder: Path, sentences: NDArray[np.int32], entries: int) -> Forgotten:
    """Write the forgotten sentences of a segment.

    :param sentences: Their ids in the segment, sorted.
    :param entries: Number of their entries.
    """
    buffer = BytesIO()
    np.save(buffer, sentences, allow_pickle=False)
    content = buffer.getvalue()
    record = FileRecord(bytes=len(content), xxh3=xxhash.xxh3_128(content).hexdigest())
    forgotten = Forgotten(sentences=len(sentences), entries=entries, file=record)
    with writing(folder):
        write_bytes(forgotten.path(folder), content)
    return forgotten


def read_forgotten(folder: Path, forgotten: Forgotten) -> NDArray[np.int32]:
    """Read the forgotten sentences of a segment."""
    path = forgotten.path(folder)
    with reading(path, _AGAIN):
        if not path.is_file() or record_of(path) != forgotten.file:
            raise StoreError(f"{path}: missing or damaged; {_AGAIN}")
    ids = map_array(path, np.int32, (forgotten.sentences,))
    return np.array(ids, dtype=np.int32)
