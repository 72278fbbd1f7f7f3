"""A finished store, opened for reading. Files are memory-mapped and read on first use; nothing is written.

A memory that was edited has several segments; it is read like one store without the forgotten sentences. Knows nothing
of indexes and translators.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.files import reading, sha256_of
from lacuna.datastore.columns import (
    COLUMNS,
    KEYS,
    MEAN,
    OPTIONAL,
    SENTENCES,
    STARTS,
    Keys,
    SentenceTable,
    ShardText,
    check_hash,
    map_array,
    map_bytes,
    shard_folder,
)
from lacuna.datastore.manifest import (
    MANIFEST,
    BuildSettings,
    CorpusRecord,
    FileRecord,
    KeyMaker,
    Manifest,
    ShardRecord,
    read_store_manifest,
)
from lacuna.datastore.segments import MEMORY, SEGMENTS, MemoryManifest, is_edited, read_forgotten, read_memory_manifest
from lacuna.errors import StoreError

# Keys from which their variance is estimated.
VARIANCE_SAMPLE = 10_000


@dataclass(frozen=True, eq=False, slots=True)
class Shard:
    """A shard of a store, on disk.

    :param first_sentence: Added to the sentence ids of the shard: ids of a segment start at 0.
    :param live: The rows that are entries of the store, sorted; ``None`` for all.
    """

    folder: Path
    record: ShardRecord
    first_sentence: int = 0
    live: NDArray[np.int64] | None = None

    def column(self, name: str, dtype: type[np.generic]) -> NDArray[np.generic]:
        """Read the live rows of a column. All of it is read, so it is compared with its hash as well."""
        file = f"{name}.npy"
        if file not in self.record.files:
            raise StoreError(f"{self.folder / file}: has no hash in the manifest; copy or build the store again")
        check_hash(self.folder / file, self.record.files[file])
        column = map_array(self.folder / file, dtype, (self.record.rows,))
        column = column if self.live is None else column[self.live]
        if name == "sentence" and self.first_sentence:
            return column.astype(np.int32) + np.int32(self.first_sentence)
        return column


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """A part of an edited memory.

    :param store: The segment with all of its rows.
    :param forgotten: Ids of forgotten sentences in the segment, sorted.
    :param live: The rows of other sentences, sorted; ``None`` for all.
    """

    store: Store
    forgotten: NDArray[np.int32]
    live: NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class Store:
    """All entries of a corpus for one model: keys, values, and the predictions of the model.

    Opened with :func:`open_store`. Columns have one number per entry, in the order of the corpus.

    :param path: The folder.
    :param keys: The keys, on disk.
    :param mean: The mean of all keys.
    :param sentences: The sentence pairs by sentence id.
    :param shards: The shards of all segments, in order.
    :param segments: The segments of an edited memory; ``None`` for a store that was never edited.
    """

    path: Path
    manifest: Manifest
    keys: Keys
    mean: NDArray[np.float32]
    sentences: SentenceTable
    shards: tuple[Shard, ...]
    segments: tuple[Segment, ...] | None = None

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}, entries={self.entries:,}, dimension={self.dimension})"

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self.manifest.entries

    @property
    def dimension(self) -> int:
        """Dimension of a key."""
        return self.manifest.dimension

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the manifest, which has the hashes of all files; for an edited memory, of its commit."""
        if self.segments is not None:
            return hashlib.sha256("".join(_identity(each) for each in self.segments).encode()).hexdigest()
        with reading(self.path / MANIFEST):
            return sha256_of(self.path / MANIFEST)

    def reopening(self) -> tuple[Callable[[str, str], Store], tuple[str, str]]:
        """Say how another process opens this store; see :class:`~lacuna.workers.Reopened`."""
        return reopen_store, (str(self.path.resolve()), self.fingerprint)

    @property
    def parts(self) -> tuple[Segment, ...]:
        """The segments; a store that was never edited is its own only segment."""
        return (make_segment(self, np.empty(0, np.int32)),) if self.segments is None else self.segments

    @property
    def number(self) -> int:
        """The number of a segment in its memory; 0 for the first, which is the folder of the memory itself."""
        return int(self.path.name) if self.path.parent.name == SEGMENTS else 0

    @cached_property
    def key_variance(self) -> float:
        """Mean squared distance of the keys from their mean, of a sample: the scale of distances in this store."""
        return key_variance(self.keys.sample(VARIANCE_SAMPLE), self.mean)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """A number of each entry that edits do not change: that of its segment times 2^32, plus its row there."""
        if self.segments is None:
            return np.arange(self.entries, dtype=np.int64) + (self.number << 32)
        parts = [np.empty(0, np.int64)]
        for each in self.segments:
            parts.append(each.store.rows if each.live is None else each.store.rows[each.live])
        return np.concatenate(parts)

    @cached_property
    def values(self) -> NDArray[np.int32]:
        """The target token of each entry."""
        return cast(NDArray[np.int32], self._column("values"))

    @cached_property
    def predictions(self) -> NDArray[np.int32]:
        """The most probable token for the model."""
        return cast(NDArray[np.int32], self._column("predictions"))

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Whether the prediction equals the value."""
        return cast(NDArray[np.bool_], self._column("known"))

    @cached_property
    def log_p_gold(self) -> NDArray[np.float32]:
        """Natural log-probability of the value."""
        return cast(NDArray[np.float32], self._column("log_p_gold"))

    @cached_property
    def entropy(self) -> NDArray[np.float32]:
        """Entropy of the model's distribution, in nats."""
        return cast(NDArray[np.float32], self._column("entropy"))

    @cached_property
    def sentence(self) -> NDArray[np.int32]:
        """The sentence id of each entry."""
        return cast(NDArray[np.int32], self._column("sentence"))

    @cached_property
    def position(self) -> NDArray[np.int32]:
        """The position of the value in its target sentence, from 0."""
        return cast(NDArray[np.int32], self._column("position"))

    @cached_property
    def weights(self) -> NDArray[np.float32] | None:
        """How many entries each one represents after merging; None for a store without merged entries."""
        if not any("weights.npy" in shard.record.files for shard in self.shards):
            return None
        return cast(NDArray[np.float32], self._column("weights"))

    def load(self, before: Store | None = None) -> None:
        """Read all columns now, rather than on first use, when a compaction may have deleted their files.

        :param before: An earlier state of the memory. If segments were only added since, its columns are taken over.
        """
        old, new = (before and before.segments) or (), self.segments or ()
        grown = len(old) <= len(new) and all(one is other for one, other in zip(old, new, strict=False))
        for name in COLUMNS:
            if before is not None and old and grown:
                self.__dict__[name] = self._column(name, before)  # as cached_property does
            else:
                getattr(self, name)
        _ = self.weights, self.fingerprint

    def check_model(self, model: KeyMaker) -> None:
        """Refuse a model whose keys are not comparable with those of the store; see :meth:`ModelRecord.check`."""
        self.manifest.model.check(model, str(self.path))

    def _column(self, name: str, before: Store | None = None) -> NDArray[np.generic]:
        """Read a column; the first shards may be those of an earlier state, which has read them."""
        dtype = (COLUMNS | OPTIONAL)[name]
        pieces = [] if before is None else [getattr(before, name)]
        pieces += [
            # Segments are pruned and merged, or not, independently of each other.
            np.ones(_rows(shard), dtype)
            if self.segments is not None and f"{name}.npy" not in shard.record.files
            else shard.column(name, dtype)
            for shard in self.shards[0 if before is None else len(before.shards) :]
        ]
        column = np.concatenate(pieces) if pieces else np.empty(0, dtype)
        column.flags.writeable = False
        return column


