"""Going once through all pairs of entries that matter, each pair for both of its sides.

Entries are put in order so that those with the same needs stand together, in blocks, those with far thresholds
first. Of two blocks that need each other, only the one with the farther thresholds is asked which pairs may matter:
no pair within the nearer threshold is missed. Knows what entries need, not why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.margin.pairs import PairDistances
from lacuna.margin.points import Centered, Points
from lacuna.margin.sketch import Basis, Screen, Sketch, draw_columns

# Positions of the two sides.
_Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]

BLOCK = 1024  # entries compared at once with as many others
_SEED = 1  # of the sample that decides how the work is done, not what comes of it
_PAIRS_AT_ONCE = 1 << 15


@dataclass(frozen=True, eq=False)
class Needs:
    """What is to be found out about each entry.

    :param unknown: Whether the nearest unknown entry is wanted, if it is within ``threshold``.
    :param known: Whether the number of known entries nearer than ``threshold`` is wanted.
    :param threshold: Squared distance.
    """

    unknown: NDArray[np.bool_]
    known: NDArray[np.bool_]
    threshold: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Found:
    """What was found out about each entry, so far.

    :param unknown_distance: Distance to the nearest unknown entry; infinity where it is not wanted or too far.
    :param known_nearer: Known entries nearer than the threshold.
    """

    unknown_distance: NDArray[np.float64]
    known_nearer: NDArray[np.int64]

    @classmethod
    def nothing(cls, entries: int) -> Found:
        """Begin."""
        return cls(np.full(entries, np.inf), np.zeros(entries, np.int64))


@dataclass(frozen=True)
class _Block:
    part: slice
    is_known: bool
    needs_unknown: bool
    needs_known: bool
    farthest: float

    def needs(self, other: _Block) -> bool:
        return self.needs_known if other.is_known else self.needs_unknown


@dataclass(frozen=True, eq=False)
class _Asking:
    """The left side of the products of a block.

    :param width: Leading numbers compared.
    :param radius: How far apart whole sketches may be.
    """

    width: int
    left: torch.Tensor
    radius: NDArray[np.float64]


class Sweep:
    """One way through all pairs.

    :param known: Whether each entry is known.
    """

    def __init__(
        self,
        keys: Points,
        mean: NDArray[np.float32],
        known: NDArray[np.bool_],
        needs: Needs,
        basis: Basis,
    ) -> None:
        self._known, self._needs = known, needs
        self._pairs = PairDistances(keys, keys)
        involved = np.flatnonzero(
            needs.unknown | needs.known | (needs.unknown.any() & ~known) | (needs.known.any() & known)
        )
        group = known + 2 * needs.unknown + 4 * needs.known
        order = involved[np.lexsort((-needs.threshold[involved], group[involved]))]
        self._blocks = self._cut(order, group)
        self._sketch = Sketch(Centered(keys, mean), order, basis)
        self._threshold = needs.threshold[order]
        self._sample = draw_columns(len(order), np.random.default_rng(_SEED))
        self._screen = Screen(BLOCK, BLOCK)

    def __len__(self) -> int:
        return len(self._blocks)

    def run(self, number: int, found: Found) -> int:
        """Compare one block with all that it must ask, and write down what is found; return 1, the blocks done."""
        row, waiting = self._blocks[number], 0
        pending: list[_Pairs] = []
        asking: _Asking | None = None
        for column in self._partners(number):
            asking = asking or self._ask(row)
            pending.append(self._pass(row, column, asking))
            waiting += len(pending[-1][0])
            if waiting >= _PAIRS_AT_ONCE:
                self._settle(pending, found)
                pending, waiting = [], 0
        self._settle(pending, found)
        return 1

    def _cut(self, order: NDArray[np.int64], group: NDArray[np.int64]) -> list[_Block]:
        groups, needs = group[order], self._needs
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
                bool(needs.unknown[first]),
                bool(needs.known[first]),
                float(needs.threshold[first]),
            )
            for part, first in zip(parts, firsts, strict=True)
        ]

    def _partners(self, number: int) -> Iterator[_Block]:
        """Yield the blocks that this one asks about: each pair of blocks is looked at from one side."""
        row = self._blocks[number]
        for other, column in enumerate(self._blocks):
            if not row.needs(column):
                continue
            if column.needs(row) and (column.farthest, number) > (row.farthest, other):
                continue
            yield column

    def _ask(self, row: _Block, least: float = 0.0, width: int | None = None) -> _Asking:
        """Make the left side of a block's products.

        :param least: Thresholds nearer than this are taken as this.
        """
        sketch, threshold = self._sketch, np.maximum(self._threshold[row.part], least)
        width = width or sketch.best_width(row.part, threshold, sketch, self._sample)
        radius = sketch.radius(row.part, sketch.basis.vectors.shape[1], threshold, sketch.longest).numpy()
        return _Asking(
            width,
            sketch.rows(row.part, width, threshold, sketch.longest),
            radius * (1 + self._pairs.relative_error),
        )

    def _pass(self, row: _Block, column: _Block, asking: _Asking) -> _Pairs:
        """Return the positions of the pairs of two blocks that their sketches do not rule out."""
        sketch = self._sketch
        if column is not row and column.needs(row) and column.farthest > self._threshold[row.part.stop - 1]:
            asking = self._ask(row, column.farthest, asking.width)
        rows, columns = self._screen.passing(asking.left, sketch.columns(column.part, asking.width))
        left, right = rows + row.part.start, columns + column.part.start
        if column is row:
            once = left < right
            rows, left, right = rows[once], left[once], right[once]
        near = sketch.distances(left, sketch, right) <= asking.radius[rows]
        return left[near], right[near]

    def _settle(self, pending: list[_Pairs], found: Found) -> None:
        """Compute the distances of the pairs that are left, and count them for both of their sides."""
        if not pending:
            return
        needs, order = self._needs, self._sketch.order
        one, other = (order[np.concatenate(side)] for side in zip(*pending, strict=True))
        quick = self._pairs.quick(one, other)
        left, right = np.concatenate([one, other]), np.concatenate([other, one])
        distances, threshold = np.concatenate([quick, quick]), needs.threshold[left]
        near = distances <= threshold * (1 + self._pairs.relative_error)
        wanted = np.flatnonzero(near & needs.unknown[left] & ~self._known[right])
        exact = self._pairs.exact(left[wanted], right[wanted])
        np.minimum.at(found.unknown_distance, left[wanted], np.where(exact <= threshold[wanted], exact, np.inf))
        wanted = np.flatnonzero(near & needs.known[left] & self._known[right])
        left, right = left[wanted], right[wanted]
        nearer = self._pairs.below(left, right, distances[wanted], threshold[wanted])
        np.add.at(found.known_nearer, left[nearer], 1)
