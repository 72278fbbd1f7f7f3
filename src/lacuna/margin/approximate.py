"""Approximate margins: every entry is compared with the IVF lists nearest to it, by int8 codes.

A margin is right if the nearest unknown entry and all known entries before it are in these lists, and if rounding to
codes does not change their order. The exact method starts from the same comparison: the distance of the unknown entry
found here bounds that of the nearest one. A block of entries is one task; tasks do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.distances import PairDistances
from lacuna.index.faiss import find_centroids
from lacuna.margin.codes import product
from lacuna.margin.radius import Entries
from lacuna.margin.screening import Projections, Screening
from lacuna.progress import SILENT, Progress
from lacuna.workers import WorkerPool, one_thread

BLOCK = 1 << 15  # entries in a block: hundreds of them are compared with the same list
MAX_SCORES_AT_ONCE = 1 << 23  # bounds the memory, also if one list has most of the keys

_ITERATIONS = 4
_TRAINING_PER_LIST = 40
# Leading principal components for k-means: enough to find near keys, and several times as fast as whole keys.
_COMPONENTS = 64
_KEYS_AT_ONCE = 1024  # keys that stay in the cache of a core
_MIN_SCORE = -(1 << 31)  # less than all scores


@dataclass(frozen=True)
class InvertedLists:
    """The IVF lists of a store's keys.

    :param centroids: Centroids of the lists, in the leading principal components. # (lists, components)
    :param list_of: The list of each key. # (keys,)
    """

    centroids: NDArray[np.float32]
    list_of: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.centroids)

    @classmethod
    def train(cls, keys: Projections, count: int, seed: int, progress: Progress = SILENT) -> InvertedLists:
        """Cluster keys by k-means on a sample; the result does not depend on the number of threads.

        :param count: Number of lists, at most that of keys.
        """
        rows, rng = len(keys.components), np.random.default_rng(seed)
        sample = np.sort(rng.choice(rows, size=min(rows, count * _TRAINING_PER_LIST), replace=False))
        progress.start("clustering keys", rows + len(sample), "keys")
        with one_thread():
            training = keys.components[torch.from_numpy(sample), :_COMPONENTS].numpy()
            centroids = find_centroids(training, count, seed=seed, iterations=_ITERATIONS)
        progress.advance(len(sample))
        lists = cls(centroids, np.empty(rows, np.int32))
        pieces = [slice(start, start + _KEYS_AT_ONCE) for start in range(0, rows, _KEYS_AT_ONCE)]
        numbers = WorkerPool.of_process().map(lambda piece: lists.nearness(keys.components[piece]).argmax(1), pieces)
        for piece, number in zip(pieces, numbers, strict=True):
            lists.list_of[piece] = number
            progress.advance(len(number))
        progress.finish(f"({count:,} lists)")
        return lists

    def nearness(self, components: torch.Tensor) -> NDArray[np.float32]:  # (vectors, lists)
        """Return a number that is the larger, the nearer a list is to a vector."""
        centroids = torch.from_numpy(self.centroids)
        components = components[:, : centroids.shape[1]]
        # As an array: its argmax is ten times as fast as that of a tensor.
        return np.asarray(torch.addmm(centroids.square().sum(1) / -2, components, centroids.T).numpy())


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """What the comparison with near lists found about entries.

    :param unknown: The nearest unknown entry by codes; -1 if no other entry of the store is unknown.
    :param known: Number of known entries that are nearer by codes.
    :param cap_distance: A distance within which there are at least ``max_margin`` known entries, or infinity.
    """

    unknown: NDArray[np.int64]
    known: NDArray[np.int64]
    cap_distance: NDArray[np.float64]

    @classmethod
    def empty(cls, entries: int) -> ProbeResult:
        """Return the state before any comparison."""
        return cls(np.full(entries, -1), np.zeros(entries, np.int64), np.full(entries, np.inf))

    def add(self, entries: NDArray[np.int64], part: ProbeResult) -> None:
        """Write the result for some entries."""
        self.unknown[entries], self.known[entries] = part.unknown, part.known
        self.cap_distance[entries] = part.cap_distance

    def margin(self, max_margin: int) -> NDArray[np.uint16]:
        """Return the approximate margins."""
        return np.minimum(self.known, max_margin).astype(np.uint16)

    def unknown_distance(self, entries: Entries, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the distance of the unknown entry that was found for these entries; infinity for all others."""
        distances, ids = np.full(len(self.unknown), np.inf), ids[self.unknown[ids] >= 0]
        distances[ids] = PairDistances(entries.keys, entries.keys).exact(ids, self.unknown[ids])
        return distances


