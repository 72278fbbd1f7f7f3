"""Exact search with matrix products over centered keys.

A product of float32 matrices rounds, so it only proposes candidates, a few more than requested. Their distances are
then computed from the float16 keys in float64. The rounding error has a bound, which shows for each query whether a
key outside the candidates could be one of the neighbors. If so (many equal or nearly equal keys), a second pass
compares all keys that the bound does not rule out. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.index.base import KeyColumn, KeyStore, Neighborhood, check_queries
from lacuna.index.distances import EPSILON, empty_neighborhood, nearest, sum_error, true_distances

_FAISS: Any = faiss  # its type stubs are incomplete

CACHE_BYTES = 1 << 30

_BLOCK = 16_384  # keys multiplied at once
_BATCH = 512  # queries multiplied at once: with _BLOCK, 32 MiB of scores
_FEW = 4  # below this many queries a matrix product is slower than one scan per query
# Distances are returned as float32: a radius may be too small by this factor.
_RADIUS = 1 + 2 * EPSILON


class ExactIndex:
    """Compares a query with every key.

    :param store: The store whose keys are searched.
    :param cache_bytes: Keys are kept in memory as centered float32 if they fit into this size. Larger stores are read
        from disk (usually from the page cache) and centered at every search.
    """

    kind = "exact"

    def __init__(self, store: KeyStore, cache_bytes: int = CACHE_BYTES) -> None:
        self._store, self._cache_bytes = store, cache_bytes
        self._keys: KeyColumn = store.keys
        self._mean = np.asarray(store.mean, dtype=np.float32)
        self._caching = self.size * (self._keys.dimension + 1) * 4 <= cache_bytes
        self._cache: NDArray[np.float32] | None = None
        self._lock = Lock()

    def reopening(self) -> tuple[Callable[..., ExactIndex], tuple[KeyStore, int]]:
        """Say how another process opens this index; see :class:`~lacuna.workers.Reopened`."""
        return ExactIndex, (self._store, self._cache_bytes)

    @property
    def size(self) -> int:
        """Number of keys."""
        return self._keys.rows

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        """Find the ``k`` nearest keys of each query; shape (queries, dimension)."""
        queries = check_queries(queries, k, self._keys.dimension)
        if not len(queries) or not self.size:
            return empty_neighborhood(len(queries), k)
        centered = _with_one(queries - self._mean)
        candidates = min(self.size, k + max(8, k // 8))
        scores, ids, longest = self._candidates(centered, candidates)
        neighbors = nearest(true_distances(self._keys, queries, ids), ids, k)
        if candidates < self.size:
            doubtful = _doubtful(centered, scores.min(axis=1), neighbors.distances[:, -1], longest)
            if doubtful.any():
                better = self._within(
                    queries[doubtful], centered[doubtful], neighbors.distances[doubtful, -1], longest, k
                )
                neighbors.distances[doubtful], neighbors.ids[doubtful] = better
        return neighbors

    def _candidates(
        self, centered: NDArray[np.float32], count: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], float]:
        """Return the best scores of each query, their ids, and the largest norm of any key."""
        best = np.full((len(centered), count), -np.inf, np.float32)
        ids = np.full((len(centered), count), -1, np.int64)
        longest = 0.0
        for first, block in self._blocks():
            longest = max(longest, float(np.sqrt(2 * -block[:, -1].min())))
            for start in range(0, len(centered), _BATCH):
                part = slice(start, start + _BATCH)
                scores = _scores(centered[part], block)
                heap = _FAISS.float_minheap_array_t()
                heap.nh, heap.k = len(scores), count
                heap.val, heap.ids = _FAISS.swig_ptr(best[part]), _FAISS.swig_ptr(ids[part])
                heap.addn(scores.shape[1], _FAISS.swig_ptr(scores), first, 0, len(scores))
        return best, ids, longest

    def _within(
        self,
        queries: NDArray[np.float32],
        centered: NDArray[np.float32],
        radius: NDArray[np.float32],
        longest: float,
        k: int,
    ) -> Neighborhood:
        """Search all keys that may be as near as ``radius``."""
        lengths = _squared_lengths(centered)
        min_score = (lengths - radius * _RADIUS) / 2 - _error(centered, longest)
        best = empty_neighborhood(len(queries), k)
        for first, block in self._blocks():
            for start in range(0, len(queries), _BATCH):
                part = slice(start, start + _BATCH)
                hits = _scores(centered[part], block) >= min_score[part, None]
                for query in np.flatnonzero(hits.any(axis=1)):
                    row = slice(start + query, start + query + 1)
                    ids = first + np.flatnonzero(hits[query])[None]
                    distances = true_distances(self._keys, queries[row], ids)
                    best.distances[row], best.ids[row] = nearest(
                        np.concatenate([best.distances[row], distances], axis=1),
                        np.concatenate([best.ids[row], ids], axis=1),
                        k,
                    )
        return best

    def _blocks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Iterate over the centered keys, each extended by minus half its squared length."""
        if not self._caching:
            for first, block in self._keys.blocks(_BLOCK):
                yield first, _with_half_length(block, self._mean)
            return
        cache = self._filled_cache()
        for first in range(0, self.size, _BLOCK):
            yield first, cache[first : first + _BLOCK]

    def _filled_cache(self) -> NDArray[np.float32]:
        with self._lock:
            if self._cache is None:
                cache = np.empty((self.size, self._keys.dimension + 1), np.float32)
                for first, block in self._keys.blocks(_BLOCK):
                    cache[first : first + len(block)] = _with_half_length(block, self._mean)
                self._cache = cache
            return self._cache


