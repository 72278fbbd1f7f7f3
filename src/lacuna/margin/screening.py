"""Screening pairs of keys by their first principal components.

A PCA rotation moves most of the variance into the first dimensions. Products of short codes rule out nearly all pairs
that are farther apart than a threshold, and float32 components most of the others. No pair within its threshold is
ruled out. The remaining pairs must be computed from whole vectors. Knows nothing of known and unknown entries.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.distances import CenteredVectors, sum_error
from lacuna.margin.codes import ROWS_AT_ONCE, Codes, costs, make_coders, passing
from lacuna.workers import WorkerPool, one_thread

_KEPT = 128  # components that are kept in float32
_TRAINING_ROWS, _CODER_ROWS = 20_000, 8192
_PAIRS_AT_ONCE = 1024  # pairs of projections that stay in the cache of a core
_ROWS_TRIED, _COLUMNS_TRIED = 64, 2048
_KEYS_AT_ONCE = 4096
_STRETCH = 1 + 1e-5  # computed directions are not exactly orthonormal; their error is far smaller
_SEED = 1  # of what affects the speed only


@one_thread()
def find_rotation(keys: CenteredVectors, rows: int, rng: np.random.Generator) -> torch.Tensor:  # (dimension, dimension)
    """Return all principal components of a sample of the keys in float64, one in each column."""
    sample = _draw(keys, rows, _TRAINING_ROWS, rng)
    vectors: torch.Tensor = torch.linalg.eigh((sample.T @ sample).double()).eigenvectors
    return vectors.flip(1).contiguous()


def _draw(keys: CenteredVectors, rows: int, count: int, rng: np.random.Generator) -> torch.Tensor:
    return keys.gather(np.sort(rng.choice(rows, size=min(rows, count), replace=False)).astype(np.int64))


def _evenly(count: int, most: int) -> NDArray[np.int64]:
    """Return row numbers, evenly spread, at most ``most``."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


class Projections:
    """The leading components of vectors, in memory, and their lengths.

    :param rows: Number of vectors.
    """

    def __init__(self, vectors: CenteredVectors, rows: int, rotation: torch.Tensor) -> None:
        self._dimension = vectors.dimension
        directions = rotation[:, :_KEPT].float()
        self.components = torch.empty(rows, directions.shape[1])
        self.lengths = torch.empty(rows)

        def project(start: int) -> tuple[slice, torch.Tensor, torch.Tensor]:
            part = slice(start, min(rows, start + ROWS_AT_ONCE))
            some = vectors.gather(np.arange(part.start, part.stop))
            return part, some @ directions, torch.linalg.vector_norm(some, dim=1)

        for part, components, lengths in WorkerPool.of_process().map(project, range(0, rows, ROWS_AT_ONCE)):
            self.components[part], self.lengths[part] = components, lengths
        self.longest = float(self.lengths.max()) if rows else 0.0

    def radius(self, ids: NDArray[np.int64], thresholds: NDArray[np.float64], longest: float) -> NDArray[np.float64]:
        """Return the largest squared distance of components whose vectors may be within the threshold."""
        width = self.components.shape[1]
        # A component is a float32 sum of `dimension` products.
        blur = width**0.5 * sum_error(self._dimension) * (self.lengths[ids].double().numpy() + longest)
        return np.asarray((np.sqrt(thresholds) * _STRETCH + blur) ** 2 * (1 + sum_error(width)))

    def distances(self, ids: NDArray[np.int64], other: Projections, others: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return squared distances of components, pair by pair."""
        distances = np.empty(len(ids), np.float32)
        for start in range(0, len(ids), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            difference = self.components.numpy().take(ids[part], axis=0)
            difference -= other.components.numpy().take(others[part], axis=0)
            np.einsum("pd,pd->p", difference, difference, out=distances[part])
        return distances


class Screening:
    """The components of all keys, and their codes of different widths.

    :param rows: Number of keys.
    :param rotation: Principal components. # (dimension, dimension)
    """

    def __init__(self, keys: CenteredVectors, rows: int, rotation: torch.Tensor) -> None:
        self._keys, self._rows = keys, rows
        rng = np.random.default_rng(_SEED)
        self.projections = Projections(keys, rows, rotation)
        drawn = _draw(keys, rows, _CODER_ROWS, rng)
        self.coders = make_coders(rotation, drawn, rng)
        self._codes: dict[int, Codes] = {}
        # Some keys, and the right sides of products with them by some of the coders.
        self._tried, self._tried_codes = drawn[_evenly(len(drawn), _COLUMNS_TRIED)], dict[int, torch.Tensor]()

    def codes(self, level: int) -> Codes:
        """Return the codes of all keys by one of the coders."""
        if level not in self._codes:
            self._codes[level] = self.coders[level].encode_all(self._keys, self._rows)
        return self._codes[level]

    def near(
        self, components: torch.Tensor, among: NDArray[np.int64], own: NDArray[np.int64] | None = None
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the key with the nearest components to each row, for one piece of some keys after the other.

        :param components: The leading components of the rows.
        :param among: The keys to choose from, in order.
        :param own: A key of each row that is left out, unless it is the only one of a piece.
        """
        for start in range(0, len(among), _KEYS_AT_ONCE):
            keys = among[start : start + _KEYS_AT_ONCE]
            right = self.projections.components[torch.from_numpy(keys)]
            scores = torch.addmm(right.square().sum(1) / -2, components, right.T)
            if own is not None:
                place = np.searchsorted(keys, own).clip(max=len(keys) - 1)
                rows = np.flatnonzero(keys[place] == own)
                scores[torch.from_numpy(rows), torch.from_numpy(place[rows])] = -torch.inf
            yield keys[scores.argmax(1).numpy()]

    @one_thread()
    def best_level(
        self,
        ids: NDArray[np.int64],
        thresholds: NDArray[np.float64],
        uses: int,
        vectors: CenteredVectors | None = None,
    ) -> int:
        """Choose the coder with the lowest cost on a sample: wider codes rule out more pairs.

        :param ids: Rows of the left side.
        :param thresholds: Squared distances.
        :param uses: Number of rows that share the cost of new codes of all keys.
        :param vectors: The vectors of the left side; by default the keys.
        """
        tried = _evenly(len(ids), _ROWS_TRIED)
        rows, longest = (vectors or self._keys).gather(ids[tried]), self.projections.longest
        cheapest, best = np.inf, 0
        for level, coder in enumerate(self.coders):
            product = costs().pair + costs().product * coder.columns
            if level not in self._codes:
                product += (costs().reading + costs().encoding * coder.width) * self._keys.dimension / uses
            if product >= cheapest:
                continue
            if level not in self._tried_codes:
                self._tried_codes[level] = coder.encode(self._tried).right
            left, right = coder.left_side(coder.encode(rows), thresholds[tried], longest), self._tried_codes[level]
            share = len(passing(left, right)[0]) / (len(left) * len(right))
            cost = product + costs().passing * share
            if cost < cheapest:
                cheapest, best = cost, level
        return best
