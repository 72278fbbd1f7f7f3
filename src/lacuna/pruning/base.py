"""The pruner protocol: columns of a store in, a mask of the entries to keep out, with counts that explain it.

A pruner is a pure function: the same columns, ratio and seed give the same mask. It does not read files or keys; it
can ask for the neighbors of entries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.merged_keys import MergedKeys
from lacuna.errors import SettingError
from lacuna.index.base import check_seed


class EntryTable(Protocol):
    """The columns of a store that pruners use: one value per entry, in corpus order."""

    @property
    def values(self) -> NDArray[np.int32]:
        """The target token."""

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the model predicts the value."""

    @property
    def log_p_gold(self) -> NDArray[np.float32]:
        """Natural log-probability of the value under the model."""

    @property
    def sentence(self) -> NDArray[np.int32]:
        """The sentence id."""

    @property
    def position(self) -> NDArray[np.int32]:
        """Position of the value in its sentence, from 0."""

    @property
    def weights(self) -> NDArray[np.float32] | None:
        """Number of original entries that each entry stands for; ``None`` if none were merged."""

    @property
    def margin(self) -> NDArray[np.uint16]:
        """The knowledge margin: number of nearest neighbors that are known before the first unknown one."""

    @property
    def max_margin(self) -> int:
        """Bound of the measured margins: a margin of this value may be larger in fact."""

    def neighbors(self, k: int) -> Iterator[NDArray[np.int64]]:
        """Yield the ``k`` nearest neighbors of each entry in consecutive blocks (entries, k).

        Nearest first, without the entry itself, padded with -1.
        """


class Group(NamedTuple):
    """Counts of a group of entries."""

    kept: int
    dropped: int


@dataclass(frozen=True, slots=True, eq=False)
class Pruning:
    """The decision of a pruner.

    :param keep: Mask of the entries to keep.
    :param groups: Counts by the property that the method decides by; every entry is in one group.
    :param weights: New weights, 0 for dropped entries; ``None`` leaves them unchanged.
    :param keys: New keys of kept entries, as means of old ones; ``None`` leaves all unchanged.
    :param warnings: What the user should know about the choice, one line each.
    """

    keep: NDArray[np.bool_]
    groups: Mapping[str, Group]
    weights: NDArray[np.float32] | None = None
    keys: MergedKeys | None = None
    warnings: tuple[str, ...] = ()


class Pruner(Protocol):
    """Chooses the entries to drop: a frozen dataclass whose fields are its settings.

    :cvar name: Its name in :data:`lacuna.pruning.PRUNERS`.
    :cvar reads_margins: Whether :attr:`EntryTable.margin` decides the result. Caches of pruned stores depend on it.
    :cvar changes_keys: Whether kept entries may get new keys. If not, the index of the whole store, without the dropped
        entries, finds the same neighbors as the pruned store.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    name: ClassVar[str]
    reads_margins: ClassVar[bool]
    changes_keys: ClassVar[bool]

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Choose the entries to keep.

        :param ratio: Share of all entries to drop; exactly ``round(ratio * entries)`` are dropped.
        :param seed: Seed of all random choices.
        :param clamp: If the method cannot drop ``ratio``, drop as many as it can instead of raising an error.
        :raises SettingError: The method cannot drop that many entries.
        """


def seeded_rng(seed: int) -> np.random.Generator:
    """Return the random generator of a seed."""
    check_seed(seed)
    return np.random.default_rng(seed)


def drop_count(ratio: float | None, entries: int, method: str) -> int:
    """Return the number of entries that a ratio stands for."""
    if ratio is None:
        raise SettingError(f"ratio: the method {method} needs one; give the share of entries to drop, such as 0.45")
    if not 0 <= ratio <= 1:
        raise SettingError(f"ratio: got {ratio}; allowed is 0 (drop nothing) to 1")
    return round(ratio * entries)


def limit_drops(asked: int, possible: int, entries: int, why: str, way_out: str, clamp: bool) -> int:
    """Return the number of entries to drop: ``asked``, or with ``clamp`` at most ``possible``.

    :param why: The rule that sets the limit, for the error message.
    :param way_out: The remedy, for the error message.
    """
    if asked <= possible or clamp:
        return min(asked, possible)
    raise SettingError(
        f"ratio: asks for {asked:,} of {entries:,} entries, but {why}: at most {possible:,} "
        f"({largest_ratio(possible, entries)}); {way_out}, or drop as many as possible with `clamp`"
    )


def largest_ratio(possible: int, entries: int) -> str:
    """Format the largest ratio that drops at most ``possible`` entries, rounded down."""
    return f"{math.floor(1e4 * possible / entries) / 1e4:g}" if entries else "0"


def draw(candidates: NDArray[np.bool_], count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw ``count`` candidates uniformly; return the mask of all entries that were not drawn."""
    keep = np.ones(len(candidates), dtype=np.bool_)
    keep[rng.choice(np.flatnonzero(candidates), size=count, replace=False, shuffle=False)] = False
    return keep


def count_groups(keep: NDArray[np.bool_], groups: Mapping[str, NDArray[np.bool_]]) -> dict[str, Group]:
    """Count the kept and dropped entries of each group."""
    return {
        name: Group(int(np.count_nonzero(members & keep)), int(np.count_nonzero(members & ~keep)))
        for name, members in groups.items()
    }
