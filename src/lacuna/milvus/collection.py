"""A memory as two collections: entries with their keys, and sentence pairs.

Keys are stored minus their mean: shorter vectors make distances more precise. Knows nothing of models.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.datastore.columns import line_to_pair
from lacuna.datastore.inspection import UNMEASURED
from lacuna.errors import IndexingError, StoreError, UnavailableError
from lacuna.milvus.address import MilvusAddress
from lacuna.milvus.collection_kind import CollectionKind
from lacuna.milvus.connection import ADMIN_DEADLINE, LONG_DEADLINE, Connection
from lacuna.milvus.schema import (
    FIELDS,
    FORMAT,
    INFO,
    MAX_RESULTS,
    CollectionInfo,
    line_of,
    make_schemas,
    sentence_row,
    text_hash,
)
from lacuna.records import SentencePair

_BYTES_AT_ONCE = 16 << 20  # of a request; Milvus allows 64 MiB
_RESULTS_AT_ONCE = 1_000_000
_STRONG: dict[str, Any] = {"consistency_level": "Strong"}
_NONE = -1  # in place of a number
_WAIT = 1.0  # seconds between two looks at the state of an index

PairKey = Callable[[SentencePair], tuple[str, ...]]  # what makes two pairs the same


@dataclass(frozen=True, eq=False, slots=True)
class EntryRows:
    """Entries to be written: rows of a store as the collection numbers them, with what it adds to each.

    :param keys: Minus the mean. # (rows, dimension)
    :param fields: All of :data:`FIELDS`. # (rows,) each
    :param tags: Labels of the pairs; empty for none.
    """

    ids: NDArray[np.int64]
    keys: NDArray[np.float32]
    fields: Mapping[str, NDArray[Any]]
    tags: Sequence[str]

    @classmethod
    def of(
        cls,
        store: Store,
        rows: NDArray[np.int64],
        mean: NDArray[np.float32],
        *,
        ids: NDArray[np.int64],
        segments: NDArray[np.int64],
        sentences: NDArray[np.integer[Any]],
        tags: Sequence[str],
        margins: NDArray[np.int32] | None = None,
    ) -> EntryRows:
        """Take the columns of some rows of a store.

        :param rows: The rows.
        :param mean: It is subtracted from the keys.
        :param ids: The number of each entry in the collection.
        :param segments: The segment of each entry.
        :param sentences: The number of the sentence of each entry in the collection.
        :param margins: The margins of all entries of the store; ``None`` if they were not measured.
        """
        fields: dict[str, NDArray[Any]] = {
            "value": store.values[rows],
            "prediction": store.predictions[rows],
            "known": store.known[rows],
            "log_p_gold": store.log_p_gold[rows],
            "margin": np.full(len(rows), UNMEASURED, np.int32) if margins is None else margins[rows],
            "weight": np.ones(len(rows), np.float32) if store.weights is None else store.weights[rows],
            "segment": segments,
            "sentence": sentences,
            "position": store.position[rows],
        }
        return cls(ids, store.keys.gather(rows).astype(np.float32) - mean, fields, tags)


class Collection:
    """The collections of a memory.

    :param connection: Where they are.
    :param info: Their content.
    """

    def __init__(self, connection: Connection, info: CollectionInfo) -> None:
        self.connection, self.info = connection, info
        self.address = connection.address
        self.mean = info.mean_key
        self.kind = CollectionKind.parse(info.kind, info.ef, info.nprobe)
        self._entries = self.address.collection
        self._sentences = sentences_of(self.address)

    @classmethod
    def open(cls, address: MilvusAddress) -> Collection:
        """Open the collections of a memory.

        :raises StoreError: There are none, or they are incomplete or no memory.
        """
        connection = Connection(address)
        info = read_info(connection)
        if info is None:
            raise StoreError(
                f"{address}: no such memory on the server; name another, or make it with lacuna index and `kind` milvus"
            )
        if not info.complete:
            raise StoreError(f"{address}: not complete; run the lacuna index command that began it again")
        return cls(connection, info)

    @classmethod
    def create(cls, connection: Connection, info: CollectionInfo) -> Collection:
        """Create empty collections, which are not complete yet."""
        made = cls(connection, info)
        made._create()
        return made

    def _create(self) -> None:
        entries, sentences = make_schemas(self.info.dimension, float16=self.connection.has_float16)
        for name, schema in ((self._entries, entries), (self._sentences, sentences)):
            if not self.connection.call("has_collection", name):
                self.connection.call("create_collection", name, schema=schema, deadline=ADMIN_DEADLINE)
        self._index(self._sentences, "unused", "FLAT", {})
        self.connection.load(self._sentences)
        self.write_info(self.info)

    def drop(self) -> None:
        """Delete both collections from the server."""
        for name in (self._entries, self._sentences):
            if self.connection.call("has_collection", name):
                self.connection.call("drop_collection", name, deadline=ADMIN_DEADLINE)

    def write_info(self, info: CollectionInfo) -> None:
        """Replace the description."""
        self.info = info
        self._upsert_sentences([sentence_row(INFO, 0, "", info.model_dump_json())])

    def build_index(self, rows: int) -> None:
        """Build the index of the entries and load it; it may take a while."""
        self.connection.call("flush", self._entries, deadline=LONG_DEADLINE)
        self._index(self._entries, "key", self.kind.index, self.kind.build_params(rows, self.info.dimension))
        self.connection.load(self._entries)
        self._wait_for_index()

    def _wait_for_index(self) -> None:
        """Wait until the server has merged segments and indexed the merged ones: searches are slow before."""
        stop = time.monotonic() + LONG_DEADLINE
        while time.monotonic() < stop:
            state = self.connection.call("describe_index", self._entries, "key", deadline=ADMIN_DEADLINE)
            if not int(state.get("pending_index_rows", 0)):
                return
            time.sleep(_WAIT)

    def _index(self, name: str, field: str, kind: str, params: dict[str, int]) -> None:
        from pymilvus import MilvusClient

        if self.connection.call("list_indexes", name):
            self.connection.call("release_collection", name, deadline=ADMIN_DEADLINE)
            self.connection.call("drop_index", name, field, deadline=ADMIN_DEADLINE)
        wanted = MilvusClient.prepare_index_params()
        wanted.add_index(field, index_type=kind, metric_type="L2", params=params)
        self.connection.call("create_index", name, wanted, deadline=LONG_DEADLINE)

    # --- Reading ------------------------------------------------------------------------------------------------------

    def search(
        self, queries: NDArray[np.float32], k: int, fields: Sequence[str] = (), where: str = ""
    ) -> dict[str, NDArray[Any]]:
        """Find the nearest entries of each query, nearest first.

        :param queries: Not centered. # (queries, dimension)
        :param fields: Names in :data:`FIELDS`, or ``key``.
        :param where: A filter expression of Milvus.
        :return: ``distance``, squared L2, infinity where there is no neighbor; ``id``, -1 where there is none; and the
            fields that were asked for, 0 where there is none. # (queries, k) each
        """
        if k > MAX_RESULTS:
            raise IndexingError(f"k: got {k:,}; a search in Milvus returns at most {MAX_RESULTS:,} neighbors")
        answer = self._no_neighbors(len(queries), k, fields)
        centered = queries - self.mean
        data = centered.astype(np.float16) if self.connection.has_float16 else centered
        sent = _BYTES_AT_ONCE // (4 * self.info.dimension * (k if "key" in fields else 1))
        at_once = max(1, min(self.kind.queries_at_once, sent, _RESULTS_AT_ONCE // k))
        for start in range(0, len(queries), at_once):
            results = self.connection.call_loaded(
                "search",
                self._entries,
                data=list(data[start : start + at_once]),
                limit=k,
                anns_field="key",
                filter=where,
                output_fields=list(fields),
                search_params=self.kind.search_params(k),
            )
            for row, near in enumerate(results, start):
                part = row, slice(len(near.ids))
                answer["id"][part], answer["distance"][part] = near.ids, near.distances
                rows = [hit["entity"] for hit in near] if fields else []
                for name in fields:
                    answer[name][part] = self._column(name, rows)
        np.maximum(answer["distance"], 0, out=answer["distance"])
        return answer

    def fetch(self, ids: NDArray[np.int64], fields: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Read fields of entries, in the order of ``ids``.

        :param fields: As in :meth:`search`.
        :raises UnavailableError: An entry does not exist any more.
        """
        wanted = np.unique(ids)
        rows: dict[int, dict[str, Any]] = {}
        at_once = max(1, min(4096, _BYTES_AT_ONCE // (4 * self.info.dimension))) if "key" in fields else 4096
        for start in range(0, len(wanted), at_once):
            where = f"id in {wanted[start : start + at_once].tolist()}"
            answer = self.connection.call_loaded("query", self._entries, filter=where, output_fields=["id", *fields])
            rows |= {row["id"]: row for row in answer}
        try:
            chosen = [rows[number] for number in ids.tolist()]
        except KeyError as error:
            raise UnavailableError(f"{self.address}: an entry was forgotten a moment ago; try again") from error
        return {name: self._column(name, chosen) for name in fields}

    def _column(self, name: str, rows: Sequence[Mapping[str, Any]]) -> NDArray[Any]:
        """Return a field of some entries."""
        if name != "key":
            return np.array([row[name] for row in rows], FIELDS[name][0])
        if not rows:
            return np.empty((0, self.info.dimension), np.float32)
        return _as_vectors([row["key"] for row in rows]) + self.mean

    def _no_neighbors(self, queries: int, k: int, fields: Sequence[str]) -> dict[str, NDArray[Any]]:
        answer: dict[str, NDArray[Any]] = {
            "id": np.full((queries, k), _NONE, np.int64),
            "distance": np.full((queries, k), np.inf, np.float32),
        }
        for name in fields:
            form = (queries, k, self.info.dimension) if name == "key" else (queries, k)
            answer[name] = np.zeros(form, np.float32 if name == "key" else FIELDS[name][0])
        return answer

    def entries_where(self, where: str, *, most: int = MAX_RESULTS, fresh: bool = False) -> NDArray[np.int64]:
        """Return the numbers of the entries that meet a filter, sorted; ``most`` of them at most."""
        options = _STRONG if fresh else {}
        rows = self.connection.call_loaded(
            "query", self._entries, filter=where, output_fields=["id"], limit=most, **options
        )
        return np.sort(np.array([row["id"] for row in rows], np.int64))

    def count(self, where: str = "", *, fresh: bool = False) -> int:
        """Return the number of entries that meet a filter.

        :param fresh: Count what was written until now; this takes a moment.
        """
        options = _STRONG if fresh else {}
        [row] = self.connection.call_loaded("query", self._entries, filter=where, output_fields=["count(*)"], **options)
        return int(row["count(*)"])

    def count_sentences(self) -> int:
        """Return the number of sentence pairs."""
        [row] = self.connection.call_loaded("query", self._sentences, filter="id >= 0", output_fields=["count(*)"])
        return int(row["count(*)"])

    def sentences(self, numbers: Sequence[int], *, fresh: bool = False) -> dict[int, SentencePair]:
        """Return the sentence pairs of these numbers that exist."""
        options = _STRONG if fresh else {}
        pairs: dict[int, SentencePair] = {}
        wanted = sorted({number for number in numbers if number >= 0})
        for start in range(0, len(wanted), 1024):
            where = f"id in {wanted[start : start + 1024]}"
            pairs |= self._pairs(where, **options)
        return pairs

    def sentences_like(self, keys: Sequence[tuple[str, ...]]) -> dict[int, SentencePair]:
        """Return the sentence pairs that may have one of these keys: those with the same hashes."""
        pairs: dict[int, SentencePair] = {}
        for start in range(0, len(keys), 1024):
            where = f"id >= 0 and text_hash in {[text_hash(key) for key in keys[start : start + 1024]]}"
            pairs |= self._pairs(where, limit=MAX_RESULTS, **_STRONG)
        return pairs

    def _pairs(self, where: str, **options: Any) -> dict[int, SentencePair]:  # noqa: ANN401 - of a query
        options["output_fields"] = ["id", "line"]
        return dict(map(_numbered_pair, self.connection.call_loaded("query", self._sentences, filter=where, **options)))

    def all_sentences(self) -> Iterator[tuple[int, SentencePair]]:
        """Yield the number and the pair of every sentence, in order."""
        return map(_numbered_pair, self._all(["id", "line"], 1024))

    def sentence_numbers(self) -> list[int]:
        """Return the numbers of all sentences, in order."""
        return [row["id"] for row in self._all(["id"], MAX_RESULTS)]

    def _all(self, fields: list[str], at_once: int) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of all sentences, which are read in parts."""
        options: dict[str, Any] = {"batch_size": at_once, "filter": "id >= 0", "output_fields": fields, **_STRONG}
        rows = self.connection.call_loaded("query_iterator", self._sentences, **options)
        while part := rows.next():
            yield from part
        rows.close()

    # --- Writing ------------------------------------------------------------------------------------------------------

    def write_entries(self, rows: EntryRows, *, new: bool = False) -> None:
        """Write entries; those that exist are replaced.

        :param new: None of them exists, which makes writing faster.
        """
        keys = rows.keys.astype(np.float16) if self.connection.has_float16 else rows.keys
        at_once = max(1, _BYTES_AT_ONCE // (4 * self.info.dimension + 128))
        names = list(FIELDS)
        for start in range(0, len(rows.ids), at_once):
            part = slice(start, start + at_once)
            columns = [rows.ids[part].tolist(), *(rows.fields[name][part].tolist() for name in names), rows.tags[part]]
            content = [
                {"key": key, **dict(zip(("id", *names, "tag"), row, strict=True))}
                for key, row in zip(keys[part], zip(*columns, strict=True), strict=True)
            ]
            method = "insert" if new else "upsert"
            self.connection.call(method, self._entries, content, deadline=ADMIN_DEADLINE)

    def write_sentences(self, pairs: Mapping[int, SentencePair], key: PairKey) -> None:
        """Write sentence pairs by their numbers; those that exist are replaced.

        :param key: By which :meth:`sentences_like` finds them.
        """
        rows, size = [], 0
        for number, pair in pairs.items():
            row = sentence_row(number, text_hash(key(pair)), pair.origin.tag or "", line_of(pair))
            rows.append(row)
            size += len(row["line"])
            if size > _BYTES_AT_ONCE or len(rows) >= 4096:
                self._upsert_sentences(rows)
                rows, size = [], 0
        if rows:
            self._upsert_sentences(rows)

    def _upsert_sentences(self, rows: list[dict[str, Any]]) -> None:
        self.connection.call("upsert", self._sentences, rows, deadline=ADMIN_DEADLINE)

    def delete_entries(self, where: str) -> None:
        """Delete the entries that meet a filter; see :meth:`settle`."""
        self.connection.call_loaded("delete", self._entries, filter=where)

    def delete_sentences(self, numbers: Sequence[int]) -> None:
        """Delete sentence pairs with their entries."""
        for start in range(0, len(numbers), 1024):
            batch = sorted(numbers[start : start + 1024])
            self.connection.call_loaded("delete", self._entries, filter=f"sentence in {batch}")
            self.connection.call_loaded("delete", self._sentences, filter=f"id in {batch}")
        self.settle()

    def settle(self) -> None:
        """Wait until searches see all that was written."""
        self.count("id == 0", fresh=True)


def sentences_of(address: MilvusAddress) -> str:
    """Return the name of the collection of sentence pairs."""
    return f"{address.collection}_sentences"


def read_info(connection: Connection) -> CollectionInfo | None:
    """Read the description of a memory; ``None`` if there is no such memory.

    :raises StoreError: The collections are of something else.
    """
    name = sentences_of(connection.address)
    has = [connection.call("has_collection", each) for each in (connection.address.collection, name)]
    if not any(has):
        return None
    foreign = StoreError(f"{connection.address}: a collection of another program; choose another name")
    if not all(has):
        raise foreign
    options: dict[str, Any] = {"filter": f"id == {INFO}", "output_fields": ["line"], **_STRONG}
    rows = connection.call_loaded("query", name, **options)
    try:
        [row] = rows
        content = json.loads(row["line"])
        if content.get("format") != FORMAT:
            raise StoreError(
                f"{connection.address}: has format {content.get('format')!r}, this version of Lacuna knows format "
                f"{FORMAT}; use the version that wrote it, or make the collection again"
            )
        return CollectionInfo.model_validate(content)
    except ValueError as error:
        raise foreign from error


def _numbered_pair(row: Mapping[str, Any]) -> tuple[int, SentencePair]:
    return row["id"], line_to_pair(row["line"].encode("utf-8"))


def _as_vectors(keys: Sequence[Any]) -> NDArray[np.float32]:
    """Return vectors as the client gives them: lists of numbers, or the bytes of float16."""
    if isinstance(keys[0], bytes):
        return np.frombuffer(b"".join(keys), np.float16).reshape(len(keys), -1).astype(np.float32)
    return np.asarray(keys, np.float32)
