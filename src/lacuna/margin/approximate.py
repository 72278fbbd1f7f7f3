"""Approximate margins: the keys of near IVF lists are compared with those of the lists around them.

A margin is right if the nearest unknown entry and all known entries before it are in these lists. The exact method
starts from the same comparison: the nearest unknown entry found so far bounds the distance of the true one. Comparing
all lists gives exact margins. A group of near lists is one task; tasks do not depend on each other. Knows nothing of
files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.distances import CenteredVectors, PairDistances, Vectors, product_error
from lacuna.progress import SILENT, Progress
from lacuna.workers import WorkerPool

_ITERATIONS = 4
_TRAINING_PER_LIST = 40
# Leading principal components for k-means: enough to find near keys, and several times as fast as whole keys.
_WIDTH = 64
_KEYS_AT_ONCE = 1024  # keys that stay in the cache of a core
LISTS_TOGETHER = 8  # in a group, on average
_SEED = 1  # of the groups

_ROWS_AT_ONCE = 1024
_COLUMNS_AT_ONCE = 8192

# Ids of the columns, distances of the rows to them, and a bound on the error of each row's distances.
_Distances = tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float64]]


@dataclass(frozen=True)
class KeyLists:
    """The IVF lists of a store's keys.

    :param centroids: Centroids of the lists, in principal components. # (lists, components)
    :param list_of: The list of each key. # (keys,)
    """

    centroids: NDArray[np.float32]
    list_of: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.centroids)

    @cached_property
    def _members(self) -> list[NDArray[np.int64]]:
        ends = np.cumsum(np.bincount(self.list_of, minlength=len(self)))
        return np.split(np.argsort(self.list_of, kind="stable"), ends[:-1])

    def members(self, number: int) -> NDArray[np.int64]:
        """Return the keys of a list, in order."""
        return self._members[number]


def make_lists(
    keys: CenteredVectors, rows: int, rotation: torch.Tensor, count: int, seed: int, progress: Progress = SILENT
) -> KeyLists:
    """Cluster keys by k-means on a sample.

    :param rows: Number of keys.
    :param rotation: Principal components. # (dimension, dimension)
    :param count: Number of lists, at most ``rows``.
    """
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.choice(rows, size=min(rows, count * _TRAINING_PER_LIST), replace=False)).astype(np.int64)
    leading = rotation[:, :_WIDTH].float()

    def project(ids: NDArray[np.int64]) -> torch.Tensor:
        return keys.gather(ids) @ leading

    progress.start("clustering keys", rows + len(drawn), "keys")
    centroids = find_centroids(torch.cat(list(WorkerPool.of_process().map(project, _pieces(drawn)))), count, rng)
    progress.advance(len(drawn))
    list_of = np.empty(rows, dtype=np.int32)
    pieces = _pieces(np.arange(rows))
    for ids, found in zip(
        pieces, WorkerPool.of_process().map(lambda ids: _nearest(project(ids), centroids), pieces), strict=True
    ):
        list_of[ids] = found
        progress.advance(len(ids))
    progress.finish(f"({count:,} lists)")
    return KeyLists(centroids.numpy(), list_of)


def find_centroids(vectors: torch.Tensor, count: int, rng: np.random.Generator) -> torch.Tensor:
    """Cluster vectors by k-means; the result does not depend on the number of threads.

    :param count: At most the number of vectors.
    """
    centroids = vectors[np.sort(rng.choice(len(vectors), size=count, replace=False))]
    for _ in range(_ITERATIONS):
        assign = partial(_nearest, centroids=centroids)
        home = torch.from_numpy(
            np.concatenate(list(WorkerPool.of_process().map(assign, torch.split(vectors, _KEYS_AT_ONCE))))
        )
        sums = torch.zeros_like(centroids).index_add_(0, home, vectors)
        sizes = torch.bincount(home, minlength=count).unsqueeze(1)
        centroids = torch.where(sizes > 0, sums / sizes, centroids)  # a centroid without vectors stays
    return centroids


def _nearest(vectors: torch.Tensor, centroids: torch.Tensor) -> NDArray[np.int64]:
    scores = torch.addmm(centroids.square().sum(1) / -2, vectors, centroids.T)
    return np.asarray(scores.numpy().argmax(axis=1))  # ten times as fast as torch's


def _pieces(ids: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return np.split(ids, range(_KEYS_AT_ONCE, len(ids), _KEYS_AT_ONCE))


class NearLists:
    """Groups of near lists, and the lists that each group is compared with.

    Keys are gathered once for a group, and its lists have many near lists in common.

    :param known: Whether each key is known.
    :param nprobe: Number of lists that each list is compared with at least, including itself; more if these hold fewer
        than two unknown entries, so that each entry has an unknown neighbor if there is one.
    """

    def __init__(self, lists: KeyLists, known: NDArray[np.bool_], nprobe: int) -> None:
        self.lists = lists
        centroids, count = torch.from_numpy(lists.centroids), len(lists)
        centers = find_centroids(centroids, -(-count // LISTS_TOGETHER), np.random.default_rng(_SEED))
        home = _nearest(centroids, centers)
        self.groups = [group for number in range(len(centers)) if len(group := np.flatnonzero(home == number))]
        self._group_of = np.empty(count, np.int64)
        self._compared = np.zeros((len(self.groups), count), np.bool_)
        unknown = np.bincount(lists.list_of[~known], minlength=count)
        for number, group in enumerate(self.groups):
            self._group_of[group] = number
            distances = torch.cdist(centroids[group], centroids).numpy()
            if nprobe < count:
                around = np.argpartition(distances, nprobe - 1, axis=1)[:, :nprobe]
                self._compared[number, around.ravel()] = True
            self._compared[number, group] = True
            if nprobe >= count:
                self._compared[number] = True
            order = np.argsort(np.where(self._compared[number], -1, distances.min(axis=0)), kind="stable")
            enough = int(np.searchsorted(np.cumsum(unknown[order]), 2)) + 1
            self._compared[number, order[:enough]] = True

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def all_compared(self) -> bool:
        """Whether each list is compared with all others."""
        return bool(self._compared.all())

    def members(self, number: int) -> NDArray[np.int64]:
        """Return the keys of a group."""
        return np.concatenate([self.lists.members(one) for one in self.groups[number].tolist()])

    def others(self, number: int) -> NDArray[np.int64]:
        """Return the keys that the group is compared with, without its own."""
        around = np.setdiff1d(np.flatnonzero(self._compared[number]), self.groups[number])
        return np.concatenate([np.empty(0, np.int64), *(self.lists.members(one) for one in around.tolist())])

    def compared(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether the left key of each pair is compared with the right one."""
        list_of = self.lists.list_of
        result: NDArray[np.bool_] = self._compared[self._group_of[list_of[left]], list_of[right]]
        return result


