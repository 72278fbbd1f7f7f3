"""Apply a pruner to a store and write the smaller store.

:class:`StoreEntries` is the view of the store that the pruner gets; its margins and neighbors are read when first used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.files import atomic_folder, check_unused, writing
from lacuna.artifacts.locks import alone
from lacuna.datastore import Store, open_store
from lacuna.datastore.copying import copy_store
from lacuna.datastore.manifest import Parent
from lacuna.errors import SettingError, StoreError
from lacuna.index import VectorIndex, build_index, check_kind, open_index
from lacuna.index.base import check_seed
from lacuna.index.distances import leave_self_out
from lacuna.index.kinds import AUTO
from lacuna.margin import Margins, read_margins
from lacuna.progress import SILENT, Progress
from lacuna.pruning.base import Group, Pruner
from lacuna.workers import Pool, WorkerPool

# Queries per search: a large batch, because exact search may read all keys from disk for each.
_QUERIES = 8192


@dataclass(frozen=True, eq=False)
class StoreEntries:
    """Lazy view of a store's columns, margins and neighbors: an :class:`~lacuna.pruning.base.EntryTable`."""

    store: Store
    progress: Progress
    pool: Pool | None = None

    @property
    def values(self) -> NDArray[np.int32]:
        """The target token."""
        return self.store.values

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the model predicts the value."""
        return self.store.known

    @property
    def log_p_gold(self) -> NDArray[np.float32]:
        """Natural log-probability of the value under the model."""
        return self.store.log_p_gold

    @property
    def sentence(self) -> NDArray[np.int32]:
        """The sentence id."""
        return self.store.sentence

    @property
    def position(self) -> NDArray[np.int32]:
        """Position of the value in its sentence."""
        return self.store.position

    @property
    def weights(self) -> NDArray[np.float32] | None:
        """Number of original entries that each entry stands for."""
        return self.store.weights

    @property
    def margin(self) -> NDArray[np.uint16]:
        """The knowledge margins; an error if they were not measured."""
        return self._margins.values

    @property
    def max_margin(self) -> int:
        """Bound of the measured margins."""
        return self._margins.manifest.max_margin

    @cached_property
    def _margins(self) -> Margins:
        return read_margins(self.store)

    def neighbors(self, k: int) -> Iterator[NDArray[np.int64]]:
        """Search the store's index for the neighbors of every entry."""
        rows = range(self.store.entries)
        blocks = [rows[first : first + _QUERIES] for first in range(0, len(rows), _QUERIES)]
        search = NeighborSearch(self.store, open_index(self.store), k)
        self.progress.start("finding neighbors", len(rows), "entries")
        with closing((self.pool or WorkerPool.of_process()).map(search.find, blocks)) as results:
            for block, ids in zip(blocks, results, strict=True):
                yield ids
                self.progress.advance(len(block))
        self.progress.finish()


@dataclass(frozen=True, eq=False)
class NeighborSearch:
    """Finds the neighbors of entries in their own store."""

    store: Store
    index: VectorIndex
    k: int

    def find(self, entries: range) -> NDArray[np.int64]:  # (entries, k)
        """Return the nearest neighbors of consecutive entries, without themselves: the task of a worker."""
        own = np.arange(entries.start, entries.stop)
        return leave_self_out(self.index.search(self.store.keys.gather(own).astype(np.float32), self.k + 1), own).ids

    def reopening(self) -> tuple[Callable[[Store, int], NeighborSearch], tuple[Store, int]]:
        """Say how another process opens the index; see :class:`~lacuna.workers.Reopened`."""
        return _reopen_search, (self.store, self.k)


def _reopen_search(store: Store, k: int) -> NeighborSearch:
    return NeighborSearch(store, open_index(store), k)


@dataclass(frozen=True, slots=True)
class PruneReport:
    """The result of pruning.

    :param store: The smaller store, opened.
    :param entries: Number of entries of the original store.
    :param settings: Method, requested ratio, seed, and the settings of the method.
    :param groups: Kept and dropped entries by the property that the method decides by.
    :param index: Kind of the new store's index; ``None`` without one.
    :param warnings: What the user should know about the choice of the method, one line each.
    """

    store: Store
    entries: int
    settings: dict[str, Any]
    groups: dict[str, Group]
    index: str | None
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def into(self) -> Path:
        """Folder of the smaller store."""
        return self.store.path

    @property
    def kept(self) -> int:
        """Number of entries kept."""
        return self.store.entries

    @property
    def dropped(self) -> int:
        """Number of entries dropped."""
        return self.entries - self.kept

    @property
    def ratio(self) -> float:
        """Share of the entries dropped."""
        return self.dropped / self.entries

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
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
            "warnings": list(self.warnings),
            "seconds": round(self.seconds, 3),
        }


@alone("into")
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
    pool: Pool | None = None,
) -> PruneReport:
    """Write a smaller store with an index into a new folder; the same seed gives the same files.

    :param pruner: Chooses the entries to drop, e.g. ``Plac(min_margin=8)``.
    :param into: A folder that does not exist or is empty. It appears once the store is complete.
    :param ratio: Share of the entries to drop.
    :param seed: Seed of the pruner and of the index.
    :param clamp: If the method cannot drop ``ratio``, drop as many entries as it can instead of raising an error.
    :param index: Kind of index to build; ``None`` for none.
    :param pool: Workers that search for neighbors and copy shards; by default, the threads of this process search, and
        shards are copied one after the other. The files are the same.
    :return: The report, with the opened store in ``report.store``.
    """
    started, folder = time.monotonic(), Path(into)
    _check_place(folder, store)
    check_seed(seed)
    pruning = pruner.prune(StoreEntries(store, progress, pool), ratio=ratio, seed=seed, clamp=clamp)
    kept = int(np.count_nonzero(pruning.keep))
    if not kept:
        raise SettingError(f"{store.path}: all {store.entries:,} entries would be dropped; drop fewer of them")
    if index is not None:
        check_kind(index, kept, store.dimension)
    settings = {"method": pruner.name, "ratio": ratio, "seed": seed, "clamp": clamp, **asdict(pruner)}
    kind = None
    with writing(folder), atomic_folder(folder) as temporary:
        parent = Parent(fingerprint=store.fingerprint, entries=store.entries, made_by="prune", settings=settings)
        copy_store(
            store,
            temporary,
            parent,
            keep=pruning.keep,
            weights=pruning.weights,
            merged=pruning.keys,
            progress=progress,
            pool=pool,
        )
        if index is not None:
            kind = build_index(open_store(temporary), index, seed=seed, progress=progress).manifest.kind
    seconds = time.monotonic() - started
    groups = dict(pruning.groups)
    return PruneReport(open_store(folder), store.entries, settings, groups, kind, seconds, pruning.warnings)


def _check_place(folder: Path, store: Store) -> None:
    """Refuse a folder that is in use or inside the store."""
    check_unused(folder, StoreError)
    if store.path.resolve() in folder.resolve().parents:
        raise StoreError(f"{folder}: is inside the store {store.path}, which must not change; name another folder")
