"""Publish a store as a collection in Milvus, and bring the collection up to date after edits of the store.

Publishing resumes after a kill. The link file of the store names what the collection has; an edit sends only what is
new and deletes what was forgotten, so that nothing forgotten stays on the server. Knows nothing of indexes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store, open_store
from lacuna.datastore.inspection import measured_margins
from lacuna.datastore.store import Segment
from lacuna.errors import LacunaError, StoreError, UnavailableError
from lacuna.memory.lookup import pair_key
from lacuna.milvus import (
    Collection,
    CollectionInfo,
    CollectionKind,
    CollectionLink,
    MilvusAddress,
    read_link,
    write_link,
)
from lacuna.milvus.collection import EntryRows, read_info
from lacuna.milvus.connection import Connection
from lacuna.milvus.link import LinkedSegment
from lacuna.milvus.schema import check_tag
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair

_ROWS_AT_ONCE = 8192
_SENTENCES_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class PublishReport:
    """A store that is in a collection.

    :param address: The collection.
    :param kind: Its kind of index.
    :param entries: Number of entries.
    :param sent: Number of entries that were sent now; fewer if it was resumed, or if the collection was there already.
    """

    address: MilvusAddress
    kind: str
    entries: int
    sent: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the content as JSON-ready values."""
        return {
            "into": str(self.address),
            "kind": self.kind,
            "rows": self.entries,
            "sent": self.sent,
            "seconds": round(self.seconds, 3),
        }


def publish_store(
    store: Store, address: MilvusAddress, kind: CollectionKind, *, progress: Progress = SILENT
) -> PublishReport:
    """Make a collection the index of a store, and send it everything that a translator needs.

    If the collection is that of the store already, only what has changed is sent. Margins are sent if they have been
    measured.

    :raises StoreError: The collection has another memory, or one of another model.
    """
    started = time.monotonic()
    link = read_link(store.path)
    if link is not None and link.address == address and link.collection_kind.index == kind.index:
        sent = sync_collection(store, progress=progress)
        write_link(store.path, _with_kind(read_link(store.path) or link, kind))
        return PublishReport(address, kind.name, store.entries, sent, time.monotonic() - started)
    connection = Connection(address)
    collection, resumed = _begin(connection, store, kind)
    sent = _send(collection, store, progress, resumed=resumed)
    progress.start("building the index in Milvus")
    collection.build_index(store.entries)
    collection.write_info(collection.info.model_copy(update={"complete": True}))
    collection.settle()
    progress.finish()
    write_link(store.path, _link(store, address, kind))
    return PublishReport(address, kind.name, store.entries, sent, time.monotonic() - started)


def sync_collection(store: Store, *, progress: Progress = SILENT) -> int:
    """Bring the collection of an edited memory up to date; return the number of entries that were sent.

    Nothing happens if the index of the memory is local.

    :param store: The memory after its last commit.
    :raises UnavailableError: The server does not answer. The memory itself is unchanged by that; the next edit sends
        what is missing.
    """
    link = read_link(store.path)
    wanted = tuple(_linked(segment) for segment in store.parts)
    if link is None or link.segments == wanted:
        return 0
    try:
        sent = _sync(Collection.open(link.address), store, link, progress)
    except UnavailableError as error:
        raise UnavailableError(
            f"{error}; the edit is saved in {store.path}, but not there yet: later run lacuna index {store.path} "
            "with `kind` milvus"
        ) from error
    write_link(store.path, link.model_copy(update={"segments": wanted}))
    return sent


def sync_folder(folder: Path) -> None:
    """Bring the collection of a memory up to date after an edit, if its index is in Milvus."""
    if read_link(folder) is not None:
        sync_collection(open_store(folder))


def _begin(connection: Connection, store: Store, kind: CollectionKind) -> tuple[Collection, bool]:
    """Create the collections, or open those of an unfinished run; also return whether it is one."""
    address, existing = connection.address, read_info(connection)
    wanted = CollectionInfo.of(store, kind)
    if existing is None:
        return Collection.create(connection, wanted), False
    if existing.model.fingerprint != wanted.model.fingerprint:
        raise StoreError(
            f"{address}: has a memory of another model ({existing.model.name}, fingerprint "
            f"{existing.model.fingerprint[:12]}, not {wanted.model.fingerprint[:12]}); choose another `collection`"
        )
    if existing.store != wanted.store:
        raise StoreError(f"{address}: has another memory, or another state of this one; choose another `collection`")
    return Collection.create(connection, wanted), True


