"""Write entries of a store as a new store: the entries that pruning keeps, or the segments of a memory as one.

Sentence ids stay the same. A forgotten sentence keeps an empty line, so nothing of its text is copied. Knows nothing of
why entries are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.building import finish
from lacuna.datastore.columns import COLUMNS, KEYS, line_to_pair, map_array, record_of, write_mean, write_shard
from lacuna.datastore.manifest import Parent, ShardRecord
from lacuna.datastore.store import Shard, Store
from lacuna.datastore.windows import CorpusDigest
from lacuna.errors import StoreError
from lacuna.progress import SILENT, Progress
from lacuna.version import __version__


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
    join_shards: bool = False,
    progress: Progress = SILENT,
) -> None:
    """Write entries of a store into a new folder. The files are checked against their hashes while they are read.

    :param parent: Says what made the new store.
    :param keep: The entries to copy; ``None`` for all.
    :param weights: New weights of all entries; ``None`` leaves them unchanged.
    :param join_shards: Write small shards together, up to ``shard_rows`` entries.
    """
    weights = store.weights if weights is None else weights
    shards: list[ShardRecord] = []
    waiting: _Rows | None = None
    corpus = CorpusDigest()
    limit = store.manifest.settings.shard_rows if join_shards else 0
    progress.start(parent.made_by, len(store.shards), "shards")
    for rows in _read(store, keep, weights):
        if store.segments is not None:  # otherwise, all pairs of the corpus are there
            for line in filter(None, rows.lines):
                corpus.add(line, line_to_pair(line).origin.file)
        if waiting is not None and len(waiting.keys) + len(rows.keys) > limit:
            shards.append(write_shard(folder, len(shards), waiting.keys, waiting.columns, waiting.lines))
            waiting = None
        waiting = rows if waiting is None else waiting + rows
        progress.advance(1)
    if waiting is not None:
        shards.append(write_shard(folder, len(shards), waiting.keys, waiting.columns, waiting.lines))
    manifest = store.manifest.model_copy(
        update={
            "lacuna": __version__,
            "entries": sum(shard.rows for shard in shards),
            "corpus": store.manifest.corpus if store.segments is None else corpus.record(),
            "mean": write_mean(folder, shards, store.dimension),
            "shards": tuple(shards),
            "parent": parent,
        }
    )
    finish(folder, manifest)
    progress.finish(f"({manifest.entries:,} of {store.entries:,} entries)")


def _read(store: Store, keep: NDArray[np.bool_] | None, weights: NDArray[np.float32] | None) -> Iterator[_Rows]:
    row = sentence = 0
    for shard in store.shards:
        _check_hashes(store, shard)
        rows = _read_shard(shard, store.dimension)
        part = slice(row, row + len(rows.keys))
        if weights is not None:
            rows.columns["weights"] = weights[part]
        if keep is not None:
            rows.keys = rows.keys[keep[part]]
            rows.columns = {name: column[keep[part]] for name, column in rows.columns.items()}
        rows.lines = store.sentences.lines(sentence, sentence + shard.record.sentences)
        row, sentence = part.stop, sentence + shard.record.sentences
        yield rows


def _check_hashes(store: Store, shard: Shard) -> None:
    for name, record in shard.record.files.items():
        if record_of(shard.folder / name) != record:
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
