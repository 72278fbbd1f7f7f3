"""From what was seen nearby to exact margins: what is left to prove about each entry, pass by pass.

An entry whose nearest neighbor so far is unknown only needs proof that no known entry is nearer; one that has seen
``max_margin`` known entries only needs proof that no unknown one is nearer than those. So neither asks about the
other half of the store. All others first find their nearest unknown entry, then count. Knows nothing of blocks and
sketches.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from lacuna.margin.probing import Seen
from lacuna.margin.sweep import Found, Needs


class Open(IntEnum):
    """What is still open about an entry."""

    NOTHING = 0
    NEARER_KNOWN = 1  # margin 0 so far: is there a known entry nearer than the unknown one?
    NEARER_UNKNOWN = 2  # the largest margin so far: is there an unknown entry nearer than so many known ones?
    NEAREST_UNKNOWN = 3  # which is it?
    COUNT = 4  # the nearest unknown entry is proven; how many known ones are nearer?


# A pass compares unknown entries with each other, then known with unknown ones, then known ones with each other. An
# entry's nearest unknown neighbor is thereby proven before its known ones are counted, and yet each pair of entries is
# looked at once, for both.
PASSES = 3


@dataclass(frozen=True, eq=False)
class Ledger:
    """What is known of each entry's margin.

    :param open: What is to be found out, of :class:`Open`.
    :param radius: Distance within which it is to be found out: to the nearest unknown entry known of, or less.
    :param margin: The margin, where nothing is open.
    """

    open: NDArray[np.uint8]
    radius: NDArray[np.float64]
    margin: NDArray[np.uint16]

    def needs(self, known: NDArray[np.bool_], number: int) -> Needs:
        """Say what to look for in one of the passes, counted on and on."""
        nobody = np.zeros_like(known)
        seek_unknown = (~known, known, nobody)[number % PASSES]
        seek_known = (nobody, ~known, known)[number % PASSES]
        return Needs(
            seek_unknown & np.isin(self.open, (Open.NEARER_UNKNOWN, Open.NEAREST_UNKNOWN)),
            seek_known & np.isin(self.open, (Open.NEARER_KNOWN, Open.COUNT)),
            self.radius,
        )


def begin(seen: Seen, max_margin: int) -> Ledger:
    """Open the ledger with what was seen nearby."""
    radius = seen.unknown_distance
    state = np.full(len(radius), Open.NEAREST_UNKNOWN, np.uint8)
    state[seen.known_nearer == 0] = Open.NEARER_KNOWN
    full = seen.known_nearer >= max_margin
    state[full] = Open.NEARER_UNKNOWN
    # Nothing is nearer than a neighbor at distance 0; and where there is no unknown neighbor, all were seen.
    settled = (radius == 0) | np.isinf(radius)
    state[settled] = Open.NOTHING
    margin = np.where(settled, seen.margin(max_margin), np.uint16(0))
    return Ledger(state, np.where(full, np.minimum(radius, seen.cap_distance), radius), margin)


def advance(ledger: Ledger, needs: Needs, found: Found, max_margin: int) -> Ledger:
    """Enter what one pass found; six are enough to close the ledger."""
    state, margin = ledger.open.copy(), ledger.margin.copy()
    counted = np.minimum(found.known_nearer, max_margin).astype(np.uint16)

    full = needs.unknown & (ledger.open == Open.NEARER_UNKNOWN) & np.isinf(found.unknown_distance)
    state[needs.unknown] = Open.COUNT
    state[full] = Open.NOTHING
    margin[full] = max_margin

    reopened = needs.known & (ledger.open == Open.NEARER_KNOWN) & (counted > 0)
    state[needs.known] = Open.NOTHING
    margin[needs.known] = counted[needs.known]
    state[reopened] = Open.NEAREST_UNKNOWN
    return Ledger(state, np.minimum(ledger.radius, found.unknown_distance), margin)
