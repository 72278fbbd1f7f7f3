"""Margins as seen in a neighborhood: each list of keys is compared with the lists next to it, and no others.

Right wherever the nearest unknown entry and all known ones before it are in these lists. So it is the approximate
margin, and for the exact one a good guess: the nearest unknown entry that was found is a bound on how far the true
one can be. Probing all lists gives the exact margin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.margin.lists import Lists
from lacuna.margin.pairs import PairDistances
from lacuna.margin.points import EPSILON, Centered, Points

# Columns, distances of the rows to them, and for each row how far these may be from the truth.
_Compared = tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float64]]

_ROWS_AT_ONCE = 1024
_COLUMNS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class Seen:
    """What was seen of each entry's neighborhood.

    :param unknown_distance: Distance to the nearest unknown entry that was seen.
    :param known_nearer: Known entries that were seen nearer than that, counted.
    :param cap_distance: A distance within which there surely are ``max_margin`` known entries; else infinity.
    """

    unknown_distance: NDArray[np.float64]
    known_nearer: NDArray[np.int64]
    cap_distance: NDArray[np.float64]

    @classmethod
    def nothing(cls, entries: int) -> Seen:
        """Begin with nothing seen."""
        return cls(np.full(entries, np.inf), np.zeros(entries, np.int64), np.full(entries, np.inf))

    def margin(self, max_margin: int) -> NDArray[np.uint16]:
        """Return margins, right as far as was seen."""
        return np.minimum(self.known_nearer, max_margin).astype(np.uint16)


class Prober:
    """Compares lists of entries.

    :param known: Whether each entry is known; at least two must not be, so that each entry has an unknown neighbor.
    :param probes: Lists to compare with, the own one counted; more where they hold fewer than two unknown entries.
    """

    def __init__(
        self,
        keys: Points,
        mean: NDArray[np.float32],
        known: NDArray[np.bool_],
        lists: Lists,
        probes: int,
        max_margin: int,
    ) -> None:
        self._centered = Centered(keys, mean)
        self._pairs = PairDistances(keys, keys)
        self._known, self._lists = known, lists
        self._probes, self._max_margin = probes, max_margin
        self._unknown_in = np.bincount(lists.list_of[~known], minlength=len(lists))

    def probe(self, number: int, seen: Seen) -> int:
        """Compare the entries of one list with their neighborhood, write down what is seen; return their number."""
        members = self._lists.members(number)
        near = self._lists.nearest(number)
        enough = int(np.searchsorted(np.cumsum(self._unknown_in[near]), 2)) + 1
        columns = np.concatenate([self._lists.members(other) for other in near[: max(self._probes, enough)]])
        known = self._known[columns]
        own = known[: len(members)]
        # The list itself comes first, so an entry's own place among the columns is its place among its like.
        place = np.where(own, np.cumsum(own), np.cumsum(~own)) - 1
        for start in range(0, len(members), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            rows, keys = members[part], self._centered.gather(members[part])
            self._find_unknown(rows, self._compare(keys, columns[~known], np.where(own, -1, place)[part]), seen)
            self._count_known(rows, self._compare(keys, columns[known], np.where(own, place, -1)[part]), seen)
        return len(members)

    def _find_unknown(self, rows: NDArray[np.int64], compared: Iterator[_Compared], seen: Seen) -> None:
        best = np.full(len(rows), np.inf, np.float32)
        for columns, distances, error in compared:
            best = np.minimum(best, distances.min(axis=1))
            row, column = _where(distances <= (best + 2 * error).astype(np.float32)[:, None])
            others = np.isfinite(distances[row, column])
            left, right = rows[row[others]], columns[column[others]]
            np.minimum.at(seen.unknown_distance, left, self._pairs.exact(left, right))

    def _count_known(self, rows: NDArray[np.int64], compared: Iterator[_Compared], seen: Seen) -> None:
        radius = seen.unknown_distance[rows]
        for number, (columns, distances, error) in enumerate(compared):
            least, most = (radius - error).astype(np.float32), (radius + error).astype(np.float32)
            surely, perhaps = _count(distances, least), _count(distances, most)
            seen.known_nearer[rows] += surely
            doubtful = np.flatnonzero(perhaps > surely)
            some = distances[doubtful]
            row, column = _where((some >= least[doubtful, None]) & (some < most[doubtful, None]))
            row = doubtful[row]
            nearer = self._pairs.exact(rows[row], columns[column]) < radius[row]
            np.add.at(seen.known_nearer, rows[row[nearer]], 1)
            if number == 0 and self._max_margin < len(columns):
                full = np.flatnonzero(surely >= self._max_margin)
                last = self._max_margin - 1
                seen.cap_distance[rows[full]] = np.partition(distances[full], last, axis=1)[:, last] + error[full]

    def _compare(
        self, keys: torch.Tensor, columns: NDArray[np.int64], own_place: NDArray[np.int64]
    ) -> Iterator[_Compared]:
        """Compute distances by matrix products, some columns at a time; that to itself is infinite."""
        lengths = torch.linalg.vector_norm(keys, dim=1)
        # With two more numbers on both sides, a product is a distance: -2 x.y + |x|^2 . 1 + 1 . |y|^2.
        left = torch.column_stack([keys * -2, lengths.square(), torch.ones_like(lengths)])
        for start in range(0, len(columns), _COLUMNS_AT_ONCE):
            some = columns[start : start + _COLUMNS_AT_ONCE]
            others = self._centered.gather(some)
            squares = others.square().sum(1)
            right = torch.column_stack([others, torch.ones_like(squares), squares])
            distances: NDArray[np.float32] = torch.mm(left, right.T).numpy()
            here = np.flatnonzero((own_place >= start) & (own_place < start + len(some)))
            distances[here, own_place[here] - start] = np.inf
            reach = lengths.double() + squares.max().sqrt().double()
            # Twice the bound on the rounding of keys, squares and product, in whatever order they are summed.
            yield some, distances, (self._centered.dimension + 16) * EPSILON * reach.square().numpy()


def _where(mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row and column of what is true; much quicker than asking numpy in two dimensions."""
    row, column = np.divmod(np.flatnonzero(mask), mask.shape[1])
    return row, column


def _count(distances: NDArray[np.float32], bounds: NDArray[np.float32]) -> NDArray[np.int64]:
    """Count in each row what is below its bound; ones that are floats are much quicker to add up than truth values."""
    ones = torch.empty(distances.shape)
    torch.lt(torch.from_numpy(distances), torch.from_numpy(bounds).unsqueeze(1), out=ones)
    return ones.sum(1).numpy().astype(np.int64)
