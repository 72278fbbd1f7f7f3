"""The link of a store to the collection that is its index, ``STORE/milvus.json``.

It names what of the store is in the collection, so that an edit only sends what is new. Does not connect.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from lacuna.artifacts.manifests import Record, read_manifest, write_sealed
from lacuna.errors import IndexingError
from lacuna.milvus.address import MilvusAddress
from lacuna.milvus.collection_kind import CollectionKind

FORMAT = 1
LINK = "milvus.json"


class LinkedSegment(Record):
    """A segment whose entries are in the collection.

    :param number: Its number in the memory; 0 for a store that was never edited.
    :param store: Its fingerprint.
    :param forgotten: Hash of its forgotten sentences, whose entries were deleted from the collection.
    """

    number: int = Field(ge=0)
    store: str
    forgotten: str


class CollectionLink(Record):
    """The collection that is the index of a store."""

    format: int = FORMAT
    kind: Literal["milvus"] = "milvus"
    uri: str
    collection: str
    token_file: str | None
    index: str
    ef: int | None
    nprobe: int | None
    rerank: int
    segments: tuple[LinkedSegment, ...] = ()

    @property
    def address(self) -> MilvusAddress:
        """The place of the collection."""
        return MilvusAddress(self.uri, self.collection, self.token_file)

    @property
    def collection_kind(self) -> CollectionKind:
        """The kind of index and its settings."""
        return CollectionKind(self.index, self.ef, self.nprobe, self.rerank)


def read_link(folder: Path) -> CollectionLink | None:
    """Read the link of a store; ``None`` if its index is not in Milvus."""
    path = folder / LINK
    if not path.exists():
        return None
    again = "make it again with lacuna index and `kind` milvus"
    return read_manifest(path, CollectionLink, IndexingError, missing=f"{path}: missing; {again}", again=again)


def write_link(folder: Path, link: CollectionLink) -> None:
    """Write the link of a store."""
    write_sealed(folder / LINK, link)


def remove_link(folder: Path) -> None:
    """Remove the link of a store, whose index is local from now on."""
    (folder / LINK).unlink(missing_ok=True)
