"""Radius queries: the nearest unknown entry within a radius, and the number of known ones.

Pairs are screened by codes and components (:mod:`lacuna.margin.screening`). The distances of the rest are computed from
whole keys, in float32, and in float64 where that is too close to decide. Blocks of entries are tasks that do not depend
on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.distances import PairDistances, Vectors
from lacuna.margin.codes import Coder, passing
from lacuna.margin.screening import CodedVectors, Screening

BLOCK = 1024  # entries in a block
COLUMNS_AT_ONCE = 4096
_PAIRS_AT_ONCE = 1 << 15


class Entries(Protocol):
    """What margins are measured from: a store, for example."""

    @property
    def keys(self) -> Vectors: ...  # noqa: D102

    @property
    def mean(self) -> NDArray[np.float32]: ...  # noqa: D102

    @property
    def known(self) -> NDArray[np.bool_]: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class NearPairs:
    """Pairs of vectors, most of them within a radius.

    :param distances: Computes the distances of pairs.
    :param fast: Their distances in float32.
    :param radius: The radius of each pair.
    """

    distances: PairDistances
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    fast: NDArray[np.float32]
    radius: NDArray[np.float64]

    def where(self, chosen: NDArray[np.bool_]) -> NearPairs:
        """Return those of the chosen pairs that may be within the radius, allowing for the error in float32."""
        near = np.flatnonzero(chosen & (self.fast <= self.radius * (1 + self.distances.relative_error)))
        return NearPairs(self.distances, self.left[near], self.right[near], self.fast[near], self.radius[near])

    def nearer(self) -> NDArray[np.int64]:
        """Return the left vector of each pair that is nearer than the radius."""
        return self.left[self.distances.below(self.left, self.right, self.fast, self.radius)]

    def exact(self) -> NDArray[np.float64]:
        """Return the distances in float64; infinity where they are not less than the radius."""
        exact = self.distances.exact(self.left, self.right)
        return np.where(exact < self.radius, exact, np.inf)


@dataclass(frozen=True, eq=False)
class RadiusCounts:
    """The answers to radius queries.

    :param unknown_distance: Distance to the nearest unknown entry; infinity if it is not within the radius.
    :param known: Number of known entries nearer than the radius.
    """

    unknown_distance: NDArray[np.float64]
    known: NDArray[np.int64]

    @classmethod
    def empty(cls, queries: int) -> RadiusCounts:
        """Return the answers before any comparison."""
        return cls(np.full(queries, np.inf), np.zeros(queries, np.int64))

    def add(self, queries: NDArray[np.int64], part: RadiusCounts) -> None:
        """Add the answers of a comparison with other entries; each query is there once."""
        self.unknown_distance[queries] = np.minimum(self.unknown_distance[queries], part.unknown_distance)
        self.known[queries] += part.known

    def add_known(self, pairs: NearPairs, first: int = 0) -> None:
        """Count the pairs that are nearer than their radius, for the left vector of each; ``first`` is query 0."""
        np.add.at(self.known, pairs.nearer() - first, 1)

    def add_unknown(self, pairs: NearPairs, first: int = 0) -> None:
        """Take over the distances of pairs that are nearer than their radius; ``first`` is query 0."""
        np.minimum.at(self.unknown_distance, pairs.left - first, pairs.exact())


class RadiusSearch:
    """Finds pairs of a left and a right vector within the radius of the left one.

    :param radius: Squared distance, for each left vector.
    """

    def __init__(self, coder: Coder, left: CodedVectors, right: CodedVectors, radius: NDArray[np.float64]) -> None:
        self._coder, self._left, self._right, self._radius = coder, left, right, radius
        self._distances = PairDistances(left.vectors, right.vectors)

    def pairs(self, block: slice) -> Iterator[NearPairs]:
        """Yield all pairs of a block of left vectors that may be within the radius."""
        left, right, radius = self._left, self._right, self._radius[block]
        ids, max_length = np.arange(block.start, block.stop), right.projections.max_length
        left_side = self._coder.left_side(left.codes[block], radius, max_length)
        reach = left.projections.radius(ids, radius, max_length)
        vectors = left.vectors.gather(ids).astype(np.float32)
        for start in range(0, len(right.codes.right), COLUMNS_AT_ONCE):
            rows, others = passing(left_side, right.codes.right[start : start + COLUMNS_AT_ONCE])
            others += start
            near = left.projections.distances(ids[rows], right.projections, others) <= reach[rows]
            rows, others = rows[near], others[near]
            fast = self._distances.fast(vectors, rows, others)
            yield NearPairs(self._distances, ids[rows], others, fast, radius[rows])


@dataclass(frozen=True, eq=False)
class RadiusQuery:
    """What is asked about the neighbors of each entry of a store.

    :param radius: Squared distance.
    :param nearest: Whether the distance of the nearest unknown entry is asked for, if it is less than the radius.
    :param count: Whether the number of known entries nearer than the radius is asked for.
    """

    radius: NDArray[np.float64]
    nearest: NDArray[np.bool_]
    count: NDArray[np.bool_]

    @property
    def asks(self) -> NDArray[np.bool_]:
        """Whether anything is asked about an entry."""
        return self.nearest | self.count


class SelfJoin:
    """A radius query about the entries of a store: compares all pairs that matter, each for both of its entries.

    Entries that ask are ordered by radius, largest first, and cut into blocks; the others follow.
    """

    unit: ClassVar[str] = "blocks"

    def __init__(self, entries: Entries, query: RadiusQuery, screening: Screening) -> None:
        self._query, self._keys, self._known = query, entries.keys, entries.known
        self._distances = PairDistances(entries.keys, entries.keys)
        self._projections, self._coders = screening.projections, screening.coders
        asking = np.flatnonzero(query.asks)
        others = np.flatnonzero(~query.asks & (self._known | query.nearest.any()))
        self._order = np.concatenate([asking[np.argsort(-query.radius[asking], kind="stable")], others])
        self._radius = query.radius[self._order]
        # Squared distance of components up to which a pair matters for each entry.
        ids, projections = np.arange(len(self._known)), screening.projections
        self._reach = np.where(query.asks, projections.radius(ids, query.radius, projections.max_length), -1.0)
        self._blocks = [
            slice(start, min(stop, start + BLOCK))
            for first, stop in ((0, len(asking)), (len(asking), len(self._order)))
            for start in range(first, stop, BLOCK)
        ]
        self._levels = [  # of the blocks that ask, which are the first ones
            screening.best_level(self._order[block], self._radius[block], len(asking))
            for block in self._blocks[: -(-len(asking) // BLOCK)]
        ]
        # Copied in this order, codes of a block are next to each other.
        self._codes = {level: screening.codes(level)[self._order] for level in sorted(set(self._levels))}
        self.sizes: Sequence[int] = [1] * len(self._levels)

    def run(self, number: int) -> tuple[NDArray[np.int64], RadiusCounts]:
        """Compare one block with all blocks after it: their radii are smaller, if they ask at all."""
        entries, left_side = self._order[self._blocks[number]], self._left_side(number)
        vectors = self._keys.gather(entries).astype(np.float32)
        counts, pairs = RadiusCounts.empty(len(self._known)), list[tuple[NDArray[np.int64], NDArray[np.int64]]]()
        waiting = 0
        for column in self._blocks[number:]:
            pairs.append(self._screened(number, column, left_side))
            waiting += len(pairs[-1][0])
            if waiting >= _PAIRS_AT_ONCE or column is self._blocks[-1]:
                rows, others = (np.concatenate(side) for side in zip(*pairs, strict=True))
                self._count(entries[rows], others, self._distances.fast(vectors, rows, others), counts)
                pairs, waiting = [], 0
        about = np.flatnonzero(np.isfinite(counts.unknown_distance) | (counts.known > 0))
        return about, RadiusCounts(counts.unknown_distance[about], counts.known[about])

    def _left_side(self, number: int) -> torch.Tensor:
        """Return the left side of a block's products: each row looks within its own radius or that of any column."""
        block, level = self._blocks[number], self._levels[number]
        after = self._radius[block.stop] if number + 1 < len(self._levels) else 0.0
        radius = np.maximum(self._radius[block], after)
        return self._coders[level].left_side(self._codes[level][block], radius, self._projections.max_length)

    def _screened(
        self, number: int, column: slice, left_side: torch.Tensor
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the pairs of two blocks that neither codes nor components rule out: row in the block, and entry."""
        block, codes = self._blocks[number], self._codes[self._levels[number]]
        rows, columns = passing(left_side, codes.right[column])
        if column is block:
            once = rows < columns  # leaves the entries themselves out, too
            rows, columns = rows[once], columns[once]
        left, right = self._order[rows + block.start], self._order[columns + column.start]
        # A pair matters for one or both of its entries.
        distances = self._projections.distances(left, self._projections, right)
        near = (distances <= self._reach[left]) & self._matters(left, right)
        near |= (distances <= self._reach[right]) & self._matters(right, left)
        return rows[near], right[near]

    def _matters(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether the left entries of pairs ask for entries like the right ones."""
        return np.where(self._known[right], self._query.count[left], self._query.nearest[left])

    def _count(
        self, left: NDArray[np.int64], right: NDArray[np.int64], fast: NDArray[np.float32], counts: RadiusCounts
    ) -> None:
        """Add pairs for both of their entries."""
        for entries, others in ((left, right), (right, left)):
            pairs = NearPairs(self._distances, entries, others, fast, self._query.radius[entries])
            known = self._known[others]
            counts.add_known(pairs.where(known & self._query.count[entries]))
            counts.add_unknown(pairs.where(~known & self._query.nearest[entries]))