def key_variance(keys: NDArray[np.float16], mean: NDArray[np.float32]) -> float:
    """Return the mean squared distance of some keys from the mean of all."""
    return float(np.square(keys.astype(np.float32) - mean).sum()) / max(1, len(keys))


def open_store(path: str | Path, *, before: Store | None = None) -> Store:
    """Open a finished store or an edited memory.

    The sizes of all files are checked now, and the hashes of all but the keys when they are read; ``verify`` checks
    those of the keys.

    :param before: The same memory, opened earlier: segments that have not changed are taken from it.
    :raises StoreError: There is no finished store, or a file is missing, truncated or of another type.
    """
    folder = Path(path)
    if not is_edited(folder):
        return _open_folder(folder)
    manifest = read_memory_manifest(folder)
    while True:
        try:
            return _open_folder(folder) if manifest.never_edited else open_commit(folder, manifest, before)
        except StoreError:
            # A compaction may have replaced segments since the manifest was read.
            now = read_memory_manifest(folder)
            if now.commit == manifest.commit:
                raise
            manifest = now


def _open_folder(folder: Path) -> Store:
    manifest = read_store_manifest(folder)
    check_size(folder / MEAN, manifest.mean)
    keys, texts, starts, shards = [], [], [], []
    for number, shard in enumerate(manifest.shards):
        home = shard_folder(folder, number)
        for name, record in shard.files.items():
            check_size(home / name, record)
        keys.append(map_array(home / f"{KEYS}.npy", np.float16, (shard.rows, manifest.dimension)))
        for name in (SENTENCES, f"{STARTS}.npy"):
            if name not in shard.files:
                raise StoreError(f"{home / name}: has no hash in the manifest; copy or build the store again")
        texts.append(ShardText(map_bytes(home / SENTENCES), home / SENTENCES, shard.files[SENTENCES]))
        check_hash(home / f"{STARTS}.npy", shard.files[f"{STARTS}.npy"])
        starts.append(map_array(home / f"{STARTS}.npy", np.int64, (shard.sentences + 1,)))
        shards.append(Shard(home, shard))
    check_hash(folder / MEAN, manifest.mean)
    mean = map_array(folder / MEAN, np.float32, (manifest.dimension,))
    return Store(
        folder,
        manifest,
        Keys(cast(list[NDArray[np.float16]], keys), manifest.dimension),
        cast(NDArray[np.float32], mean),
        SentenceTable(texts, cast(list[NDArray[np.int64]], starts)),
        tuple(shards),
    )


