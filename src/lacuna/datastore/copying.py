"""Write entries of a store as a new store: the entries that pruning keeps, or the segments of a memory as one.

Sentence ids stay the same. A forgotten sentence keeps an empty line, so nothing of its text is copied. Knows nothing of
pruning.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import cast
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.files import reading
from lacuna.datastore.building import finish
from lacuna.datastore.columns import (
    COLUMNS,
    KEYS,
    WrittenShard,
    line_to_pair,
    map_array,
    publish_shard,
    record_of,
    write_mean,
    write_shard_files,
)
from lacuna.datastore.manifest import CorpusRecord, Parent, ShardRecord
from lacuna.datastore.merged_keys import MergedKeys
from lacuna.datastore.store import Shard, Store
from lacuna.datastore.windows import CorpusDigest
from lacuna.errors import StoreError
from lacuna.progress import SILENT, Progress
from lacuna.version import __version__
from lacuna.workers import Pool, WorkerPool


@dataclass(slots=True)
class _Rows:
    """Rows of one new shard."""

    keys: NDArray[np.float16]
    columns: dict[str, NDArray[np.generic]]
    lines: list[bytes]

    def __add__(self, other: _Rows) -> _Rows:
        columns = {name: np.concatenate([column, other.columns[name]]) for name, column in self.columns.items()}
        return _Rows(np.concatenate([self.keys, other.keys]), columns, self.lines + other.lines)


def copy_store(
    store: Store,
    folder: Path,
    parent: Parent,
    *,
    keep: NDArray[np.bool_] | None = None,
    weights: NDArray[np.float32] | None = None,
    merged: MergedKeys | None = None,
    join_shards: bool = False,
    progress: Progress = SILENT,
    pool: Pool | None = None,
) -> None:
    """Write entries of a store into a new folder. The files are checked against their hashes while they are read.

    :param parent: Says what made the new store.
    :param keep: The entries to copy; ``None`` for all.
    :param weights: New weights of all entries; ``None`` leaves them unchanged.
    :param merged: New keys of some entries, as means of old ones; ``None`` leaves all unchanged.
    :param join_shards: Write small shards together, up to ``shard_rows`` entries.
    :param pool: Workers that copy shards; by default, they are copied one after the other.
    """
    weights = store.weights if weights is None else weights
    shards: list[ShardRecord] = []
    limit = store.manifest.settings.shard_rows if join_shards else 0
    parts = folder / "shards" / f".{uuid4().hex}.tmp"
    parts.mkdir(parents=True)
    groups = list(_groups(store, keep, weights, merged, limit))
    progress.start(parent.made_by, len(store.shards), "shards")
    task = partial(copy_group, store, parts.resolve())
    with closing((pool or WorkerPool()).map(task, groups)) as copied:
        for group, shard in zip(groups, copied, strict=True):
            publish_shard(shard.folder, folder, len(shards))
            shards.append(shard.record)
            progress.advance(len(group))
    shutil.rmtree(parts)
    manifest = store.manifest.model_copy(
        update={
            "lacuna": __version__,
            "entries": sum(shard.rows for shard in shards),
            "corpus": store.manifest.corpus if store.segments is None else _corpus(store),
            "mean": write_mean(folder, shards, store.dimension),
            "shards": tuple(shards),
            "parent": parent,
        }
    )
    finish(folder, manifest)
    progress.finish(f"({manifest.entries:,} of {store.entries:,} entries)")


@dataclass(frozen=True, slots=True)
class _CopiedShard:
    """A shard to copy, by its number: with the mask of the entries to copy, and new weights and keys, if any."""

    number: int
    keep: NDArray[np.bool_] | None
    weights: NDArray[np.float32] | None
    merged: MergedKeys | None


def _groups(
    store: Store,
    keep: NDArray[np.bool_] | None,
    weights: NDArray[np.float32] | None,
    merged: MergedKeys | None,
    limit: int,
) -> Iterator[list[_CopiedShard]]:
    """Group the shards that are written together: consecutive ones, of at most ``limit`` entries together."""
    group: list[_CopiedShard] = []
    first = waiting = 0
    for number, shard in enumerate(store.shards):
        part = slice(first, first + (shard.record.rows if shard.live is None else len(shard.live)))
        kept = part.stop - first if keep is None else int(np.count_nonzero(keep[part]))
        if group and waiting + kept > limit:
            yield group
            group, waiting = [], 0
        masks = None if keep is None else keep[part], None if weights is None else weights[part]
        group.append(_CopiedShard(number, *masks, None if merged is None else merged.part(part.start, part.stop)))
        first, waiting = part.stop, waiting + kept
    if group:
        yield group


def copy_group(store: Store, parts: Path, group: list[_CopiedShard]) -> WrittenShard:
    """Copy the entries of some shards into a new one: the task of a worker.

    :param parts: An existing folder, in which a new one of a unique name is written.
    """
    rows = reduce(_Rows.__add__, (_read(store, each) for each in group))
    folder = parts / uuid4().hex
    return WrittenShard(folder, write_shard_files(folder, rows.keys, rows.columns, rows.lines))


def _read(store: Store, copied: _CopiedShard) -> _Rows:
    shard, keep = store.shards[copied.number], copied.keep
    _check_hashes(store, shard)
    rows = _read_shard(shard, store.dimension)
    if copied.weights is not None:
        rows.columns["weights"] = copied.weights
    if copied.merged is not None:
        rows.keys = copied.merged.apply(rows.keys, store.keys)
    if keep is not None:
        rows.keys = rows.keys[keep]
        rows.columns = {name: column[keep] for name, column in rows.columns.items()}
    sentence = sum(each.record.sentences for each in store.shards[: copied.number])
    rows.lines = store.sentences.lines(sentence, sentence + shard.record.sentences)
    return rows


def _corpus(store: Store) -> CorpusRecord:
    """Return the record of all sentences that were not forgotten. Otherwise, all pairs of the corpus are there."""
    corpus, first = CorpusDigest(), 0
    for shard in store.shards:
        for line in filter(None, store.sentences.lines(first, first + shard.record.sentences)):
            corpus.add(line, line_to_pair(line).origin.file)
        first += shard.record.sentences
    return corpus.record()


def _check_hashes(store: Store, shard: Shard) -> None:
    for name, record in shard.record.files.items():
        with reading(shard.folder / name):
            present = record_of(shard.folder / name)
        if present != record:
            raise StoreError(f"{shard.folder / name}: changed or damaged; see lacuna verify {store.path}")


def _read_shard(shard: Shard, dimension: int) -> _Rows:
    """Read the live rows of a shard, without its lines.

    The files are mapped again and released afterward: pages read through the store's own map would stay in memory as
    long as the store is open.
    """
    keys = map_array(shard.folder / f"{KEYS}.npy", np.float16, (shard.record.rows, dimension))
    live = keys if shard.live is None else keys[shard.live]
    columns = {name: shard.column(name, dtype) for name, dtype in COLUMNS.items()}
    return _Rows(cast(NDArray[np.float16], live), columns, [])
