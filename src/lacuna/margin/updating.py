"""Margins after entries were added to a store or removed from it, without measuring all of them again.

The margin of an entry can change only if an added or removed entry is nearer than its nearest unknown entry, or is
this entry. So entries that were there before are compared with the added and removed ones, each within its unknown
distance. From this follow most margins. The exact passes (:mod:`lacuna.margin.exact`) measure the others and those of
the added entries. The margins are the same as measured from scratch. Knows nothing of files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.errors import StoreError
from lacuna.index.distances import CenteredVectors, PairDistances, Vectors
from lacuna.margin.approximate import Nearby
from lacuna.margin.codes import passing
from lacuna.margin.exact import BlockComparison, Questions, answer
from lacuna.margin.screening import Projections, Screening, find_rotation
from lacuna.margin.storage import Margins
from lacuna.progress import SILENT, Progress
from lacuna.workers import WorkerPool, keep_freed_memory

BLOCK = 1024  # entries in a block
_CHANGES_AT_ONCE = 2048
_SEED = 1  # of samples that affect the speed only


class Entries(Protocol):
    """What margins are measured from: a store, for example."""

    @property
    def keys(self) -> Vectors: ...  # noqa: D102

    @property
    def mean(self) -> NDArray[np.float32]: ...  # noqa: D102

    @property
    def known(self) -> NDArray[np.bool_]: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class MeasuredEntries:
    """Entries with exact margins.

    :param margin: The margin of each entry.
    :param unknown_distance: As in :class:`~lacuna.margin.storage.Margins`.
    :param max_margin: Larger margins count as this.
    """

    entries: Entries
    margin: NDArray[np.uint16]
    unknown_distance: NDArray[np.float64]
    max_margin: int

    @classmethod
    def of(cls, store: Store, margins: Margins) -> MeasuredEntries:
        """Return the entries of a store with its margins.

        :raises StoreError: The margins are approximate, or of a version that did not store unknown distances.
        """
        if margins.unknown_distance is None:
            raise StoreError(
                f"{margins.path}: {margins.manifest.method} margins without unknown distances, they cannot be updated; "
                f"delete this folder, and measure exact margins with: lacuna margin {store.path}"
            )
        return cls(store, margins.values, margins.unknown_distance, margins.manifest.max_margin)


def update_margins(
    before: MeasuredEntries, kept: NDArray[np.bool_], after: Entries, progress: Progress = SILENT
) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
    """Return the margins and the unknown distances of all entries after some were added or removed.

    The time grows with the number of entries times the number of added and removed ones. Where these are more than a
    tenth of all, measuring from scratch may be faster.

    :param before: The entries before. Only keys of those that were removed are read.
    :param kept: Whether each entry from before is still there.
    :param after: The entries that were kept, in the same order, and after them those that were added.
    """
    old, first = before.entries, int(np.count_nonzero(kept))
    if kept.shape != old.known.shape or not np.array_equal(old.known[kept], after.known[:first]):
        raise ValueError(f"{first:,} of {len(old.known):,} entries kept: these are not the first ones after the change")
    if after.known.all():
        answers = Questions.without_unknown(len(after.known), before.max_margin)
    elif first == len(kept) == len(after.known):
        return before.margin.copy(), before.unknown_distance.copy()
    else:
        keep_freed_memory()
        answers = _Update(before, kept, after, progress).run()
    return answers.margin, answers.radius


class _ChangedKeys:
    """The keys of the removed entries, and after them those of the added ones."""

    def __init__(self, before: Entries, kept: NDArray[np.bool_], after: Entries) -> None:
        self._before, self._after = before.keys, after.keys
        self._removed, self._kept = np.flatnonzero(~kept), int(np.count_nonzero(kept))
        self.dimension = after.keys.dimension
        self.known = np.concatenate([before.known[~kept], after.known[self._kept :]])
        self.added = np.arange(len(self.known)) >= len(self._removed)

    def gather(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Return the keys of these rows."""
        added = self.added[ids]
        new = self._after.gather(ids[added] - len(self._removed) + self._kept)
        keys = np.empty((len(ids), self.dimension), new.dtype)
        keys[added], keys[~added] = new, self._before.gather(self._removed[ids[~added]])
        return keys