def open_commit(folder: Path, manifest: MemoryManifest, before: Store | None = None) -> Store:
    """Open the segments that a manifest names, whether it is that of the folder or of a commit to come.

    :param before: As in :func:`open_store`.
    """
    earlier = () if before is None else before.parts
    opened = {(each.store.path.name, each.store.fingerprint): each for each in earlier}
    segments = []
    for record in manifest.segments:
        home = folder / record.folder
        segment = opened.get((home.name, record.manifest))
        if segment is None:
            segment = make_segment(_open_folder(home), np.empty(0, np.int32))
        store = segment.store
        if store.fingerprint != record.manifest:
            raise StoreError(f"{store.path}: not the segment that {folder / MEMORY} names; copy the memory again")
        forgotten = np.empty(0, np.int32) if record.forgotten is None else read_forgotten(folder, record.forgotten)
        same = np.array_equal(forgotten, segment.forgotten)
        segments.append(segment if same else make_segment(store, forgotten))
    return join_segments(folder, segments, manifest)


def make_segment(store: Store, forgotten: NDArray[np.int32]) -> Segment:
    """Leave the entries of forgotten sentences out of a store."""
    live = np.flatnonzero(~np.isin(store.sentence, forgotten)) if len(forgotten) else None
    return Segment(store, forgotten, live)


