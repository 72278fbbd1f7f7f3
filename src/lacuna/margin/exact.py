"""Exact margins of the entries of a store and of other queries: radius queries within bounds on unknown distances.

Any unknown entry bounds the distance to the nearest one. A first pass over all pairs of entries looks for unknown ones
within the bound, and counts the known ones. Only where it finds a nearer unknown entry, a second pass counts the known
ones again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.index.base import check_queries
from lacuna.index.distances import VectorArray
from lacuna.margin.radius import Entries, RadiusCounts, RadiusQuery, RadiusSearch, SelfJoin
from lacuna.margin.screening import Screening
from lacuna.margin.storage import MAX_MARGIN, check_max_margin
from lacuna.margin.tasks import TaskRunner

_QUERIES_AT_ONCE = 256


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
        unknown_distance: NDArray[np.float64] | float = np.inf,
        cap_distance: NDArray[np.float64] | float = np.inf,
    ) -> MarginBounds:
        """Return the bounds that distances give.

        :param known: Whether each entry is known.
        :param unknown_distance: Distance of any other unknown entry; infinity if there is none.
        :param cap_distance: A distance within which at least ``max_margin`` known entries are, or infinity.
        """
        distance = np.broadcast_to(unknown_distance, len(known))
        capped = cap_distance < distance
        others = np.minimum(np.count_nonzero(known) - known, max_margin)
        return cls(
            # An unknown entry at the cap distance counts, too.
            radius=np.where(capped, np.nextafter(cap_distance, np.inf), distance),
            open=np.isfinite(distance) & (distance > 0),
            capped=capped,
            # Nothing is nearer than distance 0. Without any unknown neighbor, all known ones count.
            margin=np.where(distance > 0, others, 0).astype(np.uint16),
        )


def exact_margins(
    bounds: MarginBounds, entries: Entries, screening: Screening, max_margin: int, runner: TaskRunner
) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
    """Return the margins and the unknown distances of all entries, see :class:`~lacuna.margin.storage.Margins`."""

    def counted(name: str, query: RadiusQuery) -> RadiusCounts:
        counts = RadiusCounts.empty(len(entries.known))
        return runner.run(name, lambda: SelfJoin(entries, query, screening), counts) if query.asks.any() else counts

    first = counted("all entries", RadiusQuery(bounds.radius, bounds.open, bounds.open & ~bounds.capped))
    count, radius = np.where(bounds.capped, max_margin, first.known), np.minimum(bounds.radius, first.unknown_distance)
    # Without any known entry within the radius, there is none within a smaller one.
    again = bounds.open & np.isfinite(first.unknown_distance) & (count > 0)
    second = counted("known entries again", RadiusQuery(radius, np.zeros_like(again), again))
    count = np.where(again, second.known, count)
    return np.where(bounds.open, np.minimum(count, max_margin).astype(np.uint16), bounds.margin), radius


def margin_of(store: Store, queries: NDArray[np.float32], max_margin: int = MAX_MARGIN) -> NDArray[np.uint16]:
    """Measure the margins of queries, exactly.

    No entry is left out: a query that equals a key of the store finds that entry, too.

    :param queries: Decoder states of the model that built the store. # (queries, dimension)
    :param max_margin: Larger margins count as this.
    """
    check_max_margin(max_margin)
    checked = check_queries(queries, 1, store.dimension)
    known = int(np.count_nonzero(store.known))
    if known == store.entries or not len(checked):
        return np.full(len(checked), min(max_margin, known), np.uint16)
    vectors, screening = VectorArray(checked), Screening(store.keys, store.mean, store.entries)
    ids, unknown = np.arange(len(checked)), np.flatnonzero(~store.known)
    starts = range(0, len(checked), _QUERIES_AT_ONCE)
    blocks = [slice(start, min(len(checked), start + _QUERIES_AT_ONCE)) for start in starts]
    radius = np.concatenate([screening.near_distances(vectors, ids[block], unknown) for block in blocks])
    level = screening.best_level(ids, radius, len(checked), vectors)
    coded, counts = screening.coded(vectors, len(checked), level), RadiusCounts.empty(len(checked))
    search = RadiusSearch(screening.coders[level], coded, screening.coded_keys(level), radius)
    for block in blocks:
        parts = list(search.pairs(block))
        for pairs in parts:
            counts.add_unknown(pairs.where(~store.known[pairs.right]))
        nearest = np.minimum(radius, counts.unknown_distance)
        for pairs in parts:
            counts.add_known(replace(pairs, radius=nearest[pairs.left]).where(store.known[pairs.right]))
    return np.minimum(counts.known, max_margin).astype(np.uint16)
