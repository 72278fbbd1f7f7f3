"""PLAC, pruning with local correctness (Zhu et al., 2023), and its reverse.

PLAC drops known entries whose neighbors are known too. This module does not measure margins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import SettingError
from lacuna.pruning.base import (
    EntryTable,
    Pruning,
    count_groups,
    draw,
    drop_count,
    largest_ratio,
    limit_drops,
    seeded_rng,
)

Order = Literal["random", "highest-margin-first"]
ORDERS: tuple[Order, ...] = ("random", "highest-margin-first")
# The thresholds that the paper tries.
MIN_MARGINS = (4, 8, 16, 32)
# Share of the candidates that can be dropped without a warning. The random rest leaves a few entries in most
# neighborhoods; without them, whole neighborhoods are empty (docs/prune.md).
SAFE_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Plac:
    """Drops known entries whose margin is ``min_margin`` or more. Unknown entries are always kept.

    :param min_margin: Smallest knowledge margin at which an entry may be dropped. The paper's k_p.
    :param order: random or highest-margin-first: which candidates are dropped. The paper drops random ones; among equal
        margins the choice is always random.
    """

    name: ClassVar[str] = "plac"
    reads_margins: ClassVar[bool] = True
    changes_keys: ClassVar[bool] = False
    min_margin: int = 8
    order: Order = "random"

    def __post_init__(self) -> None:
        if self.min_margin < 0:
            raise SettingError(f"min_margin: got {self.min_margin}; allowed is 0 or more")
        if self.order not in ORDERS:
            raise SettingError(f"order: got {self.order!r}; allowed: {', '.join(ORDERS)}")

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Draw from the known entries with a large margin."""
        _check_measured(entries, self.min_margin)
        known, margin = entries.known, entries.margin
        candidates = known & (margin >= self.min_margin)
        count = limit_drops(
            drop_count(ratio, len(known), self.name),
            int(np.count_nonzero(candidates)),
            len(known),
            f"only known entries with a margin of {self.min_margin} or more are dropped",
            _ratios({bound: int(np.count_nonzero(known & (margin >= bound))) for bound in MIN_MARGINS}, len(known)),
            clamp,
        )
        if self.order == "random":
            keep = draw(candidates, count, seeded_rng(seed))
        else:
            keep = _draw_highest(margin, candidates, count, seeded_rng(seed))
        groups = {
            "unknown": ~known,
            f"known, margin below {self.min_margin}": known & ~candidates,
            f"known, margin {self.min_margin} or more": candidates,
        }
        return Pruning(keep, count_groups(keep, groups), warnings=self._warnings(candidates, count))

    def _warnings(self, candidates: NDArray[np.bool_], dropped: int) -> tuple[str, ...]:
        """Warn if few candidates are left."""
        possible = int(np.count_nonzero(candidates))
        if dropped <= SAFE_SHARE * possible:
            return ()
        return (
            f"{dropped / possible:.0%} of the known entries with a margin of {self.min_margin} or more are dropped, "
            "which leaves whole neighborhoods without an entry and often costs quality; a ratio of at most "
            f"{largest_ratio(int(SAFE_SHARE * possible), len(candidates))} leaves a quarter of them",
        )


@dataclass(frozen=True, slots=True)
class Reverse:
    """Drops entries whose margin is below ``min_margin``, known or not: entries that PLAC keeps.

    Used to measure what these entries are worth.

    :param min_margin: Entries with a smaller margin may be dropped. The paper's k_p.
    """

    name: ClassVar[str] = "reverse"
    reads_margins: ClassVar[bool] = True
    changes_keys: ClassVar[bool] = False
    min_margin: int = 8

    def __post_init__(self) -> None:
        if self.min_margin < 1:
            raise SettingError(f"min_margin: got {self.min_margin}; allowed is 1 or more")

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Draw from the entries with a small margin."""
        _check_measured(entries, self.min_margin)
        margin = entries.margin
        candidates = margin < self.min_margin
        count = limit_drops(
            drop_count(ratio, len(margin), self.name),
            int(np.count_nonzero(candidates)),
            len(margin),
            f"only entries with a margin below {self.min_margin} are dropped",
            _ratios({bound: int(np.count_nonzero(margin < bound)) for bound in MIN_MARGINS}, len(margin)),
            clamp,
        )
        keep = draw(candidates, count, seeded_rng(seed))
        groups = {
            f"unknown, margin below {self.min_margin}": candidates & ~entries.known,
            f"known, margin below {self.min_margin}": candidates & entries.known,
            f"margin {self.min_margin} or more": ~candidates,
        }
        return Pruning(keep, count_groups(keep, groups))


def _check_measured(entries: EntryTable, min_margin: int) -> None:
    if min_margin > entries.max_margin:
        raise SettingError(
            f"min_margin: got {min_margin}, but margins were measured only up to {entries.max_margin}; "
            f"use a smaller one, or measure them again with lacuna margin and `max_margin` {min_margin}"
        )


def _draw_highest(
    margin: NDArray[np.uint16], candidates: NDArray[np.bool_], count: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Drop the candidates of the highest margin, random ones among equals; return the mask of all kept entries."""
    rows = rng.permutation(np.flatnonzero(candidates))
    rising = rows[np.argsort(margin[rows], kind="stable")]
    keep = np.ones(len(candidates), dtype=np.bool_)
    keep[rising[len(rising) - count :]] = False
    return keep


def _ratios(possible: dict[int, int], entries: int) -> str:
    """List the largest ratio of each threshold."""
    each = ", ".join(f"{largest_ratio(count, entries)} with {margin}" for margin, count in possible.items())
    return f"use a smaller ratio, or another min_margin (the largest ratio is {each})"
