"""What a store folder says of itself: ``manifest.json``, and ``building.json`` while it is not finished.

Both are read strictly: a field too many, too few or of another type is an error, as is a format this version does not
know. They hold no time and no host, so that the same build gives the same bytes. Knows nothing of what is in the files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field, JsonValue

from lacuna.errors import StoreError
from lacuna.files import write_text
from lacuna.manifests import Record
from lacuna.manifests import read_manifest as read_record
from lacuna.records import Languages

FORMAT = 1
MANIFEST = "manifest.json"
UNFINISHED = "building.json"
_AGAIN = "copy or build the store again"


class FileRecord(Record):
    """A file's size and its xxh3-128 hash."""

    bytes: int = Field(ge=0)
    xxh3: str


class ShardRecord(Record):
    """One shard: entries and sentences that were written together.

    :param rows: Entries.
    :param sentences: Sentence pairs; their ids go on from the shard before.
    :param files: By name inside the shard's folder.
    """

    rows: int = Field(ge=0)
    sentences: int = Field(ge=0)
    files: dict[str, FileRecord]


class ModelRecord(Record):
    """The model that the keys come from."""

    name: str
    fingerprint: str
    languages: str | None
    eos_id: int


class CorpusRecord(Record):
    """The sentence pairs as they came in.

    :param pairs: All of them, also those left out.
    :param skipped: Those left out because the model cannot take them.
    :param xxh3: Hash of texts and origins, in order.
    :param files: Names of the files they came from; of very many, the first.
    """

    pairs: int = Field(ge=0)
    skipped: int = Field(ge=0)
    xxh3: str
    files: tuple[str, ...]


class BuildSettings(Record):
    """Settings that decide which bytes a build writes.

    :param batch_tokens: Tokens, with what fills up, that go through the model at once.
    :param shard_rows: Entries that a shard may have; a shard ends where a sentence ends.
    """

    batch_tokens: int = Field(default=2048, ge=1)
    shard_rows: int = Field(default=65536, ge=1)


class Parent(Record):
    """Where a store came from that was made from another.

    :param fingerprint: The other store's :attr:`~lacuna.datastore.store.Store.fingerprint`.
    :param entries: Its entries.
    :param made_by: The verb that made this one, as ``prune``.
    :param settings: The verb's settings.
    """

    fingerprint: str
    entries: int
    made_by: str
    settings: dict[str, JsonValue]


class Manifest(Record):
    """A finished store."""

    format: int = FORMAT
    kind: Literal["store"] = "store"
    lacuna: str
    entries: int = Field(ge=0)
    sentences: int = Field(ge=0)
    skipped: int = Field(ge=0)
    dimension: int = Field(ge=1)
    vocabulary_size: int = Field(ge=1)
    dtype: Literal["float16"] = "float16"
    key: Literal["out"] = "out"
    model: ModelRecord
    corpus: CorpusRecord
    settings: BuildSettings
    mean: FileRecord
    shards: tuple[ShardRecord, ...]
    parent: Parent | None = None


class Unfinished(Record):
    """A store being built: what it is built from, and how far it has come."""

    format: int = FORMAT
    kind: Literal["unfinished store"] = "unfinished store"
    lacuna: str
    dimension: int = Field(ge=1)
    vocabulary_size: int = Field(ge=1)
    model: ModelRecord
    settings: BuildSettings
    corpus: CorpusRecord
    shards: tuple[ShardRecord, ...] = ()


def write_record(path: Path, record: Manifest | Unfinished) -> None:
    """Write a record atomically; the same record gives the same bytes."""
    write_text(path, json.dumps(record.model_dump(mode="json"), indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a finished store, or say why the folder is none."""
    if not folder.exists():
        raise StoreError(f"{folder}: no such store; make it with: lacuna build CORPUS --into {folder}")
    if not (folder / MANIFEST).is_file() and (folder / UNFINISHED).is_file():
        raise StoreError(f"{folder}: this store is not finished; run the command that builds it again")
    missing = f"{folder}: not a store, there is no {MANIFEST} in it; name a folder that lacuna build made"
    manifest = read_record(folder / MANIFEST, Manifest, StoreError, missing=missing, again=_AGAIN)
    sums = [sum(shard.rows for shard in manifest.shards), sum(shard.sentences for shard in manifest.shards)]
    if sums != [manifest.entries, manifest.sentences]:
        raise StoreError(
            f"{folder / MANIFEST}: says {manifest.entries} entries of {manifest.sentences} sentences, but its shards "
            f"have {sums[0]} of {sums[1]}; the file was changed: copy or build the store again"
        )
    return manifest


def read_unfinished(folder: Path) -> Unfinished:
    """Read how far a build has come."""
    missing = f"{folder}: no store is being built there; name another folder"
    return read_record(folder / UNFINISHED, Unfinished, StoreError, missing=missing, again=_AGAIN)


class KeyMaker(Protocol):
    """A model, as far as a store describes it: :class:`lacuna.models.Model` is such."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def fingerprint(self) -> str: ...  # noqa: D102

    @property
    def languages(self) -> Languages | None: ...  # noqa: D102

    @property
    def dimension(self) -> int: ...  # noqa: D102

    @property
    def vocabulary_size(self) -> int: ...  # noqa: D102

    @property
    def eos_id(self) -> int: ...  # noqa: D102


def describe_model(model: KeyMaker) -> ModelRecord:
    """Return what a manifest says of a model."""
    languages = None if model.languages is None else str(model.languages)
    return ModelRecord(name=model.name, fingerprint=model.fingerprint, languages=languages, eos_id=model.eos_id)