def _send(collection: Collection, store: Store, progress: Progress, *, resumed: bool) -> int:
    progress.start("sending sentences", len(store.sentences), "sentences")
    tags: dict[int, str] = {}
    for block in _sentence_blocks(store):
        tags |= {number: check_tag(pair.origin.tag) for number, pair in block.items() if pair.origin.tag}
        collection.write_sentences(block, pair_key)
        progress.advance(len(block))
    progress.finish()
    if resumed:
        collection.build_index(store.entries)  # a collection without an index cannot be asked what it has
    margins = _margins(store)
    progress.start("sending entries", store.entries, "entries")
    sent = 0
    for first in range(0, store.entries, _ROWS_AT_ONCE):
        part = np.arange(first, min(store.entries, first + _ROWS_AT_ONCE))
        ids = store.rows[part]
        there = collection.count(f"id >= {ids[0]} and id <= {ids[-1]}", fresh=True) if resumed else 0
        if there < len(ids):
            collection.write_entries(_rows(collection, store, part, tags, margins), new=not there)
            sent += len(ids)
        progress.advance(len(ids))
    progress.finish()
    return sent


def _sync(collection: Collection, store: Store, link: CollectionLink, progress: Progress) -> int:
    """Delete what was forgotten or merged, and send new segments."""
    before = {segment.number: segment for segment in link.segments}
    now = {part.store.number: part for part in store.parts}
    new = {
        number for number, part in now.items() if number not in before or before[number].store != part.store.fingerprint
    }
    # New entries come first, so that a sentence of a merged segment is always found.
    sent = sum(_send_segment(collection, store, number, progress) for number in sorted(new))
    gone = sorted(set(before) - set(now))
    if gone:
        collection.delete_entries(f"segment in {gone}")
        # Some of their sentences may have been forgotten since.
        collection.delete_sentences([number for number in range(len(store.sentences)) if number not in store.sentences])
    sentences = 0
    for part in store.parts:
        number = part.store.number
        if number not in new and _forgotten_hash(part) != before[number].forgotten:
            collection.delete_sentences((part.forgotten.astype(np.int64) + sentences).tolist())
        sentences += len(part.store.sentences)
    collection.settle()
    return sent


def _send_segment(collection: Collection, store: Store, number: int, progress: Progress) -> int:
    """Send the entries of one segment, and their sentences."""
    chosen = np.flatnonzero(store.rows >> 32 == number)
    numbers = np.unique(store.sentence[chosen]).tolist()
    tags: dict[int, str] = {}
    progress.start("sending entries", len(chosen), "entries")
    for start in range(0, len(numbers), _SENTENCES_AT_ONCE):
        block = store.sentences.pairs(numbers[start : start + _SENTENCES_AT_ONCE])
        tags |= {each: check_tag(pair.origin.tag) for each, pair in block.items() if pair.origin.tag}
        collection.write_sentences(block, pair_key)
    for start in range(0, len(chosen), _ROWS_AT_ONCE):
        part = chosen[start : start + _ROWS_AT_ONCE]
        collection.write_entries(_rows(collection, store, part, tags, None))
        progress.advance(len(part))
    progress.finish()
    return len(chosen)


def _rows(
    collection: Collection,
    store: Store,
    part: NDArray[np.int64],
    tags: dict[int, str],
    margins: NDArray[np.int32] | None,
) -> EntryRows:
    ids, sentences = store.rows[part], store.sentence[part]
    return EntryRows.of(
        store,
        part,
        collection.mean,
        ids=ids,
        segments=ids >> 32,
        sentences=sentences,
        tags=[tags.get(number, "") for number in sentences.tolist()],
        margins=margins,
    )


def _margins(store: Store) -> NDArray[np.int32] | None:
    try:
        measured = measured_margins(store)
    except LacunaError:  # damaged
        return None
    return None if measured is None else measured.values


def _sentence_blocks(store: Store) -> Iterator[dict[int, SentencePair]]:
    block: dict[int, SentencePair] = {}
    for number, pair in store.sentences.present():
        block[number] = pair
        if len(block) == _SENTENCES_AT_ONCE:
            yield block
            block = {}
    if block:
        yield block


def _link(store: Store, address: MilvusAddress, kind: CollectionKind) -> CollectionLink:
    return CollectionLink(
        uri=address.uri,
        collection=address.collection,
        token_file=address.token_file,
        index=kind.index,
        ef=kind.ef,
        nprobe=kind.nprobe,
        rerank=kind.rerank,
        segments=tuple(_linked(segment) for segment in store.parts),
    )


def _with_kind(link: CollectionLink, kind: CollectionKind) -> CollectionLink:
    return link.model_copy(update={"ef": kind.ef, "nprobe": kind.nprobe, "rerank": kind.rerank})


def _linked(segment: Segment) -> LinkedSegment:
    store = segment.store
    return LinkedSegment(number=store.number, store=store.fingerprint, forgotten=_forgotten_hash(segment))


def _forgotten_hash(segment: Segment) -> str:
    return hashlib.sha256(segment.forgotten.tobytes()).hexdigest()[:16]