def _with_one(centered: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([centered, np.ones((len(centered), 1), np.float32)], axis=1)


def _with_half_length(block: NDArray[np.float16], mean: NDArray[np.float32]) -> NDArray[np.float32]:
    extended = np.empty((len(block), block.shape[1] + 1), np.float32)
    centered = extended[:, :-1]
    np.subtract(block, mean, out=centered, dtype=np.float32)
    extended[:, -1] = -0.5 * np.einsum("nd,nd->n", centered, centered)
    return extended


def _scores(queries: NDArray[np.float32], block: NDArray[np.float32]) -> NDArray[np.float32]:  # (queries, keys)
    """Compute q.y - |y|^2/2, larger for nearer keys, since |q - y|^2 = |q|^2 - 2 (q.y - |y|^2/2)."""
    if len(queries) >= _FEW:
        # NumPy's BLAS shares one thread pool among all callers; torch's thread count is set for each thread.
        return (torch.from_numpy(queries) @ torch.from_numpy(block).T).numpy()
    scores = np.empty((len(queries), len(block)), np.float32)
    for query, line in zip(queries, scores, strict=True):
        _FAISS.fvec_inner_products_ny(
            _FAISS.swig_ptr(line), _FAISS.swig_ptr(query), _FAISS.swig_ptr(block), block.shape[1], len(block)
        )
    return scores


def _squared_lengths(centered: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = centered[:, :-1].astype(np.float64)
    return np.asarray(np.einsum("nd,nd->n", wide, wide))


def _error(centered: NDArray[np.float32], longest: float) -> NDArray[np.float64]:
    """Bound the rounding error of a score."""
    return np.asarray(sum_error(centered.shape[1]) * (np.sqrt(_squared_lengths(centered)) * longest + longest**2))


def _doubtful(
    centered: NDArray[np.float32], worst: NDArray[np.float32], radius: NDArray[np.float32], longest: float
) -> NDArray[np.bool_]:
    """Return for which queries a key outside the candidates may be as near as ``radius``."""
    nearest_outside = _squared_lengths(centered) - 2 * (worst + _error(centered, longest))
    return np.asarray(nearest_outside <= radius * _RADIUS)
