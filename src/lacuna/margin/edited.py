"""Margins of a memory that was edited after they were measured: what changed is found, and only that is measured.

Entries are followed by their row numbers (:attr:`lacuna.datastore.Store.rows`), which edits do not change. Entries that
were removed are still in their segments until the memory is compacted. Knows nothing of how margins are updated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.errors import StoreError
from lacuna.margin.storage import Margins, read_earlier_margins, write_margins
from lacuna.margin.updating import MeasuredEntries, update_margins
from lacuna.progress import SILENT, Progress

# Beyond this share of added and removed entries, measuring from scratch is not slower.
_LARGEST_CHANGE = 0.1


def follow_edits(store: Store, max_margin: int = 1, progress: Progress = SILENT) -> Margins | None:
    """Bring earlier margins of a memory up to date; ``None`` if they cannot be, or if it would not pay.

    :param max_margin: The earlier margins must reach at least as far.
    """
    earlier = read_earlier_margins(store)
    if earlier is None or earlier.unknown_distance is None or earlier.max_margin < max_margin:
        return None
    try:
        entries = _EarlierEntries(store, earlier.rows)
    except StoreError:
        return None
    kept = np.isin(earlier.rows, store.rows)
    changed = np.count_nonzero(~kept) + store.entries - np.count_nonzero(kept)
    if changed > _LARGEST_CHANGE * store.entries:
        return None
    before = MeasuredEntries(entries, earlier.values, earlier.unknown_distance, earlier.max_margin)
    margin, unknown_distance = update_margins(before, kept, store, progress)
    return write_margins(store, margin, earlier.max_margin, unknown_distance=unknown_distance)


def margins_of_added(store: Store, margins: Margins, after: Store, progress: Progress = SILENT) -> NDArray[np.uint16]:
    """Return the margins of entries that are about to be added.

    :param margins: The margins of the memory as it is.
    :param after: The memory with the new entries after all others.
    """
    everything = np.ones(store.entries, np.bool_)
    margin, _ = update_margins(MeasuredEntries.of(store, margins), everything, after, progress)
    return margin[store.entries :]


@dataclass(frozen=True, eq=False)
class _EarlierEntries:
    """Keys and columns of entries by their row numbers, also of those that were removed.

    :raises StoreError: A segment is not there any more.
    """

    store: Store
    rows: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not np.isin(np.unique(self.rows >> 32), list(self._segments)).all():
            raise StoreError(f"{self.store.path}: compacted since the margins were measured")

    @cached_property
    def _segments(self) -> dict[int, Store]:
        return {segment.store.number: segment.store for segment in self.store.parts}

    @property
    def keys(self) -> _EarlierEntries:
        return self

    @property
    def mean(self) -> NDArray[np.float32]:
        return self.store.mean

    @property
    def dimension(self) -> int:
        return self.store.dimension

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        known = np.empty(len(self.rows), np.bool_)
        for number, segment in self._segments.items():
            own = self.rows >> 32 == number
            known[own] = segment.known[self.rows[own] & 0xFFFFFFFF]
        return known

    def gather(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        rows = self.rows[ids]
        keys = np.empty((len(rows), self.dimension), np.float16)
        for number, segment in self._segments.items():
            own = rows >> 32 == number
            keys[own] = segment.keys.gather(rows[own] & 0xFFFFFFFF)
        return keys
