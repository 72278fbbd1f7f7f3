"""The files of a store: keys, columns and sentence pairs, written shard by shard and memory-mapped for reading.

Sentence pairs are JSON lines with their origins, found by number without reading the others. Knows nothing of models.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import xxhash
from numpy.typing import NDArray

from lacuna.artifacts.arrays import save_array
from lacuna.artifacts.files import atomic_path, reading, sync
from lacuna.datastore.manifest import FileRecord, ShardRecord
from lacuna.errors import StoreError
from lacuna.records import Origin, SentencePair

KEYS = "keys"
# One number per entry. Token ids need 32 bits: signed 16-bit integers overflow with vocabularies of 32,768 tokens.
COLUMNS: dict[str, type[np.generic]] = {
    "values": np.int32,
    "predictions": np.int32,
    "known": np.bool_,
    "log_p_gold": np.float32,
    "entropy": np.float32,
    "sentence": np.int32,
    "position": np.int32,
}
# Columns that a store has in all of its shards or in none.
OPTIONAL: dict[str, type[np.generic]] = {"weights": np.float32}
MEAN = "mean.npy"
SENTENCES = "sentences.jsonl"
STARTS = "sentence_starts"
KEY_SUM = "key_sum"
SHARD_FILES = (*(f"{name}.npy" for name in (KEYS, *COLUMNS, KEY_SUM, STARTS)), SENTENCES)

_HASHED_AT_ONCE = 2**22


def pair_to_line(pair: SentencePair) -> bytes:
    """Write a pair as one line. Lone surrogates, which UTF-8 cannot encode, are preserved."""
    origin = pair.origin
    fields = [pair.source, pair.target, origin.file, origin.place, origin.tag, *([] if pair.id is None else [pair.id])]
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return f"{text}\n".encode("utf-8", "surrogatepass")


def line_to_pair(line: bytes) -> SentencePair:
    """Read a line written by :func:`pair_to_line`.

    :raises StoreError: It is none.
    """
    try:
        fields = json.loads(line.decode("utf-8", "surrogatepass"))
        source, target, file, place, tag, *rest = fields
        texts = [source, target, file, place, *([] if tag is None else [tag]), *rest]
        if len(rest) > 1 or not all(isinstance(text, str) for text in texts):
            raise ValueError("other fields than those of a pair")
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"{SENTENCES}: a line is no sentence pair ({error}); copy or build the store again") from error
    return SentencePair(source, target, Origin(file, place, tag), *rest)


def line_starts(lines: Sequence[bytes]) -> NDArray[np.int64]:
    """Return the start of each line in the joined lines, and the end of the last one."""
    return np.cumsum([0, *map(len, lines)], dtype=np.int64)


class ShardText:
    """The lines of a shard, mapped; they are compared with their hash when they are first read.

    :param content: All bytes.
    :param path: The file, if there is one.
    :param record: Its size and hash.
    """

    def __init__(self, content: NDArray[np.uint8], path: Path | None = None, record: FileRecord | None = None) -> None:
        self._content, self._path, self._record = content, path, record

    def read(self, first: int | None = None, last: int | None = None) -> bytes:
        """Return a part of the bytes, or all."""
        if self._record is not None:
            if xxhash.xxh3_128_hexdigest(self._content.data) != self._record.xxh3:
                raise StoreError(f"{self._path}: changed or damaged; copy or build the store again")
            self._record = None
        return self._content[first:last].tobytes()


class SentenceTable:
    """Sentence pairs by sentence id, read on demand from the mapped files.

    A forgotten sentence keeps its id, so that all other ids stay the same. Its line is empty, or still there until the
    memory is compacted; both look the same here.

    :param texts: The lines of each shard.
    :param starts: The start of each line of a shard, and the end of the last one.
    :param forgotten: Sorted ids of forgotten sentences whose lines are still there.
    """

    def __init__(
        self,
        texts: Sequence[ShardText],
        starts: Sequence[NDArray[np.int64]],
        forgotten: NDArray[np.int64] | None = None,
    ) -> None:
        self.texts, self.starts = tuple(texts), tuple(starts)
        self._ends = np.cumsum([len(shard_starts) - 1 for shard_starts in self.starts], dtype=np.int64)
        self._forgotten = np.empty(0, np.int64) if forgotten is None else forgotten

    def __len__(self) -> int:
        """Return the number of ids, those of forgotten sentences included."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def __contains__(self, sentence: int) -> bool:
        """Tell whether a sentence exists and was not forgotten."""
        return 0 <= sentence < len(self) and bool(self.line(sentence))

    def __getitem__(self, sentence: int) -> SentencePair:
        """Return the pair of a sentence id, as in the column ``sentence``."""
        if not 0 <= sentence < len(self):
            raise IndexError(f"sentence {sentence}: this table has sentences 0 to {len(self) - 1}")
        line = self.line(sentence)
        if not line:
            raise IndexError(f"sentence {sentence}: was forgotten")
        return line_to_pair(line)

    def pairs(self, sentences: Sequence[int]) -> dict[int, SentencePair]:
        """Return the pairs of several sentences."""
        return {sentence: self[sentence] for sentence in sentences}

    def find(self, sentences: Sequence[int]) -> dict[int, SentencePair]:
        """Return the pairs of those sentences that exist and were not forgotten."""
        return {sentence: self[sentence] for sentence in sentences if sentence in self}

    def line(self, sentence: int) -> bytes:
        """Return the line of a sentence, empty if it was forgotten."""
        index = int(np.searchsorted(self._forgotten, sentence))
        if index < len(self._forgotten) and self._forgotten[index] == sentence:
            return b""
        shard = int(np.searchsorted(self._ends, sentence, side="right"))
        local = int(sentence) - (int(self._ends[shard - 1]) if shard else 0)
        first, last = self.starts[shard][local : local + 2]
        return self.texts[shard].read(int(first), int(last))

    def lines(self, first: int, last: int) -> list[bytes]:
        """Return the lines of consecutive sentences, as :meth:`line` does."""
        low, high = np.searchsorted(self._forgotten, [first, last])
        if low < high:
            return [self.line(sentence) for sentence in range(first, last)]
        result: list[bytes] = []
        for shard, end in enumerate(self._ends.tolist()):
            start = end - len(self.starts[shard]) + 1
            if start < last and first < end:
                text = self.texts[shard].read()
                places = self.starts[shard][max(first, start) - start : min(last, end) - start + 1].tolist()
                result += [text[start_byte:end_byte] for start_byte, end_byte in pairwise(places)]
        return result

    def present(self) -> Iterator[tuple[int, SentencePair]]:
        """Yield the id and the pair of each sentence that was not forgotten, in order."""
        for sentence in range(len(self)):
            if line := self.line(sentence):
                yield sentence, line_to_pair(line)

    def __iter__(self) -> Iterator[SentencePair]:
        return (pair for _, pair in self.present())


