"""A store in memory only, for a few sentence pairs that must not be written to disk.

It is read like any other store, and its keys are those that a build would store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.columns import Keys, SentenceTable, ShardText, line_starts
from lacuna.datastore.decoded_windows import TeacherForcingModel, decode_windows
from lacuna.datastore.manifest import BuildSettings, FileRecord, Manifest, ShardRecord, describe_model
from lacuna.datastore.store import Shard, Store
from lacuna.datastore.windows import CorpusDigest, cut_windows
from lacuna.errors import StoreError
from lacuna.records import SentencePair
from lacuna.version import __version__

# All pairs are in one shard.
_SETTINGS = BuildSettings(shard_rows=1 << 31)


@dataclass(frozen=True, eq=False, slots=True)
class UnsavedShard(Shard):
    """A shard whose columns are in memory."""

    columns: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)

    def column(self, name: str, dtype: type[np.generic]) -> NDArray[np.generic]:
        """Return a column."""
        return self.columns[name].astype(dtype, copy=False)


def make_unsaved_store(model: TeacherForcingModel, pairs: Sequence[SentencePair], name: str) -> Store:
    """Run the model over a few pairs and return their entries as a store.

    :param name: Stands for the path in messages.
    :raises StoreError: No pair fits the model.
    """
    digest = CorpusDigest()
    windows = cut_windows(pairs, model, digest, _SETTINGS)
    decoded = list(decode_windows(model, windows, _SETTINGS.batch_tokens))
    if not decoded:
        raise StoreError(f"{name}: no pair fits the model; give shorter ones")
    [collected] = decoded
    lines = [sentence.line for sentence in collected.window.sentences]
    record = ShardRecord(rows=len(collected.keys), sentences=len(lines), files={})
    manifest = Manifest(
        lacuna=__version__,
        entries=record.rows,
        sentences=record.sentences,
        skipped=digest.skipped,
        dimension=model.dimension,
        vocabulary_size=model.vocabulary_size,
        model=describe_model(model),
        corpus=digest.record(),
        settings=_SETTINGS,
        mean=FileRecord(bytes=0, xxh3=""),
        shards=(record,),
    )
    text = np.frombuffer(b"".join(lines), np.uint8)
    return Store(
        Path(name),
        manifest,
        Keys([collected.keys], model.dimension),
        collected.keys.mean(axis=0, dtype=np.float64).astype(np.float32),
        SentenceTable([ShardText(text)], [line_starts(lines)]),
        (UnsavedShard(Path(name), record, columns=collected.columns(first_sentence=0)),),
    )
