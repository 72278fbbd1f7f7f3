"""Margins after entries were added to a store or removed from it, without measuring all of them again.

The margin of an entry can change only if an added or removed entry is nearer than its nearest unknown entry, or is
this entry. So entries that were there before are compared with the added and removed ones, each within its unknown
distance. From this follow most margins. The exact passes (:mod:`lacuna.margin.exact`) measure the others and those of
the added entries. The margins are the same as measured from scratch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.datastore.columns import Keys
from lacuna.errors import StoreError
from lacuna.index.distances import SelectedVectors, Vectors
from lacuna.margin.exact import MarginBounds, exact_margins
from lacuna.margin.radius import Entries, RadiusCounts, RadiusSearch
from lacuna.margin.screening import Screening
from lacuna.margin.storage import Margins, read_earlier_margins, write_margins
from lacuna.margin.tasks import TaskRunner
from lacuna.progress import SILENT, Progress
from lacuna.workers import WorkerPool, keep_freed_memory

BLOCK = 1024  # entries in a block

# More than the rounding error of a distance in float64, and more than no distance.
_ROUNDING, _MIN_RADIUS = 1 + 1e-12, 1e-300

# Beyond this share of added and removed entries, measuring from scratch is not slower.
_MAX_CHANGE = 0.1


@dataclass(frozen=True, eq=False)
class MeasuredEntries:
    """Entries with exact margins.

    :param margin: The margin of each entry.
    :param unknown_distance: As in :class:`~lacuna.margin.storage.Margins`.
    :param max_margin: Larger margins count as this.
    """

    entries: Entries
    margin: NDArray[np.uint16]
    unknown_distance: NDArray[np.float64]
    max_margin: int

    @classmethod
    def of(cls, store: Store, margins: Margins) -> MeasuredEntries:
        """Return the entries of a store with its margins.

        :raises StoreError: The margins are approximate, or of a version that did not store unknown distances.
        """
        if margins.unknown_distance is None:
            raise StoreError(
                f"{margins.path}: {margins.manifest.method} margins without unknown distances, they cannot be updated; "
                f"delete this folder, and measure exact margins with: lacuna margin {store.path}"
            )
        return cls(store, margins.values, margins.unknown_distance, margins.manifest.max_margin)


def update_margins(
    before: MeasuredEntries, kept: NDArray[np.bool_], after: Entries, progress: Progress = SILENT
) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
    """Return the margins and the unknown distances of all entries after some were added or removed.

    The time grows with the number of entries times the number of added and removed ones. Where these are more than a
    tenth of all, measuring from scratch may be faster.

    :param before: The entries before. Only keys of those that were removed are read.
    :param kept: Whether each entry from before is still there.
    :param after: The entries that were kept, in the same order, and after them those that were added.
    """
    old, first = before.entries, int(np.count_nonzero(kept))
    if kept.shape != old.known.shape or not np.array_equal(old.known[kept], after.known[:first]):
        raise ValueError(f"{first:,} of {len(old.known):,} entries kept: these are not the first ones after the change")
    if after.known.all():
        bounds = MarginBounds.of(after.known, before.max_margin)
        return bounds.margin, bounds.radius
    if first == len(kept) == len(after.known):
        return before.margin.copy(), before.unknown_distance.copy()
    keep_freed_memory()
    return _Update(before, kept, after, TaskRunner(WorkerPool.of_process(), progress)).run()


class _Changes:
    """Radius queries of the entries that were kept, among entries that were added or removed.

    All blocks use codes of one width: with few changed entries, most of the time goes into making the codes.

    :param radius: The unknown distances of the entries that were kept, which are the first ones of the screening.
    :param known: Whether each changed entry is known.
    """

    unit: ClassVar[str] = "blocks"

    def __init__(
        self, screening: Screening, radius: NDArray[np.float64], keys: Vectors, known: NDArray[np.bool_]
    ) -> None:
        # The passes after this use the same codes, for about as many entries.
        level = screening.best_level(np.arange(len(radius)), radius, 2 * len(known))
        changed = screening.coded(keys, len(known), level)
        self._search = RadiusSearch(screening.coders[level], screening.coded_keys(level), changed, radius)
        self._known, self._entries = known, len(radius)
        self.sizes: Sequence[int] = [1] * -(-self._entries // BLOCK)

    def run(self, number: int) -> tuple[NDArray[np.int64], RadiusCounts]:
        """Compare one block of the entries that were kept.

        Unknown entries at the unknown distance count, too, whichever way another processor has rounded its sum.
        """
        block = slice(number * BLOCK, min(self._entries, (number + 1) * BLOCK))
        counts = RadiusCounts.empty(block.stop - block.start)
        for pairs in self._search.pairs(block):
            known = self._known[pairs.right]
            unknown = pairs.where(~known)
            counts.add_known(pairs.where(known), block.start)
            counts.add_unknown(replace(unknown, radius=unknown.radius * _ROUNDING + _MIN_RADIUS), block.start)
        return np.arange(block.start, block.stop), counts


class _Update:
    """Finds out which margins follow from the changes, and measures the others."""

    def __init__(self, before: MeasuredEntries, kept: NDArray[np.bool_], after: Entries, runner: TaskRunner) -> None:
        self._before, self._after, self._runner = before.entries, after, runner
        self._max_margin, self._removed = before.max_margin, np.flatnonzero(~kept)
        self._margin, self._radius = before.margin[kept].astype(np.int64), before.unknown_distance[kept]
        self._added = np.arange(len(self._radius), len(after.known))
        self._screening = Screening(after.keys, after.mean, len(after.known))

    def run(self) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
        """Return the margins and unknown distances."""
        added, removed = self._counts(self._after, self._added), self._counts(self._before, self._removed)
        bounds = self._bounds(added, removed)
        return exact_margins(bounds, self._after, self._screening, self._max_margin, self._runner)

    def _counts(self, entries: Entries, changed: NDArray[np.int64]) -> RadiusCounts:
        """Compare the entries that were kept with changed ones, within their unknown distances."""
        counts = RadiusCounts.empty(len(self._radius))
        if not len(changed) or not len(self._radius):
            return counts
        # Entries that had no unknown neighbor are measured in full anyway.
        radius = np.where(np.isinf(self._radius), 0, self._radius)
        keys, known = SelectedVectors(entries.keys, changed), entries.known[changed]
        return self._runner.run("changed entries", lambda: _Changes(self._screening, radius, keys, known), counts)

    def _bounds(self, added: RadiusCounts, removed: RadiusCounts) -> MarginBounds:
        """Return the margins that follow from the changes, and bounds for all others."""
        radius, max_margin = self._radius, self._max_margin
        # Where the margin was `max_margin`, there may be more known entries than it counts, and no unknown one at the
        # unknown distance.
        count, capped = self._margin + added.known - removed.known, self._margin == max_margin
        settled = (count >= max_margin) | ~(capped | np.isfinite(removed.unknown_distance))
        nearer = added.unknown_distance < radius
        # The unknown distance does not hold any more, and no added unknown entry gives another one.
        in_full = ~settled & (added.unknown_distance > radius) | np.isinf(radius)
        # An added unknown entry gives the unknown distance. Known ones within it are counted, if there can be any.
        again = np.where(nearer, (self._margin + added.known > 0) & (added.unknown_distance > 0), ~settled & capped)
        bounds = self._bounds_in_full(np.concatenate([np.flatnonzero(in_full), self._added]))
        rest = np.flatnonzero(~in_full)
        bounds.open[rest] = again[rest]
        bounds.radius[rest] = np.minimum(radius, added.unknown_distance)[rest]
        bounds.margin[rest] = np.where(nearer, 0, np.minimum(count, max_margin))[rest]
        return bounds

    def _bounds_in_full(self, entries: NDArray[np.int64]) -> MarginBounds:
        """Return bounds for entries that were added, or whose unknown distance does not hold any more."""
        known = self._after.known
        distance, unknown = np.full(len(known), np.inf), np.flatnonzero(~known)
        blocks = [entries[start : start + BLOCK] for start in range(0, len(entries), BLOCK)]

        def bound(ids: NDArray[np.int64]) -> NDArray[np.float64]:
            return self._screening.near_distances(self._after.keys, ids, unknown, own=ids)

        for ids, distances in zip(blocks, self._runner.pool.map(bound, blocks), strict=True):
            distance[ids] = distances
        return MarginBounds.of(known, self._max_margin, distance)


def follow_edits(store: Store, max_margin: int = 1, progress: Progress = SILENT) -> Margins | None:
    """Bring earlier margins of a memory up to date; ``None`` if they cannot be, or if it would not pay.

    :param max_margin: The earlier margins must reach at least as far.
    """
    earlier = read_earlier_margins(store)
    if earlier is None:
        return None
    margins, rows = earlier
    if margins.unknown_distance is None or margins.manifest.max_margin < max_margin:
        return None
    kept = np.isin(rows, store.rows)
    changed = np.count_nonzero(~kept) + store.entries - np.count_nonzero(kept)
    entries = _EarlierEntries.of(store, rows) if changed <= _MAX_CHANGE * store.entries else None
    if entries is None:
        return None
    before = MeasuredEntries(entries, margins.values, margins.unknown_distance, margins.manifest.max_margin)
    margin, unknown_distance = update_margins(before, kept, store, progress)
    return write_margins(store, margin, before.max_margin, unknown_distance=unknown_distance)


@dataclass(frozen=True, eq=False)
class _EarlierEntries:
    """The entries of a memory before it was edited."""

    keys: SelectedVectors
    mean: NDArray[np.float32]
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, store: Store, rows: NDArray[np.int64]) -> _EarlierEntries | None:
        """Find entries by their row numbers, which edits do not change: removed ones are still in their segments.

        :return: None if the memory was compacted since.
        """
        segments = [segment.store for segment in store.parts]
        all_rows = np.concatenate([np.empty(0, np.int64), *(segment.rows for segment in segments)])
        if not np.isin(rows, all_rows).all():
            return None
        ids, keys = np.searchsorted(all_rows, rows), [shard for segment in segments for shard in segment.keys.shards]
        known = np.concatenate([np.empty(0, np.bool_), *(segment.known for segment in segments)])
        return cls(SelectedVectors(Keys(keys, store.dimension), ids), store.mean, known[ids])
