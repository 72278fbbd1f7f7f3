"""A finished store, opened for reading. Files are memory-mapped and read on first use; nothing is written.

Knows nothing of indexes and translators.
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
    shard_folder,
)
from lacuna.datastore.manifest import MANIFEST, FileRecord, KeyMaker, Manifest, read_store_manifest
from lacuna.errors import StoreError
from lacuna.files import sha256_of
from lacuna.records import Languages


@dataclass(frozen=True, eq=False)
class Store:
    """All entries of a corpus for one model: keys, values, and the predictions of the model.

    Opened with :func:`open_store`. Columns have one number per entry, in the order of the corpus.

    :param path: The folder.
    :param keys: The keys, on disk.
    :param mean: The mean of all keys.
    :param sentences: The sentence pairs by sentence id.
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
        """Dimension of a key."""
        return self.manifest.dimension

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the manifest, which has the hashes of all files."""
        return sha256_of(self.path / MANIFEST)

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
        if not any("weights.npy" in shard.files for shard in self.manifest.shards):
            return None
        return cast(NDArray[np.float32], self._column("weights"))

    def check_model(self, model: KeyMaker) -> None:
        """Refuse a model whose keys are not comparable with those of the store: another model or direction.

        The direction is compared if both have one. A multilingual model always has one.
        """
        built_with = self.manifest.model
        if model.fingerprint != built_with.fingerprint:
            raise StoreError(
                f"{self.path}: built with another model ({built_with.name}, fingerprint {built_with.fingerprint[:12]}, "
                f"not {model.fingerprint[:12]}); use that model, or build a store with this one"
            )
        if built_with.languages is None or model.languages is None:
            return
        if not model.is_direction(Languages.parse(built_with.languages)):
            raise StoreError(
                f"{self.path}: built for the direction {built_with.languages}, but {model.name} was loaded for "
                f"{model.languages}; load it for {built_with.languages}, or build a store for {model.languages}"
            )

    def _column(self, name: str) -> NDArray[np.generic]:
        dtype = (COLUMNS | OPTIONAL)[name]
        pieces = [
            map_array(shard_folder(self.path, number) / f"{name}.npy", dtype, (shard.rows,))
            for number, shard in enumerate(self.manifest.shards)
        ]
        column = np.concatenate(pieces) if pieces else np.empty(0, dtype)
        column.flags.writeable = False
        return column


def open_store(path: str | Path) -> Store:
    """Open a finished store. The sizes of all files are checked; ``verify`` checks their contents.

    :raises StoreError: There is no finished store, or a file is missing, truncated or of another type.
    """
    folder = Path(path)
    manifest = read_store_manifest(folder)
    check_size(folder / MEAN, manifest.mean)
    keys, texts, starts = [], [], []
    for number, shard in enumerate(manifest.shards):
        home = shard_folder(folder, number)
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
    """Refuse a file that is missing or has another size than in the manifest."""
    if not path.is_file():
        raise StoreError(f"{path}: missing; copy the store again, or build it again")
    size = path.stat().st_size
    if size != record.bytes:
        raise StoreError(f"{path}: has {size:,} bytes, not {record.bytes:,}; copy the store again, or build it again")
