"""Small stores in memory, clustered keys, and brute-force search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lacuna.index.base import KeySegment


class FakeKeys:
    def __init__(self, keys: NDArray[np.float16]) -> None:
        self.array = keys
        self.rows, self.dimension = keys.shape
        self.gathered: list[NDArray[np.int64]] = []
        self.largest_block = 0

    def gather(self, ids: NDArray[np.int64]) -> NDArray[np.float16]:
        assert (ids >= 0).all()
        self.gathered.append(ids)
        return self.array[ids]

    def blocks(self, rows: int) -> Iterator[tuple[int, NDArray[np.float16]]]:
        # A real store also ends blocks at shard borders, so callers may not rely on full blocks.
        for first in range(0, self.rows, min(rows, 700)):
            block = self.array[first : first + min(rows, 700)]
            self.largest_block = max(self.largest_block, len(block))
            yield first, block


class FakeStore:
    def __init__(self, path: Path, keys: NDArray[np.float16]) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.segments: tuple[KeySegment, ...] | None = None
        self.keys = FakeKeys(keys)
        self.mean = (
            keys.astype(np.float64).mean(axis=0).astype(np.float32) if len(keys) else np.zeros(keys.shape[1], "f4")
        )
        (path / "manifest.json").write_text(f'{{"keys": "{hash(keys.tobytes())}", "rows": {len(keys)}}}')


def clustered(
    rows: int, dimension: int, seed: int = 0, offset: float = 3.0
) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
    """Return keys with a common offset, near and exact duplicates among them, and 40 held-out queries."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(max(2, rows // 40), dimension)) * 2
    points = centers[rng.integers(len(centers), size=rows + 40)] + 0.5 * rng.normal(size=(rows + 40, dimension))
    points += offset
    points[rows // 2 : rows // 2 + rows // 50] = points[: rows // 50]
    return points[:rows].astype(np.float16), points[rows:].astype(np.float32)


def brute_force(
    keys: NDArray[np.float16], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Search in float64, key by key."""
    wide = keys.astype(np.float64)
    distances = np.full((len(queries), k), np.inf, np.float32)
    ids = np.full((len(queries), k), -1, np.int64)
    for number, query in enumerate(queries):
        every = ((wide - query.astype(np.float64)) ** 2).sum(axis=1).astype(np.float32)
        order = np.lexsort((np.arange(len(keys)), every))[:k]
        distances[number, : len(order)], ids[number, : len(order)] = every[order], order
    return distances, ids