@dataclass(frozen=True, eq=False)
class Nearby:
    """What the comparison with near lists found about entries.

    :param unknown_distance: Distance to the nearest unknown entry.
    :param known_nearer: Number of known entries nearer than that.
    :param cap_distance: A distance within which there are at least ``max_margin`` known entries, or infinity.
    """

    unknown_distance: NDArray[np.float64]
    known_nearer: NDArray[np.int64]
    cap_distance: NDArray[np.float64]

    @classmethod
    def empty(cls, entries: int) -> Nearby:
        """Return the state before any comparison."""
        return cls(np.full(entries, np.inf), np.zeros(entries, np.int64), np.full(entries, np.inf))

    def put(self, entries: NDArray[np.int64] | slice, part: Nearby) -> None:
        """Write the result for some entries."""
        self.unknown_distance[entries] = part.unknown_distance
        self.known_nearer[entries] = part.known_nearer
        self.cap_distance[entries] = part.cap_distance

    def margin(self, max_margin: int) -> NDArray[np.uint16]:
        """Return the approximate margins."""
        return np.minimum(self.known_nearer, max_margin).astype(np.uint16)


class ListComparison:
    """Compares each group of lists with the lists around it.

    :param known: Whether each entry is known.
    """

    def __init__(
        self, keys: Vectors, mean: NDArray[np.float32], known: NDArray[np.bool_], lists: NearLists, max_margin: int
    ) -> None:
        self._centered = CenteredVectors(keys, mean)
        self._pairs = PairDistances(keys, keys)
        self._known, self._lists, self._max_margin = known, lists, max_margin

    def run(self, number: int) -> Nearby:
        """Compare the members of one group; return the result of each member."""
        members = self._lists.members(number)
        columns = np.concatenate([members, self._lists.others(number)])
        known = self._known[columns]
        own = known[: len(members)]
        # Members are the first columns: this is the position of each among the known or among the unknown columns.
        position = np.where(own, np.cumsum(own), np.cumsum(~own)) - 1
        result = Nearby.empty(len(members))
        for start in range(0, len(members), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            rows, keys = members[part], self._centered.gather(members[part])
            unknown = self._distances(keys, columns[~known], np.where(own, -1, position)[part])
            radius = self._nearest_unknown(rows, unknown)
            counted = self._distances(keys, columns[known], np.where(own, position, -1)[part])
            result.put(part, self._count_known(rows, radius, counted))
        return result

    def _nearest_unknown(self, rows: NDArray[np.int64], blocks: Iterator[_Distances]) -> NDArray[np.float64]:
        nearest = np.full(len(rows), np.inf)
        best = np.full(len(rows), np.inf, np.float32)
        for columns, distances, error in blocks:
            best = np.minimum(best, distances.min(axis=1))
            row, column = _where(distances <= (best + 2 * error).astype(np.float32)[:, None])
            others = np.isfinite(distances[row, column])
            row, column = row[others], column[others]
            np.minimum.at(nearest, row, self._pairs.exact(rows[row], columns[column]))
        return nearest

    def _count_known(
        self, rows: NDArray[np.int64], radius: NDArray[np.float64], blocks: Iterator[_Distances]
    ) -> Nearby:
        nearer, cap = np.zeros(len(rows), np.int64), np.full(len(rows), np.inf)
        for number, (columns, distances, error) in enumerate(blocks):
            low, high = (radius - error).astype(np.float32), (radius + error).astype(np.float32)
            surely, possibly = _count_below(distances, low), _count_below(distances, high)
            nearer += surely
            doubtful = np.flatnonzero(possibly > surely)
            some = distances[doubtful]
            row, column = _where((some >= low[doubtful, None]) & (some < high[doubtful, None]))
            row = doubtful[row]
            below = self._pairs.exact(rows[row], columns[column]) < radius[row]
            np.add.at(nearer, row[below], 1)
            if number == 0 and self._max_margin < len(columns):
                full = np.flatnonzero(surely >= self._max_margin)
                last = self._max_margin - 1
                cap[full] = np.partition(distances[full], last, axis=1)[:, last] + error[full]
        return Nearby(radius, nearer, cap)

    def _distances(
        self, keys: torch.Tensor, columns: NDArray[np.int64], own_position: NDArray[np.int64]
    ) -> Iterator[_Distances]:
        """Compute distances by matrix products, block by block; the distance of an entry to itself is infinity."""
        lengths = torch.linalg.vector_norm(keys, dim=1)
        # Extended by two columns, a product is a distance: -2 x.y + |x|^2 . 1 + 1 . |y|^2.
        left = torch.column_stack([keys * -2, lengths.square(), torch.ones_like(lengths)])
        for start in range(0, len(columns), _COLUMNS_AT_ONCE):
            some = columns[start : start + _COLUMNS_AT_ONCE]
            others = self._centered.gather(some)
            squares = others.square().sum(1)
            right = torch.column_stack([others, torch.ones_like(squares), squares])
            distances: NDArray[np.float32] = torch.mm(left, right.T).numpy()
            here = np.flatnonzero((own_position >= start) & (own_position < start + len(some)))
            distances[here, own_position[here] - start] = np.inf
            reach = lengths.double() + squares.max().sqrt().double()
            yield some, distances, product_error(self._centered.dimension) * reach.square().numpy()


def _where(mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of the true elements; much faster than ``np.nonzero`` of a matrix."""
    row, column = np.divmod(np.flatnonzero(mask), mask.shape[1])
    return row, column


def _count_below(distances: NDArray[np.float32], bounds: NDArray[np.float32]) -> NDArray[np.int64]:
    """Count the distances of each row below its bound; summing floats is much faster than summing booleans."""
    ones = torch.empty(distances.shape)
    torch.lt(torch.from_numpy(distances), torch.from_numpy(bounds).unsqueeze(1), out=ones)
    return ones.sum(1).numpy().astype(np.int64)
