"""Drop known entries of which enough near ones of the same value remain.

PLAC empties neighborhoods that the model knows. At large ratios nothing is left there to outvote far neighbors of
other values, and a translation may repeat a token instead of going on. This method thins every neighborhood out
instead. It does not search for neighbors itself, and needs no margins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import SettingError
from lacuna.pruning.base import (
    EntryTable,
    Pruning,
    count_groups,
    draw,
    drop_count,
    limit_drops,
    seeded_rng,
)
from lacuna.pruning.merge import same_value_neighbors

# Numbers of copies to try, if none is given.
COPIES = (8, 4, 2, 1)


@dataclass(frozen=True, slots=True)
class Redundant:
    """Drops known entries with ``copies`` remaining entries of the same value among their ``k`` nearest neighbors.

    Unknown entries are always kept. Known ones are visited in random order: an entry is a candidate if enough of its
    neighbors are unknown, or were visited before it and are no candidates.

    :param copies: Least number of remaining neighbors of the same value; without one, the first of :data:`COPIES` with
        enough candidates.
    :param k: Number of neighbors considered.
    """

    name: ClassVar[str] = "redundant"
    reads_margins: ClassVar[bool] = False
    copies: int | None = None
    k: int = 16

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SettingError(f"k: got {self.k}; allowed is 1 or more")
        if self.copies is not None and not 1 <= self.copies <= self.k:
            raise SettingError(f"copies: got {self.copies}; allowed is 1 to k, which is {self.k}")

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Draw from the known entries with enough copies."""
        known, rng = entries.known, seeded_rng(seed)
        asked = drop_count(ratio, len(known), self.name)
        starts, near = same_value_neighbors(entries.values, entries.neighbors(self.k))
        order = rng.permutation(np.flatnonzero(known))
        for copies in COPIES if self.copies is None else (self.copies,):
            candidates = with_copies(known, order, starts, near, copies)
            possible = int(np.count_nonzero(candidates))
            if possible >= asked:
                break
        count = limit_drops(
            asked,
            possible,
            len(known),
            f"only known entries are dropped of whose {self.k} neighbors {copies} with the same value remain",
            "use a smaller ratio" if copies == 1 else "use a smaller ratio or fewer copies",
            clamp,
        )
        keep = draw(candidates, count, rng)
        groups = {
            "unknown": ~known,
            f"known, fewer than {copies} copies": known & ~candidates,
            f"known, {copies} copies or more": candidates,
        }
        return Pruning(keep, count_groups(keep, groups))


def with_copies(
    known: NDArray[np.bool_],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    neighbors: NDArray[np.int32],
    copies: int,
) -> NDArray[np.bool_]:
    """Return the known entries with at least ``copies`` neighbors that are not among those returned.

    Each visit depends on all visits before it, so this is a loop, over plain buffers as in
    :func:`lacuna.pruning.merge.merge_greedily`.

    :param order: The known entries in the order of their visits.
    :param starts: Offsets of each entry's neighbors, as ``neighbors`` from
        :func:`~lacuna.pruning.merge.same_value_neighbors`.
    """
    found = np.zeros(len(known), np.bool_)
    stays = ~known
    chosen, stay, start, near = found.data, stays.data, starts.data, neighbors.data
    for entry in order.data:
        left = copies
        for place in range(start[entry], start[entry + 1]):
            if stay[near[place]]:
                left -= 1
                if not left:
                    break
        if left:
            stay[entry] = True
        else:
            chosen[entry] = True
    return found
