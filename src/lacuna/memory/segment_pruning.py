"""Prune new entries as the memory was pruned that they are added to.

A segment is replaced before any commit names it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

import numpy as np

from lacuna.datastore import Store, open_store
from lacuna.datastore.segments import MemoryManifest
from lacuna.datastore.store import join_segments
from lacuna.errors import SettingError, StoreError
from lacuna.margin import Margins, read_margins
from lacuna.margin.storage import write_margins
from lacuna.margin.updating import MeasuredEntries, follow_edits, update_margins
from lacuna.progress import Progress
from lacuna.pruning import Plac, prune_store


def current_margins(store: Store, progress: Progress) -> Margins | None:
    """Return the margins of a memory, updated if it was edited since they were measured."""
    try:
        return read_margins(store)
    except StoreError:
        return follow_edits(store, progress=progress)


@dataclass(frozen=True, eq=False)
class SegmentPruning:
    """The pruning of a memory, to be applied to new entries.

    :param store: The memory.
    :param settings: The settings that it was pruned with.
    :param margins: Its margins.
    """

    store: Store
    settings: dict[str, Any]
    margins: Margins

    @classmethod
    def of(cls, store: Store, progress: Progress) -> SegmentPruning:
        """Read how a memory was pruned.

        :raises SettingError: It was not pruned by PLAC, or has no exact margins.
        """
        parent = store.manifest.parent
        settings: dict[str, Any] = {} if parent is None else dict(parent.settings)
        if settings.get("method") != Plac.name:
            raise SettingError(f"prune: {store.path} was not pruned by {Plac.name}; add without pruning")
        margins = current_margins(store, progress)
        if margins is None or margins.unknown_distance is None:
            raise SettingError(
                f"prune: {store.path} has no exact margins; measure them first with: lacuna margin {store.path}"
            )
        return cls(store, settings, margins)

    def prune(self, segment: Store, manifest: MemoryManifest, progress: Progress) -> Store:
        """Replace a new segment by one that has only the entries that PLAC keeps."""
        after = join_segments(self.store.path, (*self.store.parts, *segment.parts), manifest)
        before = MeasuredEntries.of(self.store, self.margins)
        margin, _ = update_margins(before, np.ones(self.store.entries, np.bool_), after, progress)
        write_margins(segment, margin[self.store.entries :], before.max_margin)
        pruned = segment.path.with_name(f".{segment.path.name}.pruned")
        shutil.rmtree(pruned, ignore_errors=True)
        pruner = Plac(self.settings["min_margin"], self.settings["order"])
        ratio, seed = self.settings["ratio"], self.settings["seed"]
        prune_store(segment, pruner, pruned, ratio=ratio, seed=seed, clamp=True, progress=progress)
        shutil.rmtree(segment.path)
        pruned.replace(segment.path)
        return open_store(segment.path)
