"""Exact margins: which questions are open about each entry, and block comparisons that answer them.

The comparison with near lists (:mod:`lacuna.margin.approximate`) finds an unknown entry. A first pass over all pairs of
entries looks for nearer ones, and counts the known entries within the same distance. Only where it finds a nearer
unknown entry, a second pass counts the known ones again.

In a pass, entries form blocks. Each block is one task; tasks do not depend on each other. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.distances import PairDistances, Vectors
from lacuna.margin.approximate import Nearby
from lacuna.margin.codes import passing
from lacuna.margin.screening import Screening
from lacuna.margin.tasks import run_and_save
from lacuna.progress import Progress
from lacuna.workers import Pool

PASSES = ("all entries", "known entries again")

BLOCK = 1024  # entries in a block
_PAIRS_AT_ONCE = 1 << 15

# The row in its block of the first entry of each pair, and the second entry.
_Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


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
    """What is open about each entry, and the margins that are settled.

    :param open: Whether the margin is open.
    :param radius: Distance within which to look: that of the nearest unknown entry found so far, or less. Where the
        margin is not open, no unknown entry is nearer, and the margin counts the known ones that are.
    :param counted: ``max_margin`` if at least this number of known entries is within the radius, otherwise 0.
    :param margin: The margin, where it is not open.
    """

    open: NDArray[np.bool_]
    radius: NDArray[np.float64]
    counted: NDArray[np.int64]
    margin: NDArray[np.uint16]

    @classmethod
    def about(cls, entries: NDArray[np.int64], nearby: Nearby, keys: Vectors, known: int, max_margin: int) -> Questions:
        """Return the questions about some entries that the comparison with near lists leaves.

        :param known: Number of known entries.
        """
        radius = np.full(len(nearby.unknown), np.inf)
        found = entries[nearby.unknown[entries] >= 0]
        radius[found] = PairDistances(keys, keys).exact(found, nearby.unknown[found])
        full = nearby.cap_distance < radius
        return cls(
            np.isfinite(radius) & (radius > 0),
            # An unknown entry at that distance counts, too.
            np.where(full, np.nextafter(nearby.cap_distance, np.inf), radius),
            np.where(full, max_margin, 0),
            # Nothing is nearer than distance 0. Without any unknown neighbor, all known entries count.
            np.where(radius > 0, min(known, max_margin), 0).astype(np.uint16),
        )

    @classmethod
    def without_unknown(cls, entries: int, max_margin: int) -> Questions:
        """Return the answers about a store without unknown entries: all other entries count."""
        margin = np.full(entries, min(max(0, entries - 1), max_margin), np.uint16)
        return cls(np.zeros(entries, np.bool_), np.full(entries, np.inf), np.zeros(entries, np.int64), margin)

    def wanted(self, number: int, max_margin: int) -> Wanted:
        """Return what a pass looks for."""
        if number == 0:
            return Wanted(self.open, self.open & (self.counted < max_margin), self.radius)
        return Wanted(np.zeros_like(self.open), self.open, self.radius)

    def answered(self, number: int, found: Found, max_margin: int) -> Questions:
        """Return the questions that are open after a pass; two passes answer all."""
        counted = found.known_nearer if number else self.counted + found.known_nearer
        # Without any known entry within the radius, there is none within a smaller one.
        again = self.open & np.isfinite(found.unknown_distance) & (counted > 0)
        margin = np.where(self.open, np.minimum(counted, max_margin).astype(np.uint16), self.margin)
        return Questions(again, np.minimum(self.radius, found.unknown_distance), counted, margin)


@dataclass(frozen=True)
class _Block:
    """Consecutive positions, all of entries that ask, or of entries that do not."""

    part: slice
    asks: bool
    radius: float  # the largest


class BlockComparison:
    """One pass over all pairs of entries that matter, each pair for both of its entries.

    Entries that ask are ordered by radius, largest first, and cut into blocks; the others follow.

    :param known: Whether each entry is known.
    """

    def __init__(self, keys: Vectors, known: NDArray[np.bool_], wanted: Wanted, screening: Screening) -> None:
        self._known, self._wanted = known, wanted
        self._keys, self._pairs = keys, PairDistances(keys, keys)
        self._projections, self._coders = screening.projections, screening.coders
        asks = wanted.unknown | wanted.known
        asking = np.flatnonzero(asks)
        others = np.flatnonzero(~asks & (known | wanted.unknown.any()))
        self._order = np.concatenate([asking[np.argsort(-wanted.radius[asking], kind="stable")], others])
        self._radius = wanted.radius[self._order]
        # Squared distance of components up to which a pair matters for each entry.
        ids, projections = np.arange(len(known)), screening.projections
        self._reach = np.where(asks, projections.radius(ids, wanted.radius, projections.longest), -1.0)
        self._blocks = [
            _Block(slice(start, min(stop, start + BLOCK)), first == 0, float(self._radius[start]))
            for first, stop in ((0, len(asking)), (len(asking), len(self._order)))
            for start in range(first, stop, BLOCK)
        ]
        self._level = [
            screening.best_level(self._order[block.part], self._radius[block.part], len(asking))
            for block in self._blocks
            if block.asks
        ]
        # Copied in this order, codes of a block are next to each other.
        self._codes = {level: screening.codes(level)[self._order] for level in sorted(set(self._level))}

    def __len__(self) -> int:
        return len(self._level)

    def run(self, number: int) -> FoundPart:
        """Compare one block with all blocks after it: their radii are smaller, if they ask at all."""
        row, waiting = self._blocks[number], 0
        found = Found.empty(len(self._known))
        pending: list[_Pairs] = []
        left, entries = self._left_side(number), self._order[row.part]
        vectors = self._keys.gather(entries).astype(np.float32)
        for column in self._blocks[number:]:
            pending.append(self._screened(number, column, left))
            waiting += len(pending[-1][0])
            if waiting >= _PAIRS_AT_ONCE:
                self._count(entries, vectors, pending, found)
                pending, waiting = [], 0
        self._count(entries, vectors, pending, found)
        about = np.flatnonzero(np.isfinite(found.unknown_distance) | (found.known_nearer > 0))
        return FoundPart(about, found.unknown_distance[about], found.known_nearer[about])

    def _left_side(self, number: int) -> torch.Tensor:
        """Return the left side of a block's products: each row looks within its own radius or that of any column."""
        part, level = self._blocks[number].part, self._level[number]
        after = self._radius[part.stop] if number + 1 < len(self) else 0.0
        radius = np.maximum(self._radius[part], after)
        return self._coders[level].left_side(self._codes[level][part], radius, self._projections.longest)

    def _screened(self, number: int, column: _Block, left_side: torch.Tensor) -> _Pairs:
        """Return the pairs of two blocks that neither codes nor components rule out."""
        row, codes = self._blocks[number], self._codes[self._level[number]]
        rows, columns = passing(left_side, codes.right[column.part])
        if column is row:
            once = rows < columns  # leaves the entries themselves out, too
            rows, columns = rows[once], columns[once]
        left, right = self._order[rows + row.part.start], self._order[columns + column.part.start]
        # A pair matters for one or both of its entries.
        distances = self._projections.distances(left, self._projections, right)
        near = (distances <= self._reach[left]) & self._matters(left, right)
        near |= (distances <= self._reach[right]) & self._matters(right, left)
        return rows[near], right[near]

    def _matters(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether the left entries of pairs want entries like the right ones."""
        return np.where(self._known[right], self._wanted.known[left], self._wanted.unknown[left])

    def _count(
        self, entries: NDArray[np.int64], vectors: NDArray[np.float32], pending: list[_Pairs], found: Found
    ) -> None:
        """Compute the distances of pairs, and add the results for both entries of each pair.

        :param vectors: The keys of the block's entries. # (entries, dimension)
        """
        if not pending:
            return
        wanted = self._wanted
        rows, other = (np.concatenate(side) for side in zip(*pending, strict=True))
        fast, one = self._pairs.fast_from(vectors, rows, other), entries[rows]
        left, right = np.concatenate([one, other]), np.concatenate([other, one])
        distances, radius = np.concatenate([fast, fast]), wanted.radius[left]
        near = distances <= radius * (1 + self._pairs.relative_error)
        chosen = np.flatnonzero(near & wanted.unknown[left] & ~self._known[right])
        exact = self._pairs.exact(left[chosen], right[chosen])
        # At the same distance as the nearest one found before, it changes nothing.
        np.minimum.at(found.unknown_distance, left[chosen], np.where(exact < radius[chosen], exact, np.inf))
        chosen = np.flatnonzero(near & wanted.known[left] & self._known[right])
        left, right = left[chosen], right[chosen]
        nearer = self._pairs.below(left, right, distances[chosen], radius[chosen])
        np.add.at(found.known_nearer, left[nearer], 1)


Saver = Callable[[int, Questions, Found], Callable[[int], None]]


def answer(
    questions: Questions,
    compare: Callable[[Wanted], BlockComparison],
    max_margin: int,
    progress: Progress,
    pool: Pool,
    files: Path | None = None,
    number: int = 0,
    found: Found | None = None,
    done: int = 0,
    saver: Saver | None = None,
) -> Questions:
    """Run passes until no question is open.

    :param compare: Prepares a pass.
    :param pool: Runs its tasks.
    :param files: As in :meth:`~lacuna.workers.Pool.map`.
    :param number: Number of the first pass.
    :param found: The result of its first ``done`` tasks.
    :param saver: Takes the stage, which is the number of the pass plus 1, and returns a function that saves the state
        after a number of tasks. By default nothing is saved, for comparisons that take seconds only.
    """
    while questions.open.any():
        result = found or Found.empty(len(questions.open))
        comparison = compare(questions.wanted(number, max_margin))
        save = _save_nothing if saver is None else saver(number + 1, questions, result)
        progress.start(f"comparing {PASSES[number]}", len(comparison), "blocks")
        progress.advance(done)
        run_and_save(
            pool,
            range(done, len(comparison)),
            comparison.run,
            _adder(result),
            save,
            lambda _: progress.advance(1),
            files,
        )
        progress.finish()
        questions = questions.answered(number, result, max_margin)
        number, found, done = number + 1, None, 0
    return questions


def _adder(found: Found) -> Callable[[int, FoundPart], None]:
    return lambda _, part: found.add(part)


def _save_nothing(done: int) -> None:
    """Save nothing."""
