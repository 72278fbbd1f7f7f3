"""A store as pruners see it: columns, margins and neighbors, each read when it is first asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store, open_store
from lacuna.datastore.building import finish, writing
from lacuna.datastore.columns import (
    COLUMNS,
    KEYS,
    SENTENCES,
    map_array,
    record_of,
    shard_folder,
    write_mean,
    write_shard,
)
from lacuna.datastore.manifest import Parent, ShardRecord
from lacuna.errors import SettingError, StoreError
from lacuna.files import atomic_folder, check_unused
from lacuna.index import build_index, open_index
from lacuna.index.base import check_seed
from lacuna.index.distances import leave_self_out
from lacuna.index.kinds import AUTO, choose_kind
from lacuna.margin import Margins, read_margins
from lacuna.progress import SILENT, Progress
from lacuna.pruning.base import Group, Pruner, Pruning
from lacuna.version import __version__

# Queries sent to the index at once: many, because exact search may read all keys from disk for each batch.
_QUERIES = 8192


@dataclass(frozen=True, eq=False)
class StoreEntries:
    """The :class:`~lacuna.pruning.base.EntryTable` of a store."""

    store: Store
    progress: Progress

    @property
    def values(self) -> NDArray[np.int32]:
        """The target token."""
        return self.store.values

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the model alone says the value."""
        return self.store.known

    @property
    def log_p_gold(self) -> NDArray[np.float32]:
        """Natural log-probability that the model gives the value."""
        return self.store.log_p_gold

    @property
    def sentence(self) -> NDArray[np.int32]:
        """The sentence id."""
        return self.store.sentence

    @property
    def position(self) -> NDArray[np.int32]:
        """The place of the value in its sentence."""
        return self.store.position

    @property
    def weights(self) -> NDArray[np.float32] | None:
        """How many entries each stands for."""
        return self.store.weights

    @property
    def margin(self) -> NDArray[np.uint16]:
        """The knowledge margins, which must have been measured."""
        return self._margins.values

    @property
    def max_margin(self) -> int:
        """Up to where they were measured."""
        return self._margins.manifest.max_margin

    @cached_property
    def _margins(self) -> Margins:
        return read_margins(self.store)

    def neighbors(self, k: int) -> Iterator[NDArray[np.int64]]:
        """Search the store's own index for the neighbors of every entry."""
        index = open_index(self.store)
        self.progress.start("finding neighbors", self.store.entries, "entries")
        for first, block in self.store.keys.blocks(_QUERIES):
            found = index.search(block.astype(np.float32), k + 1)
            yield leave_self_out(found, np.arange(first, first + len(block))).ids
            self.progress.advance(len(block))
        self.progress.finish()


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What was pruned.

    :param into: The folder of the new store.
    :param entries: Entries of the store it was made from.
    :param settings: Method, ratio asked for, seed, and the settings of the method.
    :param groups: The entries by what the method saw in them, and what became of each group.
    :param index: The kind of the new store's index.
    """

    into: Path
    entries: int
    kept: int
    settings: dict[str, Any]
    groups: dict[str, Group]
    index: str | None
    seconds: float

    @property
    def dropped(self) -> int:
        """Entries that are gone."""
        return self.entries - self.kept

    @property
    def ratio(self) -> float:
        """The share that is gone."""
        return self.dropped / self.entries

    def as_json(self) -> dict[str, Any]:
        """Give the report as JSON has it."""
        return {
            "entries": self.entries,
            "kept": self.kept,
            "dropped": self.dropped,
            "ratio": self.ratio,
            "method": self.settings["method"],
            "seed": self.settings["seed"],
            "into": str(self.into),
            "settings": self.settings,
            "groups": {name: group._asdict() for name, group in self.groups.items()},
            "index": self.index,
            "seconds": round(self.seconds, 3),
        }


def prune_store(
    store: Store,
    pruner: Pruner,
    into: str | Path,
    *,
    ratio: float | None = None,
    seed: int = 1,
    clamp: bool = False,
    index: str | None = AUTO,
    progress: Progress = SILENT,
) -> PruneReport:
    """Write a smaller store, with an index, into a new folder; the same seed gives the same files.

    :param pruner: What chooses the entries to keep, as ``Plac(min_margin=8)``.
    :param into: A folder that does not exist or is empty. It appears when all is done.
    :param ratio: The share of entries to drop.
    :param seed: Decides which entries are drawn, and all chance inside the index.
    :param clamp: Drop as many as the method can if ``ratio`` is too much, instead of raising an error.
    :param index: The kind of index to make; ``None`` for none.
    """
    started, folder = time.monotonic(), Path(into)
    _check_place(folder, store)
    check_seed(seed)
    pruning = pruner.prune(StoreEntries(store, progress), ratio=ratio, seed=seed, clamp=clamp)
    kept = int(np.count_nonzero(pruning.keep))
    if not kept:
        raise SettingError(f"{store.path}: all {store.entries:,} entries would be dropped; drop fewer of them")
    if index is not None:
        choose_kind(index, kept, store.dimension)  # refuses what is no kind, before anything is written
    settings = {"method": pruner.name, "ratio": ratio, "seed": seed, "clamp": clamp, **asdict(pruner)}
    kind = None
    with writing(folder), atomic_folder(folder) as temporary:
        _write_store(store, pruning, settings, temporary, progress)
        if index is not None:
            kind = build_index(open_store(temporary), index, seed=seed, progress=progress).manifest.kind
    return PruneReport(folder, store.entries, kept, settings, dict(pruning.groups), kind, time.monotonic() - started)


def _check_place(folder: Path, store: Store) -> None:
    """Refuse a folder that is in use, or part of the store itself."""
    check_unused(folder, StoreError)
    if store.path.resolve() in folder.resolve().parents:
        raise StoreError(f"{folder}: lies inside the store {store.path}, which stays as it is; name another folder")


def _write_store(store: Store, pruning: Pruning, settings: dict[str, Any], folder: Path, progress: Progress) -> None:
    weights = store.weights if pruning.weights is None else pruning.weights
    shards, first = [], 0
    progress.start("prune", len(store.manifest.shards), "shards")
    for number, shard in enumerate(store.manifest.shards):
        rows = slice(first, first + shard.rows)
        some = None if weights is None else weights[rows]
        shards.append(_write_shard(store, number, pruning.keep[rows], some, folder))
        first += shard.rows
        progress.advance(1)
    manifest = store.manifest.model_copy(
        update={
            "lacuna": __version__,
            "entries": sum(shard.rows for shard in shards),
            "mean": write_mean(folder, shards, store.dimension),
            "shards": tuple(shards),
            "parent": Parent(fingerprint=store.fingerprint, entries=store.entries, made_by="prune", settings=settings),
        }
    )
    finish(folder, manifest)
    progress.finish(f"({manifest.entries:,} of {store.entries:,} entries kept)")


def _write_shard(
    store: Store, number: int, keep: NDArray[np.bool_], weights: NDArray[np.float32] | None, folder: Path
) -> ShardRecord:
    """Write the rows of a shard that stay.

    The files are mapped anew and let go at the end: pages that were read through the store's own map would stay in
    memory as long as the store is open.
    """
    home, shard = shard_folder(store.path, number), store.manifest.shards[number]
    for name, record in shard.files.items():
        if record_of(home / name) != record:
            raise StoreError(f"{home / name}: changed or damaged; see lacuna verify {store.path}")
    keys = cast(NDArray[np.float16], map_array(home / f"{KEYS}.npy", np.float16, (shard.rows, store.dimension))[keep])
    columns = {name: map_array(home / f"{name}.npy", dtype, (shard.rows,))[keep] for name, dtype in COLUMNS.items()}
    if weights is not None:
        columns["weights"] = weights[keep]
    lines = (home / SENTENCES).read_bytes().splitlines(keepends=True)
    return write_shard(folder, number, keys, columns, lines)