def shard_folder(store: Path, number: int) -> Path:
    """Return the folder of a shard."""
    return store / "shards" / f"{number:05d}"


def check_hash(path: Path, record: FileRecord) -> None:
    """Refuse a file whose content is not that of its record; for files that are small beside the keys."""
    with reading(path):
        current = record_of(path)
    if current != record:
        raise StoreError(f"{path}: changed or damaged; copy or build the store again")


def record_of(path: Path) -> FileRecord:
    """Return size and hash of a file, reading it block by block."""
    digest, size = xxhash.xxh3_128(), 0
    with path.open("rb") as file:
        while block := file.read(_HASHED_AT_ONCE):
            digest.update(block)
            size += len(block)
    return FileRecord(bytes=size, xxh3=digest.hexdigest())


@dataclass(frozen=True, slots=True)
class WrittenShard:
    """The complete files of a shard in a folder that is not its own yet."""

    folder: Path
    record: ShardRecord


def write_shard(
    store: Path, number: int, keys: NDArray[np.float16], columns: Mapping[str, NDArray[np.generic]], lines: list[bytes]
) -> ShardRecord:
    """Write a shard under a temporary name, flush it to disk, and rename it; see :func:`write_shard_files`."""
    temporary = shard_folder(store, number).with_name(f".{number:05d}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.parent.mkdir(parents=True, exist_ok=True)
    record = write_shard_files(temporary, keys, columns, lines)
    publish_shard(temporary, store, number)
    return record


def write_shard_files(
    folder: Path, keys: NDArray[np.float16], columns: Mapping[str, NDArray[np.generic]], lines: list[bytes]
) -> ShardRecord:
    """Write the files of a shard into a new folder, and flush them to disk.

    :param keys: ``(rows, dimension)``.
    :param columns: All of :data:`COLUMNS`, and any of :data:`OPTIONAL`.
    :param lines: The sentence pairs of the shard, from :func:`pair_to_line`.
    """
    folder.mkdir()
    arrays: dict[str, NDArray[np.generic]] = {KEYS: keys}
    present = COLUMNS | {name: dtype for name, dtype in OPTIONAL.items() if name in columns}
    arrays |= {name: columns[name].astype(dtype, copy=False) for name, dtype in present.items()}
    # Stored per shard, so that the mean of all keys does not depend on interruptions of the build.
    arrays |= {KEY_SUM: keys.sum(axis=0, dtype=np.float64), STARTS: line_starts(lines)}
    for name, array in arrays.items():
        save_array(folder / f"{name}.npy", array)
    (folder / SENTENCES).write_bytes(b"".join(lines))
    files = {path.name: record_of(path) for path in sorted(folder.iterdir())}
    for name in files:
        sync(folder / name)
    sync(folder)
    return ShardRecord(rows=len(keys), sentences=len(lines), files=files)


def publish_shard(written: Path, store: Path, number: int) -> None:
    """Give the folder of a complete shard its name in a store."""
    final = shard_folder(store, number)
    # An existing folder was written before an interruption but not recorded: it has the same content or a part of it.
    shutil.rmtree(final, ignore_errors=True)
    written.replace(final)
    sync(final.parent)


def write_mean(store: Path, shards: Sequence[ShardRecord], dimension: int) -> FileRecord:
    """Write the mean of all keys, computed from the sums of the shards."""
    total = np.zeros(dimension, dtype=np.float64)
    for number in range(len(shards)):
        path = shard_folder(store, number) / f"{KEY_SUM}.npy"
        total += cast(NDArray[np.float64], map_array(path, np.float64, (dimension,)))
    with atomic_path(store / MEAN) as temporary:
        save_array(temporary, (total / max(1, sum(shard.rows for shard in shards))).astype(np.float32))
    return record_of(store / MEAN)


def map_array(path: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray[np.generic]:
    """Map a ``.npy`` file read-only, and check its type and shape."""
    try:
        # An empty array cannot be mapped.
        array: NDArray[np.generic] = np.load(path, mmap_mode="r" if all(shape) else None, allow_pickle=False)
    except Exception as error:  # a damaged header makes numpy raise errors of many types
        raise StoreError(f"{path}: cannot be read ({error}); copy or build the store again") from error
    if not isinstance(array, np.ndarray) or array.dtype != np.dtype(dtype) or array.shape != shape:
        raise StoreError(
            f"{path}: has {_form(array)}, not {np.dtype(dtype)} of shape {shape}; copy or build the store again"
        )
    # A plain view: indexing np.memmap itself is several times slower for few rows.
    return array.view(np.ndarray)


def _form(array: NDArray[np.generic]) -> str:
    return f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "no array"


def map_bytes(path: Path) -> NDArray[np.uint8]:
    """Map a file of bytes read-only."""
    try:
        if path.stat().st_size == 0:
            return np.empty(0, dtype=np.uint8)
        return np.memmap(path, dtype=np.uint8, mode="r").view(np.ndarray)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); copy or build the store again") from error


class Keys:
    """All keys of a store in the order of its entries, mapped from the shards; only requested rows are read.

    :param shards: Arrays ``(rows, dimension)``, in order.
    :param dimension: Dimension of a key.
    :param live: For each shard, the rows that are entries, sorted; ``None`` for all.
    """

    def __init__(
        self,
        shards: Sequence[NDArray[np.float16]],
        dimension: int,
        live: Sequence[NDArray[np.int64] | None] = (),
    ) -> None:
        self.dimension = dimension
        self.shards = tuple(shards)
        self._live = tuple(live) or (None,) * len(self.shards)
        sizes = [len(shard if rows is None else rows) for shard, rows in zip(self.shards, self._live, strict=True)]
        self._ends = np.cumsum(sizes, dtype=np.int64)

    @property
    def rows(self) -> int:
        """Number of keys."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def gather(self, ids: NDArray[np.int64]) -> NDArray[np.float16]:
        """Return the keys of the given entries, ``(n, dimension)``, in their order; ids may repeat."""
        wanted = np.asarray(ids, dtype=np.int64)
        if wanted.size and not 0 <= int(wanted.min()) <= int(wanted.max()) < self.rows:
            raise IndexError(f"entries {wanted.min()} to {wanted.max()}: this store has entries 0 to {self.rows - 1}")
        out = np.empty((len(wanted), self.dimension), dtype=np.float16)
        homes = np.searchsorted(self._ends, wanted, side="right")
        order = np.argsort(homes, kind="stable")
        present, firsts = np.unique(homes[order], return_index=True)
        for home, places in zip(present.tolist(), np.split(order, firsts)[1:], strict=True):
            rows = wanted[places] - (self._ends[home - 1] if home else 0)
            live = self._live[home]
            out[places] = self.shards[home][rows if live is None else live[rows]]
        return out

    def sample(self, count: int) -> NDArray[np.float16]:
        """Return up to ``count`` keys from all over the store, always the same: (n, dimension)."""
        rows = np.linspace(0, self.rows - 1, min(self.rows, count))
        return self.gather(rows.astype(np.int64))

    def blocks(self, rows: int) -> Iterator[tuple[int, NDArray[np.float16]]]:
        """Yield all keys in order, as first row and block of ``rows`` keys, or fewer at the end of a shard."""
        first = 0
        for shard, live in zip(self.shards, self._live, strict=True):
            size = len(shard if live is None else live)
            for start in range(0, size, rows):
                part = slice(start, start + rows)
                yield first + start, shard[part] if live is None else shard[live[part]]
            first += size
