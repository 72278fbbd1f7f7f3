"""Screening pairs of keys by their first principal components.

A PCA rotation moves most of the variance into the first dimensions. Products of short codes rule out nearly all pairs
that are farther apart than a radius, and float32 components most of the others. No pair within its radius is ruled out.
The remaining pairs must be computed from whole vectors. Knows nothing of stores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.distances import CenteredVectors, PairDistances, Vectors, sum_error
from lacuna.margin.codes import (
    ENCODING_COST,
    PASSING_COST,
    READING_COST,
    ROWS_AT_ONCE,
    Codes,
    make_coders,
    passing,
    product_cost,
)
from lacuna.workers import WorkerPool, one_thread

_COMPONENTS = 128  # that are kept in float32
_PCA_ROWS, _CODER_ROWS = 20_000, 8192  # samples of the keys
_PAIRS_AT_ONCE = 1024  # pairs of projections that stay in the cache of a core
_MAX_ROWS_TRIED, _MAX_COLUMNS_TRIED = 64, 2048
_KEYS_AT_ONCE = 4096
_STRETCH = 1 + 1e-5  # computed directions are not exactly orthonormal; their error is far smaller
_SEED = 1  # of what affects the speed only


class Projections:
    """The leading components of vectors, in memory, and their lengths.

    :param rows: Number of vectors.
    """

    def __init__(self, vectors: CenteredVectors, rows: int, rotation: torch.Tensor) -> None:
        self._dimension = vectors.dimension
        directions = rotation[:, :_COMPONENTS].float()
        self.components = torch.empty(rows, directions.shape[1])
        self.lengths = torch.empty(rows)

        def project(start: int) -> tuple[slice, torch.Tensor, torch.Tensor]:
            part = slice(start, min(rows, start + ROWS_AT_ONCE))
            block = vectors.gather(np.arange(part.start, part.stop))
            return part, block @ directions, torch.linalg.vector_norm(block, dim=1)

        for part, components, lengths in WorkerPool.of_process().map(project, range(0, rows, ROWS_AT_ONCE)):
            self.components[part], self.lengths[part] = components, lengths
        self.max_length = float(self.lengths.max()) if rows else 0.0

    def radius(self, ids: NDArray[np.int64], radius: NDArray[np.float64], max_length: float) -> NDArray[np.float64]:
        """Return the largest squared distance of components whose vectors may be within a radius.

        :param max_length: Length of the longest of the other vectors.
        """
        width = self.components.shape[1]
        # A component is a float32 sum of `dimension` products.
        blur = width**0.5 * sum_error(self._dimension) * (self.lengths[ids].double().numpy() + max_length)
        return np.asarray((np.sqrt(radius) * _STRETCH + blur) ** 2 * (1 + sum_error(width)))

    def distances(self, ids: NDArray[np.int64], other: Projections, others: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return squared distances of components, pair by pair."""
        distances = np.empty(len(ids), np.float32)
        for start in range(0, len(ids), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            difference = self.components.numpy().take(ids[part], axis=0)
            difference -= other.components.numpy().take(others[part], axis=0)
            np.einsum("pd,pd->p", difference, difference, out=distances[part])
        return distances


@dataclass(frozen=True, eq=False)
class CodedVectors:
    """Vectors with what is needed to screen pairs of them."""

    vectors: Vectors
    projections: Projections
    codes: Codes


class Screening:
    """The components of all keys of a store, and their codes of different widths.

    :param rows: Number of keys.
    :param seed: Seed of the sample for PCA.
    :ivar rotation: Principal components of the centered keys in float64, one in each column. # (dimension, dimension)
    """

    def __init__(self, keys: Vectors, mean: NDArray[np.float32], rows: int, seed: int = _SEED) -> None:
        self.keys, self._mean, self._rows = keys, mean, rows
        self.centered = CenteredVectors(keys, mean)
        with one_thread():
            sample = self._draw(_PCA_ROWS, np.random.default_rng(seed))
            vectors: torch.Tensor = torch.linalg.eigh((sample.T @ sample).double()).eigenvectors
            self.rotation = vectors.flip(1).contiguous()
        rng = np.random.default_rng(_SEED)
        self.projections = Projections(self.centered, rows, self.rotation)
        sample = self._draw(_CODER_ROWS, rng)
        self.coders = make_coders(self.rotation, sample, rng)
        self._codes: dict[int, Codes] = {}
        # Keys of a sample, and their codes, on which the cost of each coder is tried.
        self._tried, self._tried_codes = sample[_evenly(len(sample), _MAX_COLUMNS_TRIED)], dict[int, torch.Tensor]()

    def _draw(self, count: int, rng: np.random.Generator) -> torch.Tensor:
        ids = rng.choice(self._rows, size=min(self._rows, count), replace=False)
        return self.centered.gather(np.sort(ids).astype(np.int64))

    def codes(self, level: int) -> Codes:
        """Return the codes of all keys by one of the coders."""
        if level not in self._codes:
            self._codes[level] = self.coders[level].encode_all(self.centered, self._rows)
        return self._codes[level]

    def coded_keys(self, level: int) -> CodedVectors:
        """Return the keys with their codes by one of the coders."""
        return CodedVectors(self.keys, self.projections, self.codes(level))

    def coded(self, vectors: Vectors, rows: int, level: int) -> CodedVectors:
        """Code other vectors in the same way."""
        centered = CenteredVectors(vectors, self._mean)
        projections = Projections(centered, rows, self.rotation)
        return CodedVectors(vectors, projections, self.coders[level].encode_all(centered, rows))

    def near_distances(
        self, vectors: Vectors, ids: NDArray[np.int64], among: NDArray[np.int64], own: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """Bound the distance of vectors to the nearest of some keys, by those with the nearest components.

        :param ids: Rows of the vectors.
        :param among: Rows of the keys, in order.
        :param own: A key for each vector that is left out.
        :return: Infinity where there is no key.
        """
        pairs = PairDistances(vectors, self.keys)
        bound = np.full(len(ids), np.inf)
        components = CenteredVectors(vectors, self._mean).gather(ids) @ self.rotation[:, :_COMPONENTS].float()
        for start in range(0, len(among), _KEYS_AT_ONCE):
            keys = among[start : start + _KEYS_AT_ONCE]
            right = self.projections.components[torch.from_numpy(keys)]
            scores = torch.addmm(right.square().sum(1) / -2, components, right.T)
            if own is not None:
                column = np.searchsorted(keys, own).clip(max=len(keys) - 1)
                rows = np.flatnonzero(keys[column] == own)
                scores[torch.from_numpy(rows), torch.from_numpy(column[rows])] = -torch.inf
            nearest = keys[scores.argmax(1).numpy()]
            distances = pairs.exact(ids, nearest)
            bound = np.minimum(bound, distances if own is None else np.where(nearest == own, np.inf, distances))
        return bound

    @one_thread()
    def best_level(
        self, ids: NDArray[np.int64], radius: NDArray[np.float64], uses: int, vectors: Vectors | None = None
    ) -> int:
        """Choose the coder with the lowest cost on a sample: wider codes rule out more pairs.

        :param ids: Rows of the left side of pairs.
        :param radius: Radius of each of them.
        :param uses: Number of rows that share the cost of new codes of all keys.
        :param vectors: The vectors of the left side; by default the keys.
        """
        tried = _evenly(len(ids), _MAX_ROWS_TRIED)
        centered = self.centered if vectors is None else CenteredVectors(vectors, self._mean)
        rows, lowest, best = centered.gather(ids[tried]), np.inf, 0
        for level, coder in enumerate(self.coders):
            cost = product_cost(coder.columns)
            if level not in self._codes:
                cost += (READING_COST + ENCODING_COST * coder.width) * centered.dimension / uses
            if cost >= lowest:
                continue
            if level not in self._tried_codes:
                self._tried_codes[level] = coder.encode(self._tried).right
            left, right = coder.encode(rows), self._tried_codes[level]
            left_side = coder.left_side(left, radius[tried], self.projections.max_length)
            cost += PASSING_COST * len(passing(left_side, right)[0]) / (len(left_side) * len(right))
            if cost < lowest:
                lowest, best = cost, level
        return best


def _evenly(count: int, limit: int) -> NDArray[np.int64]:
    """Return row numbers, evenly spread, at most ``limit``."""
    return np.linspace(0, count - 1, min(count, limit)).astype(np.int64)
