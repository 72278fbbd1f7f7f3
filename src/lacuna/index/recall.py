"""How much of the truth an index finds: its answers against exact search.

Queries are keys of the store itself, each without itself (by id, not by rank), or queries the caller brings.
Knows nothing of what neighbors are used for.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import IndexingError
from lacuna.index.base import MISSING, KeyStore, Neighborhood, VectorIndex, check_seed, nearest, true_distances
from lacuna.index.exact import ExactIndex
from lacuna.progress import SILENT, Progress

SAMPLE = 500


@dataclass(frozen=True, slots=True)
class RecallAtK:
    """Recall for one ``k``.

    :param recall: Mean share of the k true neighbors that were found; an entry as near as the k-th counts as one.
    :param complete: Share of the queries all of whose neighbors were found.
    :param distance_error: Median relative error of the distances, where the true one is not 0.
    """

    k: int
    recall: float
    complete: float
    distance_error: float


@dataclass(frozen=True, slots=True)
class RecallReport:
    """What an index finds, and how fast on this machine, all queries in one batch.

    :param queries: How many.
    :param rows: Size of the index.
    :param queries_per_second: Of the index at the largest k.
    :param exact_queries_per_second: Of exact search at the largest k.
    """

    kind: str
    rows: int
    queries: int
    seed: int | None
    results: tuple[RecallAtK, ...]
    queries_per_second: float
    exact_queries_per_second: float

    def as_json(self) -> dict[str, Any]:
        """Return the content as JSON-ready values."""
        return asdict(self)


def measure_recall(
    store: KeyStore,
    index: VectorIndex,
    k: int | Sequence[int] = 8,
    *,
    sample: int = SAMPLE,
    seed: int = 1,
    queries: NDArray[np.float32] | None = None,
    progress: Progress = SILENT,
) -> RecallReport:
    """Compare an index with exact search.

    :param k: Number of neighbors, or several.
    :param sample: Keys drawn as queries; each is left out of its own neighborhood.
    :param queries: Queries to use instead, as the decoder states of a dev set. # (queries, dimension)
    """
    sizes = _sizes(k)
    own = None
    if queries is None:
        check_recall(store, sizes, sample=sample, seed=seed)
        own = draw_own_keys(store, sample, seed)
        queries = store.keys.gather(own).astype(np.float32)
    else:
        _check(sizes, len(queries), store.keys.rows)
    most = sizes[-1] + (own is not None)
    progress.start(f"measuring recall with {len(queries):,} queries")
    found, seconds = _timed(index, queries, most)
    truth, exact_seconds = _timed(ExactIndex(store), queries, most)
    if own is not None:
        found, truth = leave_out(found, own), leave_out(truth, own)
    checked = true_distances(store.keys, queries, found.ids)
    progress.finish()
    return RecallReport(
        kind=index.kind,
        rows=index.size,
        queries=len(queries),
        seed=None if own is None else seed,
        results=tuple(compare_with_truth(found, checked, truth, size) for size in sizes),
        queries_per_second=len(queries) / seconds,
        exact_queries_per_second=len(queries) / exact_seconds,
    )


def check_recall(store: KeyStore, k: int | Sequence[int], *, sample: int, seed: int) -> None:
    """Refuse what cannot be measured with keys of the store itself; callers ask this before slow work."""
    if sample < 1:
        raise IndexingError(f"sample: got {sample}; allowed: 1 or more")
    check_seed(seed)
    _check(_sizes(k), min(sample, store.keys.rows), store.keys.rows - 1)


def _sizes(k: int | Sequence[int]) -> list[int]:
    return sorted({k} if isinstance(k, int) else set(k))


def draw_own_keys(store: KeyStore, sample: int, seed: int) -> NDArray[np.int64]:
    """Draw rows of a store whose keys serve as queries."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(store.keys.rows, size=min(sample, store.keys.rows), replace=False)
    return np.sort(drawn).astype(np.int64)


def _check(sizes: list[int], queries: int, most: int) -> None:
    """Refuse a k that is not within 1 to ``most``, the entries that a query can find."""
    if not queries or not sizes or most < 1:
        raise IndexingError("recall: there is nothing to measure with; pass a k, and a store or queries not empty")
    if sizes[0] < 1 or sizes[-1] > most:
        wrong = sizes[0] if sizes[0] < 1 else sizes[-1]
        raise IndexingError(f"k: got {wrong}; to measure recall in this store, k must be 1 to {most:,}")


def _timed(index: VectorIndex, queries: NDArray[np.float32], k: int) -> tuple[Neighborhood, float]:
    index.search(queries[:1], k)  # the first search reads the keys into memory
    started = time.perf_counter()
    found = index.search(queries, k)
    return found, max(time.perf_counter() - started, 1e-9)


def leave_out(found: Neighborhood, own: NDArray[np.int64]) -> Neighborhood:
    """Drop each query's own entry; where it was not found, the farthest goes instead."""
    self_found = found.ids == own[:, None]
    distances = np.where(self_found, np.float32(np.inf), found.distances)
    ids = np.where(self_found, MISSING, found.ids)
    # nearest() puts -1 first among equal distances; only infinity has them, and there all are -1.
    return nearest(distances, ids, found.ids.shape[1] - 1)


def compare_with_truth(found: Neighborhood, checked: NDArray[np.float32], truth: Neighborhood, k: int) -> RecallAtK:
    """Count the true neighbors among those found.

    :param checked: The true distances of what was found.
    """
    hits = (found.ids[:, :k] >= 0) & (checked[:, :k] <= truth.distances[:, k - 1 : k])
    counts = hits.sum(axis=1)
    known = (checked[:, :k] > 0) & np.isfinite(checked[:, :k])
    given, right = found.distances[:, :k][known], checked[:, :k][known]
    return RecallAtK(
        k=k,
        recall=float(counts.mean() / k),
        complete=float((counts == k).mean()),
        distance_error=float(np.median(np.abs(given - right) / right)) if known.any() else 0.0,
    )
