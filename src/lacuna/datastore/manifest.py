"""The manifest of a store, ``manifest.json``, and the state of an unfinished build, ``building.json``.

Both are read strictly. They contain no time and no host name, so that equal builds give equal bytes.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field, JsonValue

from lacuna.artifacts.files import write_text
from lacuna.artifacts.manifests import Record, read_manifest, sealed
from lacuna.errors import LacunaWarning, StoreError
from lacuna.records import Languages

FORMAT = 1
MANIFEST = "manifest.json"
UNFINISHED = "building.json"
_AGAIN = "copy or build the store again"


class FileRecord(Record):
    """Size and xxh3-128 hash of a file."""

    bytes: int = Field(ge=0)
    xxh3: str


class ShardRecord(Record):
    """A shard: entries and sentences that were written together.

    :param rows: Number of entries.
    :param sentences: Number of sentence pairs; their ids continue those of the previous shard.
    :param files: Files by name in the folder of the shard.
    """

    rows: int = Field(ge=0)
    sentences: int = Field(ge=0)
    files: dict[str, FileRecord]


class ModelIdentity(Record):
    """The model that an artifact belongs to.

    :param name: Folder or hub name; in a system and its domain, ``None`` for the bundled model.
    """

    name: str | None
    fingerprint: str

    @classmethod
    def of(cls, model: KeyMaker) -> ModelIdentity:
        """Return the identity of a loaded model."""
        return cls(name=model.name, fingerprint=model.fingerprint)


class ModelRecord(ModelIdentity):
    """The model that computed the keys, and what the entries of a store depend on besides its weights.

    :param mask_placeholders: Whether it has read stand-ins instead of placeholders.
    :param precision: Of its products, when it read the corpus; sentences that were added later may have another.
    """

    languages: str | None
    eos_id: int
    mask_placeholders: bool = False
    precision: str = "float32"

    def check(self, model: KeyMaker, owner: str) -> None:
        """Refuse a model whose keys are not comparable with those of this one: another model or direction.

        The direction is compared if both have one. A multilingual model always has one. If only one of the two masks
        placeholders, there is a warning: stores of earlier versions do not.

        :param owner: The store or memory of the keys, for messages.
        """
        if model.fingerprint != self.fingerprint:
            raise StoreError(
                f"{owner}: built with another model ({self.name}, fingerprint {self.fingerprint[:12]}, "
                f"not {model.fingerprint[:12]}); use that model, or build a store with this one"
            )
        directed = self.languages is not None and model.languages is not None
        if directed and not model.is_direction(Languages.parse(str(self.languages))):
            raise StoreError(
                f"{owner}: built for the direction {self.languages}, but {model.name} was loaded for "
                f"{model.languages}; load it for {self.languages}, or build a store for {model.languages}"
            )
        if model.mask_placeholders != self.mask_placeholders:
            has, reads = ("has", "reads them") if self.mask_placeholders else ("does not have", "masks them")
            warnings.warn(
                f"{owner}: {has} masked placeholders, but the model {reads} (mask_placeholders): sentences with "
                "placeholders find fewer neighbors; build the store again",
                LacunaWarning,
                stacklevel=4,
            )


class CorpusRecord(Record):
    """The sentence pairs of a build.

    :param pairs: Number of pairs, skipped ones included.
    :param skipped: Pairs that were skipped because they are too long for the model.
    :param xxh3: Hash of texts and origins, in order.
    :param files: Names of the first files that the pairs come from.
    """

    pairs: int = Field(ge=0)
    skipped: int = Field(ge=0)
    xxh3: str
    files: tuple[str, ...]


class BuildSettings(Record):
    """Settings that decide the bytes of a store.

    :param batch_tokens: Largest number of tokens in a batch, padding included.
    :param shard_rows: Largest number of entries in a shard; a shard ends at the end of a sentence.
    """

    batch_tokens: int = Field(default=512, ge=1)
    shard_rows: int = Field(default=65536, ge=1)


class Parent(Record):
    """The store from which a store was made.

    :param fingerprint: The :attr:`~lacuna.datastore.store.Store.fingerprint` of the other store.
    :param entries: Its number of entries.
    :param made_by: The verb that made this store, such as ``prune``.
    :param settings: The settings of the verb.
    """

    fingerprint: str
    entries: int
    made_by: str
    settings: dict[str, JsonValue]


class Manifest(Record):
    """The manifest of a finished store."""

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
    """The state of a build: its inputs, and the shards written so far."""

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
    """Write a record atomically, with a checksum; equal records give equal bytes."""
    content = sealed(record.model_dump(mode="json"))
    write_text(path, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read_store_manifest(folder: Path) -> Manifest:
    """Read the manifest of a finished store.

    :raises StoreError: The folder has no finished store, or its manifest is damaged.
    """
    if not folder.exists():
        raise StoreError(f"{folder}: no such store; build one there with lacuna build")
    if not (folder / MANIFEST).is_file() and (folder / UNFINISHED).is_file():
        raise StoreError(f"{folder}: this store is not finished; run the same build command again")
    missing = f"{folder}: not a store, it has no {MANIFEST}; name a folder that was written by lacuna build"
    manifest = read_manifest(folder / MANIFEST, Manifest, StoreError, missing=missing, again=_AGAIN)
    sums = [sum(shard.rows for shard in manifest.shards), sum(shard.sentences for shard in manifest.shards)]
    if sums != [manifest.entries, manifest.sentences]:
        raise StoreError(
            f"{folder / MANIFEST}: has {manifest.entries} entries of {manifest.sentences} sentences, but its shards "
            f"have {sums[0]} of {sums[1]}; the file was changed: {_AGAIN}"
        )
    return manifest


def read_unfinished(folder: Path) -> Unfinished:
    """Read the state of an unfinished build."""
    missing = f"{folder}: has no unfinished build; name another folder"
    return read_manifest(folder / UNFINISHED, Unfinished, StoreError, missing=missing, again=_AGAIN)


class KeyMaker(Protocol):
    """The properties of a model that a store records; :class:`lacuna.models.Model` has them."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def fingerprint(self) -> str: ...  # noqa: D102

    @property
    def languages(self) -> Languages | None: ...  # noqa: D102

    def is_direction(self, languages: Languages) -> bool: ...  # noqa: D102

    @property
    def dimension(self) -> int: ...  # noqa: D102

    @property
    def vocabulary_size(self) -> int: ...  # noqa: D102

    @property
    def eos_id(self) -> int: ...  # noqa: D102

    @property
    def mask_placeholders(self) -> bool: ...  # noqa: D102

    @property
    def precision(self) -> str: ...  # noqa: D102


def describe_model(model: KeyMaker) -> ModelRecord:
    """Return the record of a model for a manifest."""
    languages = None if model.languages is None else str(model.languages)
    return ModelRecord(
        name=model.name,
        fingerprint=model.fingerprint,
        languages=languages,
        eos_id=model.eos_id,
        mask_placeholders=model.mask_placeholders,
        precision=model.precision,
    )