@dataclass(frozen=True, eq=False)
class _Block:
    """Consecutive positions.

    :param start: The first position.
    :param probes: The rows of the block that are compared with each list.
    """

    start: int
    probes: list[NDArray[np.int64]]

    def only(self, rows: NDArray[np.int64]) -> _Block:
        """Return the same block with some of its rows."""
        chosen = np.zeros(BLOCK, np.bool_)
        chosen[rows] = True
        return _Block(self.start, [probed[chosen[probed]] for probed in self.probes])


class ListProbe:
    """Compares each entry with the members of the lists nearest to it.

    Entries are ordered by list, the unknown members of a list first. A *position* is a row in this order.

    :param nprobe: Number of lists that an entry is compared with; one more if it finds no unknown neighbor in these.
    :param cap: Find the cap distances for this ``max_margin``.
    """

    unit: ClassVar[str] = "entries"

    def __init__(
        self, entries: Entries, lists: InvertedLists, screening: Screening, nprobe: int, cap: int | None = None
    ) -> None:
        self._keys, self._components = entries.keys, screening.projections.components
        self._distances = PairDistances(entries.keys, entries.keys)
        self._lists, self._nprobe, self._cap = lists, nprobe, cap
        known = entries.known
        self._known = int(np.count_nonzero(known))
        self._order = np.lexsort((known, lists.list_of))
        self._unknown = np.bincount(lists.list_of[~known], minlength=len(lists))
        sizes = np.bincount(lists.list_of, minlength=len(lists))
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        self._coder = screening.coders[-1]
        self._codes = self._coder.scored(screening.codes(len(screening.coders) - 1), self._order)
        self.sizes: Sequence[int] = [min(BLOCK, len(known) - start) for start in range(0, len(known), BLOCK)]

    def run(self, number: int) -> tuple[NDArray[np.int64], ProbeResult]:
        """Compare the entries of one block."""
        entries = self._order[number * BLOCK : (number + 1) * BLOCK]
        block = _Block(number * BLOCK, self._probes(entries))
        best, nearest = np.full(len(entries), _MIN_SCORE, np.int64), np.full(len(entries), -1)
        for rows, first, scores in self._scores(block, known=False):
            column = scores.argmax(axis=1)
            score = scores[np.arange(len(rows)), column].astype(np.int64)
            better = np.flatnonzero(score > best[rows])
            best[rows[better]], nearest[rows[better]] = score[better], first + column[better]
        nearer = np.zeros(len(entries), np.int64)
        for rows, _, scores in self._scores(block, known=True):
            above = scores > best[rows, None].astype(scores.dtype)
            nearer[rows] += above.view(np.int8).sum(axis=1, dtype=np.int32)
        alone = nearest < 0  # without another unknown entry, all known ones are nearer
        nearer[alone] = self._known
        result = ProbeResult(np.where(alone, -1, self._order[nearest]), nearer, np.full(len(entries), np.inf))
        if self._cap is not None:
            full = np.flatnonzero((nearer >= self._cap) & ~alone)
            result.cap_distance[full] = self._cap_distances(block, full, self._cap)
        return entries, result

    def _probes(self, entries: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the rows of a block that are compared with each list."""
        pairs = [np.empty((2, 0), np.int64)]
        for start in range(0, len(entries), _KEYS_AT_ONCE):
            ids = torch.from_numpy(entries[start : start + _KEYS_AT_ONCE])
            probed = self._probed(self._lists.nearness(self._components[ids]))
            row, number = np.divmod(np.flatnonzero(probed), len(self._lists))
            pairs.append(np.stack([number, row + start]))
        number, row = np.concatenate(pairs, axis=1)
        ends = np.cumsum(np.bincount(number, minlength=len(self._lists)))
        return np.split(row[np.argsort(number, kind="stable")], ends[:-1])

    def _probed(self, nearness: NDArray[np.float32]) -> NDArray[np.bool_]:  # (rows, lists)
        last = nearness.shape[1] - self._nprobe
        if last <= 0:
            return np.ones(nearness.shape, np.bool_)
        probed: NDArray[np.bool_] = nearness >= np.partition(nearness, last, axis=1)[:, last, None]
        # In a list with two unknown members, one of them is another entry.
        enough = np.flatnonzero(self._unknown > 1)
        if len(enough):
            without = np.flatnonzero(~probed[:, enough].any(axis=1))
            probed[without, enough[nearness[without][:, enough].argmax(axis=1)]] = True
        else:
            probed[:, self._unknown > 0] = True
        return probed

    def _scores(self, block: _Block, *, known: bool) -> Iterator[tuple[NDArray[np.int64], int, NDArray[Any]]]:
        """Compare the rows of a block with the known or the unknown members of lists.

        Yields rows, the position of the first member, and the scores of the rows with all members of a list: the
        larger, the nearer. # (rows, members)
        """
        left_side = self._coder.scoring(self._codes[block.start : block.start + BLOCK]).numpy()
        for number, probed in enumerate(block.probes):
            middle = int(self._starts[number] + self._unknown[number])
            first, end = (middle, int(self._ends[number])) if known else (int(self._starts[number]), middle)
            if first == end:
                continue
            step = max(1, min(_KEYS_AT_ONCE, MAX_SCORES_AT_ONCE // (end - first)))
            for start in range(0, len(probed), step):
                rows = probed[start : start + step]
                scores = product(torch.from_numpy(left_side.take(rows, axis=0)), self._codes[first:end])
                own = rows + (block.start - first)
                here = np.flatnonzero((own >= 0) & (own < end - first))
                scores[here, own[here]] = _MIN_SCORE  # leaves the entry itself out
                yield rows, first, scores

    def _cap_distances(self, block: _Block, full: NDArray[np.int64], cap: int) -> NDArray[np.float64]:
        """Return a distance within which each of these rows has ``cap`` known entries: the nearest ones by codes."""
        compared = np.zeros(BLOCK, np.int64)  # known entries that each row is compared with
        for rows, members in zip(block.probes, self._ends - self._starts - self._unknown, strict=True):
            compared[rows] += members
        distances, width = np.empty(len(full)), int(compared[full].max(initial=1))
        step = max(1, MAX_SCORES_AT_ONCE // width)
        for start in range(0, len(full), step):
            rows = full[start : start + step]
            others = self._nearest_known(block, rows, cap, width)
            vectors = self._keys.gather(self._order[block.start + rows]).astype(np.float32)
            fast = self._distances.fast(vectors, np.repeat(np.arange(len(rows)), cap), others.ravel())
            distances[start : start + step] = fast.reshape(-1, cap).max(axis=1)
        return distances * (1 + 2 * self._distances.relative_error)

    def _nearest_known(
        self, block: _Block, chosen: NDArray[np.int64], count: int, width: int
    ) -> NDArray[np.int64]:  # (chosen, count)
        """Return the nearest known entries by codes of some rows.

        :param width: The largest number of known entries that one of the rows is compared with.
        """
        row_of, used = np.full(BLOCK, -1), np.zeros(len(chosen), np.int64)
        row_of[chosen] = np.arange(len(chosen))
        shape = len(chosen), width
        values, positions = np.full(shape, _MIN_SCORE, np.int32), np.zeros(shape, np.int32)
        for rows, first, scores in self._scores(block.only(chosen), known=True):
            row, members = row_of[rows], np.arange(scores.shape[1])
            column = used[row, None] + members
            values[row[:, None], column], positions[row[:, None], column] = scores, first + members
            used[row] += len(members)
        best = np.argpartition(values, -count, axis=1)[:, -count:]
        return np.asarray(self._order[np.take_along_axis(positions, best, axis=1)])
