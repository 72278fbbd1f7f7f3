"""Stores on disk with given keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store, open_store
from lacuna.datastore.columns import COLUMNS, pair_to_line, record_of, write_shard
from lacuna.datastore.manifest import (
    MANIFEST,
    BuildSettings,
    CorpusRecord,
    Manifest,
    ModelRecord,
    write_record,
)
from lacuna.index.distances import VectorArray
from lacuna.records import Origin, SentencePair

Table = tuple[NDArray[np.float16], NDArray[np.bool_]]  # keys, and whether each entry is known


def make_store(folder: Path, keys: NDArray[np.floating], known: NDArray[np.bool_], shards: int = 2) -> Store:
    """Write a store with one sentence per shard; columns that margins do not need are zero."""
    folder.mkdir(parents=True)
    line = pair_to_line(SentencePair("quelle", "source", Origin("made-up", "1")))
    records = []
    for number, rows in enumerate(np.array_split(np.arange(len(keys)), shards) if len(keys) else []):
        columns = {name: np.zeros(len(rows), dtype) for name, dtype in COLUMNS.items()}
        columns["known"] = known[rows]
        records.append(write_shard(folder, number, keys[rows].astype(np.float16), columns, [line]))
    mean = keys.astype(np.float64).mean(axis=0) if len(keys) else np.zeros(keys.shape[1])
    np.save(folder / "mean.npy", mean.astype(np.float32))
    manifest = Manifest(
        lacuna="0",
        entries=len(keys),
        sentences=len(records),
        skipped=0,
        dimension=keys.shape[1],
        vocabulary_size=10,
        model=ModelRecord(name="none", fingerprint="f" * 64, languages=None, eos_id=0),
        corpus=CorpusRecord(pairs=len(records), skipped=0, xxh3="", files=()),
        settings=BuildSettings(),
        mean=record_of(folder / "mean.npy"),
        shards=tuple(records),
    )
    write_record(folder / MANIFEST, manifest)
    return open_store(folder)


def clustered(
    rows: int, dimension: int, known_share: float, seed: int = 0
) -> tuple[NDArray[np.float16], NDArray[np.bool_]]:
    """Draw clustered keys, some equal or nearly equal; the share of known entries varies by cluster."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(max(2, rows // 25), dimension)) * np.linspace(2, 0.1, dimension)
    home = rng.integers(len(centers), size=rows)
    keys = 5 + centers[home] + 0.3 * rng.normal(size=(rows, dimension))
    twins = rng.integers(rows, size=(2, rows // 10))
    keys[twins[0]] = keys[twins[1]]
    near = rng.integers(rows, size=(2, rows // 10))
    keys[near[0]] = keys[near[1]] + 0.01
    share = np.clip(rng.normal(known_share, 0.3, size=len(centers)), 0, 1)
    return keys.astype(np.float16), rng.random(rows) < share[home]


@dataclass(frozen=True)
class InMemory:
    """Entries without a store on disk."""

    keys: VectorArray
    mean: NDArray[np.float32]
    known: NDArray[np.bool_]


def in_memory(table: Table) -> InMemory:
    keys, known = table
    mean = keys.astype(np.float64).mean(axis=0) if len(keys) else np.zeros(keys.shape[1])
    return InMemory(VectorArray(keys.astype(np.float32)), mean.astype(np.float32), known)
