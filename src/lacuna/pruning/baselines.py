"""Baselines of the PLAC paper: drop random entries, random known entries, or all known entries.

They do not use neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lacuna.errors import SettingError
from lacuna.pruning.base import EntryTable, Pruning, count_groups, draw, drop_count, limit_drops, seeded_rng


@dataclass(frozen=True, slots=True)
class Random:
    """Drops random entries."""

    name: ClassVar[str] = "random"
    reads_margins: ClassVar[bool] = False
    changes_keys: ClassVar[bool] = False

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Draw from all entries."""
        every = np.ones(len(entries.values), dtype=np.bool_)
        keep = draw(every, drop_count(ratio, len(every), self.name), seeded_rng(seed))
        return Pruning(keep, count_groups(keep, {"any": every}))


@dataclass(frozen=True, slots=True)
class Known:
    """Drops random known entries."""

    name: ClassVar[str] = "known"
    reads_margins: ClassVar[bool] = False
    changes_keys: ClassVar[bool] = False

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Draw from the known entries."""
        known = entries.known
        count = limit_drops(
            drop_count(ratio, len(known), self.name),
            int(np.count_nonzero(known)),
            len(known),
            "only known entries are dropped",
            "use a smaller ratio",
            clamp,
        )
        keep = draw(known, count, seeded_rng(seed))
        return Pruning(keep, count_groups(keep, {"unknown": ~known, "known": known}))


@dataclass(frozen=True, slots=True)
class AllKnown:
    """Drops every known entry; nothing is random."""

    name: ClassVar[str] = "all_known"
    reads_margins: ClassVar[bool] = False
    changes_keys: ClassVar[bool] = False

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Keep the unknown entries; a ratio is an error, because the store decides it."""
        if ratio is not None:
            raise SettingError(f"ratio: got {ratio}, but {self.name} drops all known entries; leave it out")
        keep = ~entries.known
        return Pruning(keep, count_groups(keep, {"unknown": keep, "known": entries.known}))
