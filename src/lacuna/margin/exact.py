"""Exact margins: which questions are open about each entry, and block comparisons that answer them.

The comparison with near lists (:mod:`lacuna.margin.approximate`) leaves a question about each entry. If it found no
known entry before the nearest unknown one, only nearer known entries matter. If it found ``max_margin`` known entries,
only nearer unknown entries matter. For all others the nearest unknown entry must be found first, then the known ones
counted. Passes over all pairs of entries answer these questions.

In a pass, entries with the same question form blocks. Each block is one task; tasks do not depend on each other.
Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.distances import PairDistances, Vectors
from lacuna.margin.approximate import Nearby
from lacuna.margin.codes import passing
from lacuna.margin.screening import Screening

# A pass compares unknown entries with each other, then known with unknown ones, then known ones with each other. So an
# entry's nearest unknown neighbor is found before its known neighbors are counted, and each pair is compared once.
PASSES = ("unknown entries", "known with unknown entries", "known entries")

BLOCK = 1024  # entries in a block
_SEED = 1  # of a sample that affects the speed only
_PAIRS_AT_ONCE = 1 << 15

# The two entries of each pair.
_Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


class Question(IntEnum):
    """What is still open about an entry."""

    NONE = 0
    NEARER_KNOWN = 1  # margin 0 so far: is a known entry nearer than the unknown one?
    NEARER_UNKNOWN = 2  # largest margin so far: is an unknown entry nearer than max_margin known ones?
    NEAREST_UNKNOWN = 3  # which unknown entry is the nearest?
    COUNT = 4  # how many known entries are nearer than the nearest unknown one, which has been found?


@dataclass(frozen=True, eq=False)
class Wanted:
    """What a pass looks for.

    :param unknown: Whether the nearest unknown entry is wanted, if it is within ``radius``.
    :param known: Whether the number of known entries nearer than ``radius`` is wanted.
    :param radius: Squared distance.
    """

    unknown: NDArray[np.bool_]
    known: NDArray[np.bool_]
    radius: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Found:
    """What a pass has found.

    :param unknown_distance: Distance to the nearest unknown entry; infinity if it is not wanted or too far.
    :param known_nearer: Number of known entries nearer than the radius.
    """

    unknown_distance: NDArray[np.float64]
    known_nearer: NDArray[np.int64]

    @classmethod
    def empty(cls, entries: int) -> Found:
        """Return the state before any comparison."""
        return cls(np.full(entries, np.inf), np.zeros(entries, np.int64))

    def add(self, part: FoundPart) -> None:
        """Add the result of one task."""
        ids = part.entries
        self.unknown_distance[ids] = np.minimum(self.unknown_distance[ids], part.unknown_distance)
        self.known_nearer[ids] += part.known_nearer


@dataclass(frozen=True, eq=False)
class FoundPart:
    """The result of one task: the fields of :class:`Found`, for some entries.

    :param entries: Each entry once.
    """

    entries: NDArray[np.int64]
    unknown_distance: NDArray[np.float64]
    known_nearer: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Questions:
    """The open question about each entry, and the margins that are settled.

    :param question: A :class:`Question`.
    :param radius: Distance within which to look: that of the nearest unknown entry found so far, or less.
    :param margin: The margin, where no question is open.
    """

    question: NDArray[np.uint8]
    radius: NDArray[np.float64]
    margin: NDArray[np.uint16]

    @classmethod
    def after(cls, nearby: Nearby, max_margin: int) -> Questions:
        """Return the questions that the comparison with near lists leaves."""
        radius = nearby.unknown_distance
        question = np.full(len(radius), Question.NEAREST_UNKNOWN, np.uint8)
        question[nearby.known_nearer == 0] = Question.NEARER_KNOWN
        full = nearby.known_nearer >= max_margin
        question[full] = Question.NEARER_UNKNOWN
        # Nothing is nearer than distance 0. Without any unknown neighbor, all entries have been compared.
        settled = (radius == 0) | np.isinf(radius)
        question[settled] = Question.NONE
        margin = np.where(settled, nearby.margin(max_margin), np.uint16(0))
        return cls(question, np.where(full, np.minimum(radius, nearby.cap_distance), radius), margin)

    @property
    def open(self) -> bool:
        """Whether any question is open."""
        return bool((self.question != Question.NONE).any())

    def only(self, entries: NDArray[np.int64]) -> Questions:
        """Return the questions about some entries only."""
        question = np.zeros_like(self.question)
        question[entries] = self.question[entries]
        return Questions(question, self.radius, self.margin)

    def wanted(self, known: NDArray[np.bool_], number: int) -> Wanted:
        """Return what pass ``number`` looks for; after the last of :data:`PASSES` the first follows again."""
        none = np.zeros_like(known)
        seeks_unknown = (~known, known, none)[number % len(PASSES)]
        seeks_known = (none, ~known, known)[number % len(PASSES)]
        return Wanted(
            seeks_unknown & np.isin(self.question, (Question.NEARER_UNKNOWN, Question.NEAREST_UNKNOWN)),
            seeks_known & np.isin(self.question, (Question.NEARER_KNOWN, Question.COUNT)),
            self.radius,
        )

    def answered(self, wanted: Wanted, found: Found, max_margin: int) -> Questions:
        """Return the questions that are open after a pass; six passes answer all."""
        question, margin = self.question.copy(), self.margin.copy()
        counted = np.minimum(found.known_nearer, max_margin).astype(np.uint16)

        full = wanted.unknown & (self.question == Question.NEARER_UNKNOWN) & np.isinf(found.unknown_distance)
        question[wanted.unknown] = Question.COUNT
        question[full] = Question.NONE
        margin[full] = max_margin

        reopened = wanted.known & (self.question == Question.NEARER_KNOWN) & (counted > 0)
        question[wanted.known] = Question.NONE
        margin[wanted.known] = counted[wanted.known]
        question[reopened] = Question.NEAREST_UNKNOWN
        return Questions(question, np.minimum(self.radius, found.unknown_distance), margin)


@dataclass(frozen=True)
class _Block:
    """Consecutive positions with the same question."""

    part: slice
    is_known: bool
    wants_unknown: bool
    wants_known: bool
    radius: float  # the largest

    def wants(self, other: _Block) -> bool:
        return self.wants_known if other.is_known else self.wants_unknown


@dataclass(frozen=True, eq=False)
class _LeftSide:
    """The left side of a block's products.

    :param reach: Largest squared distance of components at which a pair passes. # (rows,)
    """

    level: int
    matrix: torch.Tensor
    reach: NDArray[np.float64]


class BlockComparison:
    """One pass over all pairs of entries that matter, each pair for both of its entries.

    Entries are ordered by what is wanted, then by radius, largest first, and cut into blocks. If two blocks want each
    other, they are compared once, with the larger radii.

    :param known: Whether each entry is known.
    """

    def __init__(self, keys: Vectors, known: NDArray[np.bool_], wanted: Wanted, screening: Screening) -> None:
        self._known, self._wanted = known, wanted
        self._pairs = PairDistances(keys, keys)
        self._projections, self._coders = screening.projections, screening.coders
        involved = np.flatnonzero(
            wanted.unknown | wanted.known | (wanted.unknown.any() & ~known) | (wanted.known.any() & known)
        )
        group = known + 2 * wanted.unknown + 4 * wanted.known
        self._order = involved[np.lexsort((-wanted.radius[involved], group[involved]))]
        self._blocks = self._cut(group)
        self._radius = wanted.radius[self._order]
        sample = screening.sample(self._order, np.random.default_rng(_SEED))
        self._level = {
            number: screening.best_level(self._order[block.part], self._radius[block.part], sample)
            for number, block in enumerate(self._blocks)
            if block.wants_unknown or block.wants_known
        }
        # Copied in this order, codes of a block are next to each other.
        self._codes = {level: screening.codes(level)[self._order] for level in sorted(set(self._level.values()))}

    def __len__(self) -> int:
        return len(self._blocks)

    def run(self, number: int) -> FoundPart:
        """Compare one block with all blocks that it is responsible for."""
        row, waiting = self._blocks[number], 0
        found = Found.empty(len(self._known))
        pending: list[_Pairs] = []
        left: _LeftSide | None = None
        for column in self._partners(number):
            left = left or self._left_side(number)
            wider = column is not row and column.wants(row) and column.radius > self._radius[row.part.stop - 1]
            pending.append(self._screened(row, column, self._left_side(number, column.radius) if wider else left))
            waiting += len(pending[-1][0])
            if waiting >= _PAIRS_AT_ONCE:
                self._count(pending, found)
                pending, waiting = [], 0
        self._count(pending, found)
        entries = np.flatnonzero(np.isfinite(found.unknown_distance) | (found.known_nearer > 0))
        return FoundPart(entries, found.unknown_distance[entries], found.known_nearer[entries])

    def _cut(self, group: NDArray[np.int64]) -> list[_Block]:
        order, wanted = self._order, self._wanted
        groups = group[order]
        edges = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(order)]
        parts = [
            slice(start, min(stop, start + BLOCK))
            for first, stop in pairwise(edges)
            for start in range(first, stop, BLOCK)
        ]
        firsts = [int(order[part.start]) for part in parts]
        return [
            _Block(
                part,
                bool(self._known[first]),
                bool(wanted.unknown[first]),
                bool(wanted.known[first]),
                float(wanted.radius[first]),
            )
            for part, first in zip(parts, firsts, strict=True)
        ]

    def _partners(self, number: int) -> Iterator[_Block]:
        """Yield the blocks that this one is compared with, so that each pair of blocks is compared once."""
        row = self._blocks[number]
        for other, column in enumerate(self._blocks):
            if not row.wants(column):
                continue
            if column.wants(row) and (column.radius, number) > (row.radius, other):
                continue
            yield column

    def _left_side(self, number: int, least: float = 0.0) -> _LeftSide:
        """Return the left side of a block's products.

        :param least: Smaller radii are replaced by this.
        """
        part, level = self._blocks[number].part, self._level[number]
        radius, longest = np.maximum(self._radius[part], least), self._projections.longest
        return _LeftSide(
            level,
            self._coders[level].left_side(self._codes[level][part], radius, longest),
            self._projections.radius(self._order[part], radius, longest),
        )

    def _screened(self, row: _Block, column: _Block, left_side: _LeftSide) -> _Pairs:
        """Return the entries of the pairs of two blocks that neither codes nor components rule out."""
        rows, columns = passing(left_side.matrix, self._codes[left_side.level].right[column.part])
        if column is row:
            once = rows < columns  # leaves the entries themselves out, too
            rows, columns = rows[once], columns[once]
        left, right = self._order[rows + row.part.start], self._order[columns + column.part.start]
        near = self._projections.distances(left, self._projections, right) <= left_side.reach[rows]
        return left[near], right[near]

    def _count(self, pending: list[_Pairs], found: Found) -> None:
        """Compute the distances of pairs, and add the results for both entries of each pair."""
        if not pending:
            return
        wanted = self._wanted
        one, other = (np.concatenate(side) for side in zip(*pending, strict=True))
        fast = self._pairs.fast(one, other)
        left, right = np.concatenate([one, other]), np.concatenate([other, one])
        distances, radius = np.concatenate([fast, fast]), wanted.radius[left]
        near = distances <= radius * (1 + self._pairs.relative_error)
        chosen = np.flatnonzero(near & wanted.unknown[left] & ~self._known[right])
        exact = self._pairs.exact(left[chosen], right[chosen])
        np.minimum.at(found.unknown_distance, left[chosen], np.where(exact <= radius[chosen], exact, np.inf))
        chosen = np.flatnonzero(near & wanted.known[left] & self._known[right])
        left, right = left[chosen], right[chosen]
        nearer = self._pairs.below(left, right, distances[chosen], radius[chosen])
        np.add.at(found.known_nearer, left[nearer], 1)