def join_segments(path: Path, segments: Sequence[Segment], memory: MemoryManifest) -> Store:
    """Read segments like one store.

    :param path: Folder of the memory.
    :param memory: Has the model, and the dimension in case there is no segment.
    """
    shards: list[Shard] = []
    keys: list[NDArray[np.float16]] = []
    texts: list[ShardText] = []
    starts: list[NDArray[np.int64]] = []
    forgotten = [np.empty(0, np.int64)]
    total = np.zeros(memory.dimension, np.float64)
    first_sentence = 0
    for segment in segments:
        store, first_row = segment.store, 0
        for shard in store.shards:
            live = None
            if segment.live is not None:
                low, high = np.searchsorted(segment.live, [first_row, first_row + shard.record.rows])
                live = segment.live[low:high] - first_row
            shards.append(Shard(shard.folder, shard.record, first_sentence, live))
            first_row += shard.record.rows
        keys += store.keys.shards
        texts += store.sentences.texts
        starts += store.sentences.starts
        forgotten.append(segment.forgotten.astype(np.int64) + first_sentence)
        total += store.mean.astype(np.float64) * store.entries
        first_sentence += len(store.sentences)
    rows = sum(segment.store.entries for segment in segments)
    return Store(
        path,
        _joined_manifest(segments, shards, memory),
        Keys(keys, memory.dimension, [shard.live for shard in shards]),
        (total / max(1, rows)).astype(np.float32),
        SentenceTable(texts, starts, np.concatenate(forgotten)),
        tuple(shards),
        tuple(segments),
    )


def reopen_store(path: str, fingerprint: str) -> Store:
    """Open a store that another process has open.

    :raises StoreError: There is none, or another one, at this path.
    """
    share = "share the folder under the same name on all machines, and do not change it meanwhile"
    if not Path(path).is_dir():
        raise StoreError(f"{path}: a worker does not see this store; {share}")
    store = open_store(path)
    if store.fingerprint != fingerprint:
        raise StoreError(f"{path}: a worker sees another store there; {share}")
    return store


def _joined_manifest(segments: Sequence[Segment], shards: Sequence[Shard], memory: MemoryManifest) -> Manifest:
    """Return a manifest as if the segments were one store; nothing writes it."""
    manifests = [segment.store.manifest for segment in segments]
    corpora = [manifest.corpus for manifest in manifests]
    return Manifest(
        lacuna=memory.lacuna,
        entries=sum(_rows(shard) for shard in shards),
        sentences=sum(manifest.sentences for manifest in manifests),
        skipped=sum(manifest.skipped for manifest in manifests),
        dimension=memory.dimension,
        vocabulary_size=memory.vocabulary_size,
        model=memory.model,
        corpus=CorpusRecord(
            pairs=sum(corpus.pairs for corpus in corpora),
            skipped=sum(corpus.skipped for corpus in corpora),
            xxh3="".join(corpus.xxh3 for corpus in corpora),
            files=tuple(dict.fromkeys(name for corpus in corpora for name in corpus.files)),
        ),
        settings=manifests[0].settings if manifests else BuildSettings(),
        mean=FileRecord(bytes=0, xxh3=""),
        shards=tuple(shard.record for shard in shards),
        parent=manifests[0].parent if manifests else None,
    )


def _rows(shard: Shard) -> int:
    return shard.record.rows if shard.live is None else len(shard.live)


def _identity(segment: Segment) -> str:
    """Return what decides the content of a segment."""
    gone = hashlib.sha256(segment.forgotten.tobytes()).hexdigest() if len(segment.forgotten) else ""
    return f"{segment.store.fingerprint} {gone}\n"


def check_size(path: Path, record: FileRecord) -> None:
    """Refuse a file that is missing or has another size than in the manifest."""
    if not path.is_file():
        raise StoreError(f"{path}: missing; copy the store again, or build it again")
    size = path.stat().st_size
    if size != record.bytes:
        raise StoreError(f"{path}: has {size:,} bytes, not {record.bytes:,}; copy the store again, or build it again")
