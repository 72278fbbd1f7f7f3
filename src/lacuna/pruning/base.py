"""What a pruner is: a few columns of a store in, a mask of the entries to keep out, and the reasons in numbers.

A pruner is a pure function: the same columns, ratio and seed give the same mask. Knows nothing of files, and of keys
only that somebody can find the neighbors of an entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import SettingError
from lacuna.index.base import check_seed


class EntryTable(Protocol):
    """The columns of a store, as far as pruners look at them; one number for each entry, in the order of the corpus."""

    @property
    def values(self) -> NDArray[np.int32]:
        """The target token."""

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the model alone says the value."""

    @property
    def log_p_gold(self) -> NDArray[np.float32]:
        """Natural log-probability that the model gives the value."""

    @property
    def sentence(self) -> NDArray[np.int32]:
        """The sentence id."""

    @property
    def position(self) -> NDArray[np.int32]:
        """The place of the value in its sentence, from 0."""

    @property
    def weights(self) -> NDArray[np.float32] | None:
        """How many entries each stands for, where some were merged before."""

    @property
    def margin(self) -> NDArray[np.uint16]:
        """The knowledge margin: how many of the nearest entries are known, up to the first unknown one."""

    @property
    def max_margin(self) -> int:
        """Up to where margins were measured: a margin of this may in truth be larger."""

    def neighbors(self, k: int) -> Iterator[NDArray[np.int64]]:
        """Give the ``k`` nearest entries of each entry, nearest first, never itself, -1 where there are fewer.

        In blocks (entries, k) that follow each other.
        """


class Group(NamedTuple):
    """What became of a group of entries."""

    kept: int
    dropped: int


@dataclass(frozen=True, slots=True, eq=False)
class Pruning:
    """Which entries stay, and why.

    :param keep: Whether an entry stays.
    :param groups: The entries by what the method saw in them; every entry is in one group.
    :param weights: New weights, 0 for what is dropped; ``None`` leaves them as they were.
    """

    keep: NDArray[np.bool_]
    groups: Mapping[str, Group]
    weights: NDArray[np.float32] | None = None


class Pruner(Protocol):
    """A way to choose what to drop: a frozen dataclass, whose fields are its settings."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    name: ClassVar[str]

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Choose what to keep.

        :param ratio: The share of all entries to drop; exactly ``round(ratio * entries)`` are dropped.
        :param seed: Decides everything that is left to chance.
        :param clamp: Drop as many as can be if ``ratio`` is too much, instead of raising an error.
        :raises SettingError: The method cannot drop as many.
        """


def chance(seed: int) -> np.random.Generator:
    """Return the source of chance that belongs to a seed."""
    check_seed(seed)
    return np.random.default_rng(seed)


def wanted(ratio: float | None, entries: int, method: str) -> int:
    """Return how many entries a ratio means."""
    if ratio is None:
        raise SettingError(f"ratio: the method {method} needs one; give the share of entries to drop, as in 0.45")
    if not 0 <= ratio <= 1:
        raise SettingError(f"ratio: got {ratio}; allowed is 0 (drop nothing) to 1")
    return round(ratio * entries)


def within_reach(asked: int, possible: int, entries: int, why: str, way_out: str, clamp: bool) -> int:
    """Return how many entries to drop: those asked for, or with ``clamp`` as many of them as can be.

    :param why: What sets the limit.
    :param way_out: What else to try.
    """
    if asked <= possible or clamp:
        return min(asked, possible)
    raise SettingError(
        f"ratio: asks for {asked:,} of {entries:,} entries, but {why}: at most {possible:,} "
        f"({largest_ratio(possible, entries)}); {way_out}, or take the most that can be dropped with --clamp"
    )


def largest_ratio(possible: int, entries: int) -> str:
    """Write the largest ratio that drops no more than ``possible``, rounded down."""
    return f"{math.floor(1e4 * possible / entries) / 1e4:g}" if entries else "0"


def draw(candidates: NDArray[np.bool_], count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw ``count`` of the candidates, each as likely as any other; return a mask of all the entries not drawn."""
    keep = np.ones(len(candidates), dtype=np.bool_)
    keep[rng.choice(np.flatnonzero(candidates), size=count, replace=False, shuffle=False)] = False
    return keep


def count_groups(keep: NDArray[np.bool_], groups: Mapping[str, NDArray[np.bool_]]) -> dict[str, Group]:
    """Count what was kept and dropped in each group."""
    return {
        name: Group(int(np.count_nonzero(members & keep)), int(np.count_nonzero(members & ~keep)))
        for name, members in groups.items()
    }
