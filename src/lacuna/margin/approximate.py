"""Approximate margins: every entry is compared with the IVF lists nearest to it, by int8 codes.

A margin is right if the nearest unknown entry and all known entries before it are in these lists, and if rounding to
codes does not change their order. The exact method starts from the same comparison: the distance of the unknown entry
found here bounds that of the nearest one. A block of entries is one task; tasks do not depend on each other. Knows
nothing of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.distances import CenteredVectors, PairDistances, Vectors
from lacuna.index.faiss import find_centroids
from lacuna.margin.codes import product
from lacuna.margin.screening import Screening
from lacuna.progress import SILENT, Progress
from lacuna.workers import WorkerPool, one_thread

BLOCK = 1 << 15  # entries in a block: hundreds of them are compared with the same list
SCORES_AT_ONCE = 1 << 23  # bounds the memory, also if one list has most of the keys

_ITERATIONS = 4
_TRAINING_PER_LIST = 40
# Leading principal components for k-means: enough to find near keys, and several times as fast as whole keys.
_WIDTH = 64
_KEYS_AT_ONCE = 1024  # keys that stay in the cache of a core
_LOWEST = -(1 << 31)  # less than all scores

# Rows of a block, the position of the first member of a list, and the scores of the rows with its members: the larger,
# the nearer. # (rows, members)
_Scores = tuple[NDArray[np.int64], int, NDArray[Any]]


@dataclass(frozen=True)
class KeyLists:
    """The IVF lists of a store's keys.

    :param directions: The principal components that keys are clustered by. # (dimension, components)
    :param centroids: Centroids of the lists, in these components. # (lists, components)
    :param list_of: The list of each key. # (keys,)
    """

    directions: NDArray[np.float32]
    centroids: NDArray[np.float32]
    list_of: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.centroids)

    def nearness(self, vectors: torch.Tensor) -> NDArray[np.float32]:  # (vectors, lists)
        """Return a number that is the larger, the nearer a list is to a vector."""
        centroids = torch.from_numpy(self.centroids)
        projected = vectors @ torch.from_numpy(self.directions)
        # As an array: its argmax is ten times as fast as that of a tensor.
        return np.asarray(torch.addmm(centroids.square().sum(1) / -2, projected, centroids.T).numpy())


def make_lists(
    keys: CenteredVectors, rows: int, rotation: torch.Tensor, count: int, seed: int, progress: Progress = SILENT
) -> KeyLists:
    """Cluster keys by k-means on a sample; the result does not depend on the number of threads.

    :param rows: Number of keys.
    :param rotation: Principal components. # (dimension, dimension)
    :param count: Number of lists, at most ``rows``.
    """
    rng, pool = np.random.default_rng(seed), WorkerPool.of_process()
    drawn = np.sort(rng.choice(rows, size=min(rows, count * _TRAINING_PER_LIST), replace=False)).astype(np.int64)
    directions = rotation[:, :_WIDTH].float()
    progress.start("clustering keys", rows + len(drawn), "keys")
    sample = torch.cat(list(pool.map(lambda ids: keys.gather(ids) @ directions, _pieces(drawn)))).numpy()
    with one_thread():
        centroids = find_centroids(sample, count, seed=seed, iterations=_ITERATIONS)
    progress.advance(len(drawn))
    lists = KeyLists(directions.numpy(), centroids, np.empty(rows, np.int32))
    pieces = _pieces(np.arange(rows))
    homes = pool.map(lambda ids: lists.nearness(keys.gather(ids)).argmax(axis=1), pieces)
    for ids, home in zip(pieces, homes, strict=True):
        lists.list_of[ids] = home
        progress.advance(len(ids))
    progress.finish(f"({count:,} lists)")
    return lists


def _pieces(ids: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return np.split(ids, range(_KEYS_AT_ONCE, len(ids), _KEYS_AT_ONCE))


@dataclass(frozen=True, eq=False)
class Nearby:
    """What the comparison with near lists found about entries.

    :param unknown: The nearest unknown entry by codes; -1 if no other entry of the store is unknown.
    :param known_nearer: Number of known entries that are nearer by codes.
    :param cap_distance: A distance within which there are at least ``max_margin`` known entries, or infinity.
    """

    unknown: NDArray[np.int64]
    known_nearer: NDArray[np.int64]
    cap_distance: NDArray[np.float64]

    @classmethod
    def empty(cls, entries: int) -> Nearby:
        """Return the state before any comparison."""
        return cls(np.full(entries, -1), np.zeros(entries, np.int64), np.full(entries, np.inf))

    def put(self, entries: NDArray[np.int64], part: Nearby) -> None:
        """Write the result for some entries."""
        self.unknown[entries] = part.unknown
        self.known_nearer[entries] = part.known_nearer
        self.cap_distance[entries] = part.cap_distance

    def margin(self, max_margin: int) -> NDArray[np.uint16]:
        """Return the approximate margins."""
        return np.minimum(self.known_nearer, max_margin).astype(np.uint16)


class ListComparison:
    """Compares each entry with the members of the lists nearest to it.

    Entries are ordered by list, the unknown members of a list first. A *position* is a place in this order.

    :param known: Whether each entry is known.
    :param nprobe: Number of lists that an entry is compared with; one more if it finds no unknown neighbor in these.
    :param cap: Find the cap distances for this ``max_margin``.
    """

    def __init__(
        self,
        keys: Vectors,
        mean: NDArray[np.float32],
        known: NDArray[np.bool_],
        lists: KeyLists,
        screening: Screening,
        nprobe: int,
        cap: int | None = None,
    ) -> None:
        self._keys, self._centered, self._pairs = keys, CenteredVectors(keys, mean), PairDistances(keys, keys)
        self._lists, self._nprobe, self._cap = lists, nprobe, cap
        self._known = int(np.count_nonzero(known))
        self._order = np.lexsort((known, lists.list_of))
        self._unknown = np.bincount(lists.list_of[~known], minlength=len(lists))
        sizes = np.bincount(lists.list_of, minlength=len(lists))
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        self._coder = screening.coders[-1]
        self._codes = self._coder.scored(screening.codes(len(screening.coders) - 1), self._order)

    def __len__(self) -> int:
        return -(-len(self._order) // BLOCK)

    def entries(self, number: int) -> NDArray[np.int64]:
        """Return the entries of a block."""
        return self._order[number * BLOCK : (number + 1) * BLOCK]

    def run(self, number: int) -> Nearby:
        """Compare the entries of one block; return the result of each."""
        entries, start = self.entries(number), number * BLOCK
        probes = self._probes(entries)
        best, nearest = np.full(len(entries), _LOWEST, np.int64), np.full(len(entries), -1)
        for rows, first, scores in self._scores(start, probes, known=False):
            column = scores.argmax(axis=1)
            score = scores[np.arange(len(rows)), column].astype(np.int64)
            better = np.flatnonzero(score > best[rows])
            best[rows[better]], nearest[rows[better]] = score[better], first + column[better]
        nearer = np.zeros(len(entries), np.int64)
        for rows, _, scores in self._scores(start, probes, known=True):
            above = scores > best[rows, None].astype(scores.dtype)
            nearer[rows] += above.view(np.int8).sum(axis=1, dtype=np.int32)
        alone = nearest < 0  # without another unknown entry, all known ones are nearer
        nearer[alone] = self._known
        result = Nearby(np.where(alone, -1, self._order[nearest]), nearer, np.full(len(entries), np.inf))
        if self._cap is not None:
            full = np.flatnonzero((nearer >= self._cap) & ~alone)
            result.cap_distance[full] = self._cap_distances(start, full, probes, self._cap)
        return result

    def _probes(self, entries: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the rows of a block that are compared with each list."""
        found = [np.empty((2, 0), np.int64)]
        for start in range(0, len(entries), _KEYS_AT_ONCE):
            probed = self._probed(self._lists.nearness(self._centered.gather(entries[start : start + _KEYS_AT_ONCE])))
            row, number = np.divmod(np.flatnonzero(probed), len(self._lists))
            found.append(np.stack([number, row + start]))
        number, row = np.concatenate(found, axis=1)
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

    def _scores(self, start: int, probes: list[NDArray[np.int64]], *, known: bool) -> Iterator[_Scores]:
        """Compare the rows of a block with the known or the unknown members of lists.

        :param start: The position of the first row.
        :param probes: The rows that are compared with each list.
        """
        left = self._coder.scoring(self._codes[start : start + BLOCK]).numpy()
        for number, asking in enumerate(probes):
            end = int(self._ends[number])
            middle = int(self._starts[number] + self._unknown[number])
            first, end = (middle, end) if known else (int(self._starts[number]), middle)
            if first == end:
                continue
            step = max(1, min(_KEYS_AT_ONCE, SCORES_AT_ONCE // (end - first)))
            for piece in range(0, len(asking), step):
                rows = asking[piece : piece + step]
                scores = product(torch.from_numpy(left.take(rows, axis=0)), self._codes[first:end])
                own = rows + (start - first)
                here = np.flatnonzero((own >= 0) & (own < end - first))
                scores[here, own[here]] = _LOWEST  # leaves the entry itself out
                yield rows, first, scores

    def _cap_distances(
        self, start: int, full: NDArray[np.int64], probes: list[NDArray[np.int64]], cap: int
    ) -> NDArray[np.float64]:
        """Return a distance within which each of some rows has ``cap`` known entries: the nearest ones by codes."""
        compared = np.zeros(BLOCK, np.int64)
        for rows, members in zip(probes, self._ends - self._starts - self._unknown, strict=True):
            compared[rows] += members
        distances, width = np.empty(len(full)), int(compared[full].max(initial=1))
        step = max(1, SCORES_AT_ONCE // width)
        for piece in range(0, len(full), step):
            some = full[piece : piece + step]
            others = self._nearest_known(start, some, probes, cap, width)
            vectors = self._keys.gather(self._order[start + some]).astype(np.float32)
            found = self._pairs.fast_from(vectors, np.repeat(np.arange(len(some)), cap), others.ravel())
            distances[piece : piece + step] = found.reshape(-1, cap).max(axis=1)
        return distances * (1 + 2 * self._pairs.relative_error)

    def _nearest_known(
        self, start: int, some: NDArray[np.int64], probes: list[NDArray[np.int64]], count: int, width: int
    ) -> NDArray[np.int64]:  # (rows, count)
        """Return the nearest known entries of some rows by codes.

        :param width: The largest number of known entries that one of the rows is compared with.
        """
        place, used = np.full(BLOCK, -1), np.zeros(len(some), np.int64)
        place[some] = np.arange(len(some))
        values, positions = np.full((len(some), width), _LOWEST, np.int32), np.zeros((len(some), width), np.int32)
        for rows, first, scores in self._scores(start, [rows[place[rows] >= 0] for rows in probes], known=True):
            at, members = place[rows], np.arange(scores.shape[1])
            column = used[at, None] + members
            values[at[:, None], column], positions[at[:, None], column] = scores, first + members
            used[at] += len(members)
        chosen = np.argpartition(values, -count, axis=1)[:, -count:]
        return np.asarray(self._order[np.take_along_axis(positions, chosen, axis=1)])
