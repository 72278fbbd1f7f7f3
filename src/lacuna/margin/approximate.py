"""Approximate margins: each IVF list of keys is compared with the nearest lists only.

A margin is right if the nearest unknown entry and all known entries before it are in these lists. The exact method
starts from the same comparison: the nearest unknown entry found so far bounds the distance of the true one. Comparing
all lists gives exact margins. Each list is one task; tasks do not depend on each other. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.distances import CenteredVectors, PairDistances, Vectors, product_error
from lacuna.index.faiss import find_centroids
from lacuna.progress import SILENT, Progress

_ITERATIONS = 4
_TRAINING_PER_LIST = 40
# Leading principal components for k-means: enough to find near keys, and several times as fast as whole keys.
_WIDTH = 64
_KEYS_AT_ONCE = 1024  # keys that stay in the cache of a core

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

    def nearest(self, number: int) -> NDArray[np.int64]:
        """Return all lists by the distance of their centroids, the list itself first."""
        distances = ((self.centroids - self.centroids[number]) ** 2).sum(axis=1)
        distances[number] = -1
        return np.argsort(distances, kind="stable")


def make_lists(
    keys: CenteredVectors, rows: int, rotation: torch.Tensor, count: int, seed: int, progress: Progress = SILENT
) -> KeyLists:
    """Cluster keys by k-means on a sample.

    :param rows: Number of keys.
    :param rotation: Principal components. # (dimension, components)
    :param count: Number of lists, at most ``rows``.
    """
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.choice(rows, size=min(rows, count * _TRAINING_PER_LIST), replace=False)).astype(np.int64)
    leading = rotation[:, :_WIDTH].contiguous()
    progress.start("clustering keys", rows + len(drawn), "keys")
    sample = torch.cat([keys.gather(some) @ leading for some in _pieces(drawn)])
    centroids = find_centroids(sample.numpy(), count, seed=seed, iterations=_ITERATIONS)
    progress.advance(len(drawn))
    list_of = np.empty(rows, dtype=np.int32)
    columns, half_squares = torch.from_numpy(centroids.T.copy()), torch.from_numpy((centroids**2).sum(axis=1) / 2)
    for ids in _pieces(np.arange(rows)):
        scores = torch.mm(keys.gather(ids) @ leading, columns).sub_(half_squares)
        list_of[ids] = scores.numpy().argmax(axis=1)  # ten times as fast as torch's
        progress.advance(len(ids))
    progress.finish(f"({count:,} lists)")
    return KeyLists(centroids, list_of)


def _pieces(ids: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return np.split(ids, range(_KEYS_AT_ONCE, len(ids), _KEYS_AT_ONCE))


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
    """Compares each list with the nearest lists.

    :param known: Whether each entry is known.
    :param nprobe: Number of lists to compare with, including the list itself; more if these hold fewer than two
        unknown entries, so that each entry has an unknown neighbor if there is one.
    """

    def __init__(
        self,
        keys: Vectors,
        mean: NDArray[np.float32],
        known: NDArray[np.bool_],
        lists: KeyLists,
        nprobe: int,
        max_margin: int,
    ) -> None:
        self._centered = CenteredVectors(keys, mean)
        self._pairs = PairDistances(keys, keys)
        self._known, self._lists = known, lists
        self._nprobe, self._max_margin = nprobe, max_margin
        self._unknown_in = np.bincount(lists.list_of[~known], minlength=len(lists))

    def run(self, number: int) -> Nearby:
        """Compare the members of one list with the nearest lists; return the result of each member."""
        members = self._lists.members(number)
        near = self._lists.nearest(number)
        enough = int(np.searchsorted(np.cumsum(self._unknown_in[near]), 2)) + 1
        columns = np.concatenate([self._lists.members(other) for other in near[: max(self._nprobe, enough)]])
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
