"""What PLAC is compared with in its paper: pruning at random, among the known entries, and of all of them.

They look at no neighborhood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lacuna.errors import SettingError
from lacuna.pruning.base import EntryTable, Pruning, chance, count_groups, draw, wanted, within_reach


@dataclass(frozen=True, slots=True)
class Random:
    """Drops any entries, at random."""

    name: ClassVar[str] = "random"

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Draw from all entries."""
        every = np.ones(len(entries.values), dtype=np.bool_)
        keep = draw(every, wanted(ratio, len(every), self.name), chance(seed))
        return Pruning(keep, count_groups(keep, {"any": every}))


@dataclass(frozen=True, slots=True)
class Known:
    """Drops known entries, at random."""

    name: ClassVar[str] = "known"

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Draw from the known entries."""
        known = entries.known
        count = within_reach(
            wanted(ratio, len(known), self.name),
            int(np.count_nonzero(known)),
            len(known),
            "only known entries are dropped",
            "ask for less",
            clamp,
        )
        keep = draw(known, count, chance(seed))
        return Pruning(keep, count_groups(keep, {"unknown": ~known, "known": known}))


@dataclass(frozen=True, slots=True)
class AllKnown:
    """Drops every known entry; leaves nothing to chance."""

    name: ClassVar[str] = "all_known"

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Keep the unknown entries; a ratio is refused, since the store alone decides it."""
        if ratio is not None:
            raise SettingError(f"ratio: got {ratio}, but {self.name} drops all known entries; leave it out")
        keep = ~entries.known
        return Pruning(keep, count_groups(keep, {"unknown": keep, "known": entries.known}))
