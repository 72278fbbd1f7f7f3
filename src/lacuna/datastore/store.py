"""A finished store, opened for reading. Nothing here writes; files are mapped, and read when they are first used.

Knows nothing of indexes and translators, and of models only the fingerprint.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.columns import (
    COLUMNS,
    KEYS,
    MEAN,
    OPTIONAL,
    SENTENCES,
    STARTS,
    Keys,
    SentenceTable,
    map_array,
    map_bytes,
)
from lacuna.datastore.columns import shard_folder as folder_of
from lacuna.datastore.manifest import MANIFEST, FileRecord, Manifest, read_manifest
from lacuna.errors import StoreError
from lacuna.files import sha256_of


@dataclass(frozen=True, eq=False)
class Store:
    """The memory of a model: what it saw (keys), what was right there (values), and what it would have said.

    Made by :func:`open_store`. Columns have one number for each entry, in the order of the corpus.

    :param path: The folder.
    :param keys: The keys, on disk.
    :param mean: The mean of all keys.
    :param sentences: The sentence pairs that the entries come from, by sentence id.
    """

    path: Path
    manifest: Manifest
    keys: Keys
    mean: NDArray[np.float32]
    sentences: SentenceTable

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}, entries={self.entries:,}, dimension={self.dimension})"

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self.manifest.entries

    @property
    def dimension(self) -> int:
        """Width of a key."""
        return self.manifest.dimension

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the manifest, and through the hashes in it of every file."""
        return sha256_of(self.path / MANIFEST)

    @cached_property
    def values(self) -> NDArray[np.int32]:
        """The target token of each entry."""
        return cast(NDArray[np.int32], self._column("values"))

    @cached_property
    def predictions(self) -> NDArray[np.int32]:
        """The token the model found most probable."""
        return cast(NDArray[np.int32], self._column("predictions"))

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Whether the model was right: the prediction is the value."""
        return cast(NDArray[np.bool_], self._column("known"))

    @cached_property
    def log_p_gold(self) -> NDArray[np.float32]:
        """Natural log-probability that the model gave the value."""
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
        """The place of the value in its target sentence, from 0."""
        return cast(NDArray[np.int32], self._column("position"))

    @cached_property
    def weights(self) -> NDArray[np.float32] | None:
        """How many entries each one stands for, where a store was made by merging some; otherwise None."""
        if not any("weights.npy" in shard.files for shard in self.manifest.shards):
            return None
        return cast(NDArray[np.float32], self._column("weights"))

    def check_model(self, fingerprint: str) -> None:
        """Refuse a model whose keys are not comparable with those in the store."""
        built_with = self.manifest.model
        if fingerprint != built_with.fingerprint:
            raise StoreError(
                f"{self.path}: built with another model ({built_with.name}, fingerprint {built_with.fingerprint[:12]}, "
                f"not {fingerprint[:12]}); use that model, or build a store with this one"
            )

    def _column(self, name: str) -> NDArray[np.generic]:
        dtype = (COLUMNS | OPTIONAL)[name]
        pieces = [
            map_array(folder_of(self.path, number) / f"{name}.npy", dtype, (shard.rows,))
            for number, shard in enumerate(self.manifest.shards)
        ]
        column = np.concatenate(pieces) if pieces else np.empty(0, dtype)
        column.flags.writeable = False
        return column


def open_store(path: str | Path) -> Store:
    """Open a finished store. Sizes of all files are checked, contents are not: that is what ``verify`` does.

    :raises StoreError: There is no finished store, or a file is missing, cut off or not what it should be.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    check_size(folder / MEAN, manifest.mean)
    keys, texts, starts = [], [], []
    for number, shard in enumerate(manifest.shards):
        home = folder_of(folder, number)
        for name, record in shard.files.items():
            check_size(home / name, record)
        keys.append(map_array(home / f"{KEYS}.npy", np.float16, (shard.rows, manifest.dimension)))
        texts.append(map_bytes(home / SENTENCES))
        starts.append(map_array(home / f"{STARTS}.npy", np.int64, (shard.sentences + 1,)))
    mean = map_array(folder / MEAN, np.float32, (manifest.dimension,))
    return Store(
        folder,
        manifest,
        Keys(cast(list[NDArray[np.float16]], keys), manifest.dimension),
        cast(NDArray[np.float32], mean),
        SentenceTable(texts, cast(list[NDArray[np.int64]], starts)),
    )


def check_size(path: Path, record: FileRecord) -> None:
    """Refuse a file that is missing or not as long as the manifest says."""
    if not path.is_file():
        raise StoreError(f"{path}: missing; copy the store again, or build it again")
    size = path.stat().st_size
    if size != record.bytes:
        raise StoreError(f"{path}: has {size:,} bytes, not {record.bytes:,}; copy the store again, or build it again")