@dataclass(frozen=True, eq=False)
class _Effects:
    """What was added and removed within the unknown distance of some entries.

    :param known_added: Number of added known entries that are nearer than the unknown distance.
    :param known_removed: Number of removed ones.
    :param unknown_added: Distance of the nearest added unknown entry; infinity if it is beyond the unknown distance.
    :param unknown_removed: Whether a removed unknown entry may have been the nearest one.
    """

    known_added: NDArray[np.int64]
    known_removed: NDArray[np.int64]
    unknown_added: NDArray[np.float64]
    unknown_removed: NDArray[np.bool_]

    @classmethod
    def none(cls, entries: int) -> _Effects:
        """Return the state before any comparison."""
        zeros = np.zeros((2, entries), np.int64)
        return cls(zeros[0], zeros[1], np.full(entries, np.inf), np.zeros(entries, np.bool_))

    def put(self, entries: slice, part: _Effects) -> None:
        """Write the result for some entries."""
        self.known_added[entries], self.known_removed[entries] = part.known_added, part.known_removed
        self.unknown_added[entries], self.unknown_removed[entries] = part.unknown_added, part.unknown_removed


class _ChangeComparison:
    """Compares entries that were kept with all changed ones. A block of entries is one task.

    All blocks use codes of one width: with few changed entries, most of the time goes into making the codes.

    :param radius: The unknown distances of the entries that were kept, which are the first ones in ``after``.
    """

    def __init__(
        self,
        after: Entries,
        radius: NDArray[np.float64],
        changed: _ChangedKeys,
        screening: Screening,
        rotation: torch.Tensor,
    ) -> None:
        self._keys, self._radius, self._changed = after.keys, radius, changed
        self._pairs = PairDistances(after.keys, changed)
        centered, count = CenteredVectors(changed, after.mean), len(changed.known)
        self._left, self._right = screening.projections, Projections(centered, count, rotation)
        self._longest = max(self._left.longest, self._right.longest)
        # The passes after this use the same codes, for about as many entries.
        level = screening.best_level(np.arange(len(radius)), radius, 2 * count)
        self._coder, self._codes = screening.coders[level], screening.codes(level)
        self._others = self._coder.encode_all(centered, count).right

    def __len__(self) -> int:
        return -(-len(self._radius) // BLOCK)

    def entries(self, number: int) -> slice:
        """Return the entries of a block."""
        return slice(number * BLOCK, min(len(self._radius), (number + 1) * BLOCK))

    def run(self, number: int) -> _Effects:
        """Compare the entries of one block."""
        part = self.entries(number)
        ids = np.arange(part.start, part.stop)
        left = self._coder.left_side(self._codes[part], self._radius[part], self._longest)
        reach = self._left.radius(ids, self._radius[ids], self._longest)
        vectors, effects = self._keys.gather(ids).astype(np.float32), _Effects.none(len(ids))
        for start in range(0, len(self._others), _CHANGES_AT_ONCE):
            rows, other = passing(left, self._others[start : start + _CHANGES_AT_ONCE])
            other += start
            near = self._left.distances(ids[rows], self._right, other) <= reach[rows]
            self._add(ids, vectors, rows[near], other[near], effects)
        return effects

    def _add(
        self,
        ids: NDArray[np.int64],
        vectors: NDArray[np.float32],
        rows: NDArray[np.int64],
        other: NDArray[np.int64],
        effects: _Effects,
    ) -> None:
        """Compute the distances of pairs, and add what they mean for the entries of a block.

        :param vectors: The keys of these entries. # (ids, dimension)
        :param rows: The row in its block of the first entry of each pair.
        :param other: The second entry, a changed one.
        """
        fast, radius = self._pairs.fast_from(vectors, rows, other), self._radius[ids[rows]]
        known, added = self._changed.known[other], self._changed.added[other]
        near = fast <= radius * (1 + self._pairs.relative_error)
        some = np.flatnonzero(near & known)
        some = some[self._pairs.below(ids[rows[some]], other[some], fast[some], radius[some])]
        np.add.at(effects.known_added, rows[some[added[some]]], 1)
        np.add.at(effects.known_removed, rows[some[~added[some]]], 1)
        some = np.flatnonzero(near & ~known & added)
        exact = self._pairs.exact(ids[rows[some]], other[some])
        np.minimum.at(effects.unknown_added, rows[some], np.where(exact <= radius[some], exact, np.inf))
        # No unknown entry was nearer. One that is not quite the nearest costs a comparison, but no error.
        effects.unknown_removed[rows[near & ~known & ~added]] = True


class _Update:
    """Finds out which margins follow from the changes, and measures the others."""

    def __init__(self, before: MeasuredEntries, kept: NDArray[np.bool_], after: Entries, progress: Progress) -> None:
        self._after, self._max_margin, self._progress = after, before.max_margin, progress
        self._margin, self._radius = before.margin[kept].astype(np.int64), before.unknown_distance[kept]
        self._changed = _ChangedKeys(before.entries, kept, after)
        keys, entries = CenteredVectors(after.keys, after.mean), len(after.known)
        self._rotation = find_rotation(keys, entries, np.random.default_rng(_SEED))
        self._screening = Screening(keys, entries, self._rotation)

    def run(self) -> Questions:
        """Return the margins and unknown distances: questions of which none is open."""
        after, screening = self._after, self._screening
        questions = self._questions(self._compare())
        return answer(
            questions,
            lambda wanted: BlockComparison(after.keys, after.known, wanted, screening),
            self._max_margin,
            self._progress,
            WorkerPool.of_process(),
        )

    def _compare(self) -> _Effects:
        """Compare the entries that were kept with the changed ones."""
        effects = _Effects.none(len(self._radius))
        if not len(self._radius):
            return effects
        # Entries that had no unknown neighbor are measured in full anyway.
        radius = np.where(np.isinf(self._radius), 0, self._radius)
        comparison = _ChangeComparison(self._after, radius, self._changed, self._screening, self._rotation)
        self._progress.start("comparing changed entries", len(comparison), "blocks")
        for number, part in enumerate(WorkerPool.of_process().map(comparison.run, range(len(comparison)))):
            effects.put(comparison.entries(number), part)
            self._progress.advance(1)
        self._progress.finish()
        return effects

    def _questions(self, effects: _Effects) -> Questions:
        """Return the margins that follow from the changes, and the questions about all others."""
        radius, most, unknown_added = self._radius, self._max_margin, effects.unknown_added
        # Where the margin was `max_margin`, there may be more known entries than it counts, and no unknown one at the
        # unknown distance.
        count, capped = self._margin + effects.known_added - effects.known_removed, self._margin == most
        settled = (count >= most) | ~(capped | effects.unknown_removed)
        nearer = unknown_added < radius
        # The unknown distance does not hold any more, and no added unknown entry gives another one.
        in_full = ~settled & (unknown_added > radius) | np.isinf(radius)
        # An added unknown entry gives the unknown distance. Known ones within it are counted, if there can be any.
        again = np.where(nearer, (self._margin + effects.known_added > 0) & (unknown_added > 0), ~settled & capped)
        added = np.arange(len(radius), len(self._after.known))
        questions = self._questions_in_full(np.concatenate([np.flatnonzero(in_full), added]))
        rest = np.flatnonzero(~in_full)
        questions.open[rest] = again[rest]
        questions.radius[rest] = np.minimum(radius, unknown_added)[rest]
        questions.margin[rest] = np.where(nearer, 0, np.minimum(count, most))[rest]
        return questions

    def _questions_in_full(self, entries: NDArray[np.int64]) -> Questions:
        """Return the questions about entries that were added, or whose unknown distance does not hold any more."""
        after, nearby = self._after, Nearby.empty(len(self._after.known))
        blocks = [entries[start : start + BLOCK] for start in range(0, len(entries), BLOCK)]
        for ids, unknown in zip(blocks, WorkerPool.of_process().map(self._near_unknown, blocks), strict=True):
            nearby.unknown[ids] = unknown
        return Questions.about(entries, nearby, after.keys, int(np.count_nonzero(after.known)), self._max_margin)

    def _near_unknown(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return an unknown entry near each of some entries, which bounds the distance; -1 if there is no other."""
        pairs, unknown = PairDistances(self._after.keys, self._after.keys), np.flatnonzero(~self._after.known)
        components = self._screening.projections.components[torch.from_numpy(entries)]
        nearest, distance = np.full(len(entries), -1), np.full(len(entries), np.inf)
        for others in self._screening.near(components, unknown, entries):
            found = np.where(others == entries, np.inf, pairs.exact(entries, others))
            nearest = np.where(found < distance, others, nearest)
            distance = np.minimum(distance, found)
        return nearest
