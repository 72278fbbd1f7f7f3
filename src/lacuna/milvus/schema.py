"""What the collections of a memory contain: fields, numbers and the description. Does not connect.

The number of an entry is its primary key. Entries of a published store have the number that edits of the store do not
change (:attr:`lacuna.datastore.Store.rows`). Those of a pair that is added to the collection itself have numbers made
from a hash of the pair, so that adding it twice, from anywhere, changes nothing.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray
from pydantic import Field

from lacuna.artifacts.manifests import Record
from lacuna.datastore import Store
from lacuna.datastore.columns import pair_to_line
from lacuna.datastore.manifest import ModelRecord
from lacuna.errors import StoreError
from lacuna.milvus.collection_kind import CollectionKind
from lacuna.records import SentencePair

FORMAT = 1
MAX_RESULTS = 16_384  # neighbors of a query, queries of a search, and rows of an answer
MAX_TEXT_BYTES = 65_535  # bytes of a text field
MAX_TAG_BYTES = 1024  # bytes

# Fields of an entry besides its number, key and tag: name, type of NumPy, name of the type in Milvus.
FIELDS: dict[str, tuple[type[np.generic], str]] = {
    "value": (np.int32, "INT32"),
    "prediction": (np.int32, "INT32"),
    "known": (np.bool_, "BOOL"),
    "log_p_gold": (np.float32, "FLOAT"),
    "margin": (np.int32, "INT32"),
    "weight": (np.float32, "FLOAT"),
    "segment": (np.int64, "INT64"),
    "sentence": (np.int64, "INT64"),
    "position": (np.int32, "INT32"),
}

# Sentences that were added to the collection itself have numbers from here on; JSON readers that use float64 can hold
# them. Positions take the lowest bits of the number of an entry.
_OWN_SENTENCES = 1 << 51
_POSITION_BITS = 11
OWN_SEGMENT = -1  # of entries that were added to the collection itself
INFO = -1  # the row of the description, in the collection of sentences


class CollectionInfo(Record):
    """What a collection contains; its own row in the collection of sentences.

    :param model: The model that computed the keys.
    :param store: Fingerprint of the store that was published.
    :param mean: The mean that is subtracted from keys: base64 of little-endian float32.
    :param kind: The kind of index.
    :param weighted: Whether entries represent different numbers of entries, after merging.
    :param complete: Whether all entries of the store are there.
    """

    format: int = FORMAT
    model: ModelRecord
    dimension: int = Field(ge=1)
    vocabulary_size: int = Field(ge=1)
    store: str
    mean: str
    kind: str
    ef: int | None
    nprobe: int | None
    weighted: bool
    complete: bool

    @classmethod
    def of(cls, store: Store, kind: CollectionKind) -> CollectionInfo:
        """Describe the collection of a store, which is not complete yet."""
        return cls(
            model=store.manifest.model,
            dimension=store.dimension,
            vocabulary_size=store.manifest.vocabulary_size,
            store=store.fingerprint,
            mean=base64.b64encode(store.mean.astype("<f4").tobytes()).decode(),
            kind=kind.name,
            ef=kind.ef,
            nprobe=kind.nprobe,
            weighted=store.weights is not None,
            complete=False,
        )

    @property
    def mean_key(self) -> NDArray[np.float32]:
        """The mean as an array."""
        return np.frombuffer(base64.b64decode(self.mean), "<f4").astype(np.float32)


def make_schemas(dimension: int, *, float16: bool) -> tuple[Any, Any]:
    """Return the schemas of entries and of sentence pairs."""
    from pymilvus import DataType, MilvusClient

    entries = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    entries.add_field("id", DataType.INT64, is_primary=True)
    vector = DataType.FLOAT16_VECTOR if float16 else DataType.FLOAT_VECTOR
    entries.add_field("key", vector, dim=dimension)
    for name, (_, kind) in FIELDS.items():
        entries.add_field(name, DataType[kind])
    entries.add_field("tag", DataType.VARCHAR, max_length=MAX_TAG_BYTES)
    sentences = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    sentences.add_field("id", DataType.INT64, is_primary=True)
    # A collection must have a vector.
    sentences.add_field("unused", DataType.FLOAT_VECTOR, dim=2)
    sentences.add_field("text_hash", DataType.INT64)
    sentences.add_field("tag", DataType.VARCHAR, max_length=MAX_TAG_BYTES)
    sentences.add_field("line", DataType.VARCHAR, max_length=MAX_TEXT_BYTES)
    return entries, sentences


def own_sentence(pair: SentencePair, attempt: int = 0) -> int:
    """Return the number of a pair that is added to a collection itself; ``attempt`` gives others.

    It does not depend on where the pair comes from: two processes that learn the same pair give it the same number.
    """
    digest = xxhash.xxh3_64_intdigest(json.dumps(content_of(pair)).encode(), seed=attempt)
    return _OWN_SENTENCES + digest % _OWN_SENTENCES


def content_of(pair: SentencePair) -> tuple[str, str, str | None, str | None]:
    """Return what tells pairs of a collection apart."""
    return pair.source, pair.target, pair.origin.tag, pair.id


def own_entries(sentence: int, count: int) -> NDArray[np.int64]:
    """Return the numbers of the entries of such a sentence."""
    if count > 1 << _POSITION_BITS:
        raise StoreError(f"a pair has {count:,} target tokens; a collection takes {1 << _POSITION_BITS:,}; split it")
    return (np.int64(sentence) << _POSITION_BITS) + np.arange(count, dtype=np.int64)


def text_hash(key: tuple[str, ...]) -> int:
    """Return the hash that sentences are found by: 63 bits."""
    return xxhash.xxh3_64_intdigest("\0".join(key).encode("utf-8", "surrogatepass")) >> 1


def tag_filter(tag: str) -> str:
    """Return the filter of entries with this label."""
    return f"tag == {json.dumps(tag, ensure_ascii=False)}"


def check_tag(tag: str) -> str:
    """Return a label that a collection can hold.

    :raises StoreError: It is too long.
    """
    if len(tag.encode("utf-8", "surrogatepass")) > MAX_TAG_BYTES:
        raise StoreError(
            f"tag: got {tag[:40]!r}..., longer than the {MAX_TAG_BYTES:,} bytes that a collection takes; shorten it"
        )
    return tag


def line_of(pair: SentencePair) -> str:
    """Return a pair as text that UTF-8 can hold: half characters are escaped."""
    line = pair_to_line(pair)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return str(json.dumps(json.loads(line.decode("utf-8", "surrogatepass"))))


def sentence_row(number: int, digest: int, tag: str, line: str) -> dict[str, Any]:
    """Return a row of the collection of sentence pairs.

    :raises StoreError: The pair is too long.
    """
    size = len(line.encode("utf-8"))
    if size > MAX_TEXT_BYTES:
        raise StoreError(f"a pair has {size:,} bytes; a collection takes {MAX_TEXT_BYTES:,}; leave it out, or split it")
    return {"id": number, "unused": [0.0, 0.0], "text_hash": digest, "tag": check_tag(tag), "line": line}
