"""The knowledge margin of any query, exactly.

Unknown entries with near components bound the distance of the nearest one; within this bound all entries are compared.
No entry is left out: a query that equals a key of the store finds that entry, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.index.base import check_queries
from lacuna.index.distances import VectorArray
from lacuna.margin.radius import NearPairs, RadiusCounts, RadiusSearch
from lacuna.margin.screening import Screening
from lacuna.margin.storage import MAX_MARGIN, check_max_margin

_QUERIES_AT_ONCE = 256


def margin_of(store: Store, queries: NDArray[np.float32], max_margin: int = MAX_MARGIN) -> NDArray[np.uint16]:
    """Measure the margins of queries.

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
    coded = screening.coded(vectors, len(checked), level)
    search = RadiusSearch(screening.coders[level], coded, screening.coded_keys(level), radius)
    counts = RadiusCounts.empty(len(checked))
    for block in blocks:
        _count(NearPairs.joined(list(search.pairs(block))), store.known, radius, counts)
    return np.minimum(counts.known, max_margin).astype(np.uint16)


def _count(pairs: NearPairs, known: NDArray[np.bool_], radius: NDArray[np.float64], counts: RadiusCounts) -> None:
    """Count the known entries that are nearer to each query than all unknown ones."""
    is_known = known[pairs.right]
    counts.add_unknown(pairs.where(~is_known))
    known_pairs = pairs.where(is_known)
    nearest = np.minimum(radius, counts.unknown_distance)
    counts.add_known(replace(known_pairs, radius=nearest[known_pairs.left]))
