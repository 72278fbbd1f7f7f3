"""New keys of entries into which others were merged: weighted means of the old keys.

A plan of three columns, without any key: it is small, and the means are computed shard by shard while a store is
copied. Knows nothing of why entries were merged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.columns import Keys

# Old keys in memory at a time.
_BLOCK = 8192


@dataclass(frozen=True, slots=True, eq=False)
class MergedKeys:
    """The old keys that a new key is the weighted mean of. Entries that are not in ``into`` keep their key.

    :param into: The entry that gets the new key, sorted; once for every old key that takes part.
    :param source: The entry of the old key; that of ``into`` takes part as well, unless its share is 0.
    :param share: Share of the old key in the new one. The shares of a new key sum to 1.
    """

    into: NDArray[np.int64]
    source: NDArray[np.int64]
    share: NDArray[np.float32]

    @classmethod
    def of(cls, into: NDArray[np.int64], share: NDArray[np.float32]) -> MergedKeys:
        """Make the plan from one row per entry of a store.

        :param into: The entry that each was merged into; its own number for an entry that was not merged.
        :param share: Its share in the key of that entry.
        """
        changed = np.bincount(into, minlength=len(into)) > 1
        source = np.flatnonzero(changed[into])
        source = source[np.argsort(into[source], kind="stable")]
        return cls(into[source], source, share[source])

    def part(self, first: int, last: int) -> MergedKeys:
        """Return the plan of the entries from ``first`` to before ``last``; they are then counted from 0."""
        rows = slice(*np.searchsorted(self.into, (first, last)))
        return MergedKeys(self.into[rows] - first, self.source[rows], self.share[rows])

    def apply(self, keys: NDArray[np.float16], old: Keys) -> NDArray[np.float16]:
        """Return the keys with the new ones in place. A mean is rounded once, from float32.

        :param keys: The keys of consecutive entries, those of ``into`` among them.
        :param old: All keys of the store.
        """
        changed, place = np.unique(self.into, return_inverse=True)
        means = np.zeros((len(changed), old.dimension), np.float32)
        for first in range(0, len(place), _BLOCK):
            rows = slice(first, first + _BLOCK)
            parts = old.gather(self.source[rows]) * self.share[rows, None]
            starts = np.flatnonzero(np.diff(place[rows], prepend=-1))
            means[place[rows][starts]] += np.add.reduceat(parts, starts, axis=0)
        result = np.array(keys)
        result[changed] = means
        return result
