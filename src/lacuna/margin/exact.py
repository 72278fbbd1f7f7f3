"""Exact margins: radius queries about the entries of a store, within bounds on their unknown distances.

Any unknown entry bounds the distance to the nearest one. A first pass over all pairs of entries looks for unknown ones
within the bound, and counts the known ones. Only where it finds a nearer unknown entry, a second pass counts the known
ones again. Knows nothing of files, and of how bounds are found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lacuna.margin.radius import Entries, RadiusCounts, RadiusQuery, SelfJoin
from lacuna.margin.screening import Screening
from lacuna.margin.tasks import TaskRunner


@dataclass(frozen=True, eq=False)
class MarginBounds:
    """Margins, where they follow from what is known so far, and bounds on the unknown distances of the other entries.

    :param radius: The unknown distance, as in :class:`~lacuna.margin.storage.Margins`; where the margin is open, an
        upper bound of it.
    :param open: Whether the margin is open.
    :param capped: Whether at least ``max_margin`` known entries are nearer than the radius.
    :param margin: The margin, where it is not open.
    """

    radius: NDArray[np.float64]
    open: NDArray[np.bool_]
    capped: NDArray[np.bool_]
    margin: NDArray[np.uint16]

    @classmethod
    def of(
        cls,
        known: NDArray[np.bool_],
        max_margin: int,
        unknown_distance: NDArray[np.float64] | None = None,
        cap_distance: NDArray[np.float64] | None = None,
    ) -> MarginBounds:
        """Return the bounds that distances give.

        :param known: Whether each entry is known.
        :param unknown_distance: Distance of any other unknown entry; infinity, which is the default, if there is none.
        :param cap_distance: A distance within which at least ``max_margin`` known entries are, or infinity.
        """
        none = np.full(len(known), np.inf)
        unknown_distance = none if unknown_distance is None else unknown_distance
        cap_distance = none if cap_distance is None else cap_distance
        capped = cap_distance < unknown_distance
        others = np.minimum(np.count_nonzero(known) - known, max_margin)
        return cls(
            # An entry at the cap distance counts, too.
            np.where(capped, np.nextafter(cap_distance, np.inf), unknown_distance),
            np.isfinite(unknown_distance) & (unknown_distance > 0),
            capped,
            # Nothing is nearer than distance 0. Without any unknown neighbor, all known ones count.
            np.where(unknown_distance > 0, others, 0).astype(np.uint16),
        )


def exact_margins(
    bounds: MarginBounds, entries: Entries, screening: Screening, max_margin: int, runner: TaskRunner
) -> MarginBounds:
    """Return margins of which none is open."""

    def counted(name: str, query: RadiusQuery) -> RadiusCounts:
        counts = RadiusCounts.empty(len(entries.known))
        return runner.run(name, lambda: SelfJoin(entries, query, screening), counts) if query.asks.any() else counts

    first = counted("all entries", RadiusQuery(bounds.radius, bounds.open, bounds.open & ~bounds.capped))
    count, radius = np.where(bounds.capped, max_margin, first.known), np.minimum(bounds.radius, first.unknown_distance)
    # Without any known entry within the radius, there is none within a smaller one.
    again = bounds.open & np.isfinite(first.unknown_distance) & (count > 0)
    second = counted("known entries again", RadiusQuery(radius, np.zeros_like(again), again))
    count = np.where(again, second.known, count)
    margin = np.where(bounds.open, np.minimum(count, max_margin).astype(np.uint16), bounds.margin)
    return MarginBounds(radius, np.zeros_like(again), bounds.capped & ~again, margin)
