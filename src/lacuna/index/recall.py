"""Recall of an index against exact search, and tuning: measuring several kinds of index on a store.

Queries are keys of the store, each left out of its own neighbors by id, or queries of the caller.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import IndexingError
from lacuna.index.base import KeyStore, Neighborhood, VectorIndex, check_queries, check_seed
from lacuna.index.building import training_threads
from lacuna.index.distances import leave_self_out, true_distances
from lacuna.index.exact import ExactIndex
from lacuna.index.faiss import FaissIndex, make_index
from lacuna.index.kinds import AUTO, EXACT, IndexKind, SearchSettings, choose_kind, search_settings
from lacuna.progress import SILENT, Progress
from lacuna.workers import Pool, WorkerPool

SAMPLE = 500
# Queries searched at once: 32 sentences with 5 hypotheses each.
_BATCH = 160


@dataclass(frozen=True, slots=True)
class RecallAtK:
    """Recall for one ``k``.

    :param recall: Mean share of the k true neighbors that were found; an entry as near as the k-th counts as one.
    :param complete: Share of the queries for which all neighbors were found.
    :param distance_error: Median relative error of the distances, where the true distance is not 0.
    """

    k: int
    recall: float
    complete: float
    distance_error: float


@dataclass(frozen=True, slots=True)
class RecallReport:
    """Recall and speed of an index on this machine, with all workers.

    :param queries: Number of queries.
    :param rows: Number of entries in the index.
    :param queries_per_second: Speed of the index at the largest k.
    :param exact_queries_per_second: Speed of exact search at the largest k.
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
    pool: Pool | None = None,
) -> RecallReport:
    """Compare an index with exact search.

    :param k: Number of neighbors, or several numbers.
    :param sample: Number of keys drawn as queries; each is left out of its own neighbors.
    :param queries: Queries to use instead, such as the decoder states of a dev set. # (queries, dimension)
    :param pool: Workers for exact search, whose speed is then that of all workers. The index itself is searched by the
        threads of this process.
    """
    sizes = _sizes(k)
    own = None
    if queries is None:
        check_recall(store, sizes, sample=sample, seed=seed)
        own = draw_own_keys(store, sample, seed)
        queries = store.keys.gather(own).astype(np.float32)
    else:
        _check(sizes, len(queries), store.keys.rows)
    neighbors = sizes[-1] + (own is not None)
    progress.start(f"measuring recall with {len(queries):,} queries")
    result, seconds = _timed(index, queries, neighbors)
    truth, exact_seconds = _timed(ExactIndex(store), queries, neighbors, pool)
    if own is not None:
        result, truth = leave_self_out(result, own), leave_self_out(truth, own)
    checked = true_distances(store.keys, queries, result.ids)
    progress.finish()
    return RecallReport(
        kind=index.kind,
        rows=index.size,
        queries=len(queries),
        seed=None if own is None else seed,
        results=tuple(compare_with_truth(result, checked, truth, size) for size in sizes),
        queries_per_second=len(queries) / seconds,
        exact_queries_per_second=len(queries) / exact_seconds,
    )


def check_recall(store: KeyStore, k: int | Sequence[int], *, sample: int, seed: int) -> None:
    """Check the settings of a recall measurement with keys of the store, before slow work starts."""
    if sample < 1:
        raise IndexingError(f"sample: got {sample}; allowed: 1 or more")
    check_seed(seed)
    _check(_sizes(k), min(sample, store.keys.rows), store.keys.rows - 1)


def _sizes(k: int | Sequence[int]) -> list[int]:
    return sorted({k} if isinstance(k, int) else set(k))


def draw_own_keys(store: KeyStore, sample: int, seed: int) -> NDArray[np.int64]:
    """Draw rows of a store whose keys are the queries."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(store.keys.rows, size=min(sample, store.keys.rows), replace=False)
    return np.sort(drawn).astype(np.int64)


def _check(sizes: list[int], queries: int, most: int) -> None:
    """Check that each k is 1 to ``most``, the number of entries that a query can find."""
    if not queries or not sizes or most < 1:
        raise IndexingError("recall: nothing to measure; pass a k, and a store or queries that are not empty")
    if sizes[0] < 1 or sizes[-1] > most:
        wrong = sizes[0] if sizes[0] < 1 else sizes[-1]
        raise IndexingError(f"k: got {wrong}; to measure recall in this store, k must be 1 to {most:,}")


def _timed(
    index: VectorIndex, queries: NDArray[np.float32], k: int, pool: Pool | None = None
) -> tuple[Neighborhood, float]:
    """Search in batches of the size of decoding, one for each worker at a time; return neighbors and seconds."""
    batches = [queries[start : start + _BATCH] for start in range(0, len(queries), _BATCH)]
    search, workers = partial(_search, index, k), pool or WorkerPool.of_process()
    # The first search reads the keys into memory: once for threads, and in every process.
    list(workers.map(search, batches[:1] * (1 if pool is None else pool.workers)))
    started = time.perf_counter()
    parts = list(workers.map(search, batches))
    seconds = max(time.perf_counter() - started, 1e-9)
    distances, ids = (np.concatenate([getattr(part, name) for part in parts]) for name in ("distances", "ids"))
    return Neighborhood(distances, ids), seconds


def _search(index: VectorIndex, k: int, queries: NDArray[np.float32]) -> Neighborhood:
    return index.search(queries, k)


def compare_with_truth(result: Neighborhood, checked: NDArray[np.float32], truth: Neighborhood, k: int) -> RecallAtK:
    """Count the true neighbors among those that were found.

    :param checked: The true distances of those that were found.
    """
    hits = (result.ids[:, :k] >= 0) & (checked[:, :k] <= truth.distances[:, k - 1 : k])
    counts = hits.sum(axis=1)
    known = (checked[:, :k] > 0) & np.isfinite(checked[:, :k])
    given, right = result.distances[:, :k][known], checked[:, :k][known]
    return RecallAtK(
        k=k,
        recall=float(counts.mean() / k),
        complete=float((counts == k).mean()),
        distance_error=float(np.median(np.abs(given - right) / right)) if known.any() else 0.0,
    )


_EF_SEARCH = (16, 32, 64, 128)
_NPROBE = (8, 16, 32, 64)
_RERANK = (4, 8)


@dataclass(frozen=True, slots=True)
class IndexTrial:
    """Recall and speed of an index with certain search settings.

    :param build_seconds: Duration of the build, 0 for exact search.
    :param recall: Mean share of the k true neighbors that were found.
    """

    kind: str
    settings: SearchSettings
    build_seconds: float
    recall: float
    queries_per_second: float

    def as_json(self) -> dict[str, Any]:
        """Return the content as JSON-ready values."""
        return {
            "kind": self.kind,
            "probes": self.settings.nprobe,
            "ef": self.settings.ef_search,
            "rerank": self.settings.rerank,
            "build_seconds": self.build_seconds,
            "recall": self.recall,
            "queries_per_second": self.queries_per_second,
        }


def try_indexes(
    store: KeyStore,
    k: int = 8,
    *,
    sample: int = SAMPLE,
    seed: int = 1,
    queries: NDArray[np.float32] | None = None,
    kinds: tuple[str, ...] | None = None,
    progress: Progress = SILENT,
) -> list[IndexTrial]:
    """Build indexes of a store in memory, and search each with several settings.

    :param k: Number of neighbors.
    :param sample: Number of keys of the store that are the queries, each left out of its own neighbors. HNSW finds
        these more easily than new queries.
    :param queries: Queries to use instead, such as the decoder states of a dev set. # (queries, dimension)
    :param kinds: By default: exact search, the choice of ``auto``, the same with fewer lists, and HNSW.
    """
    search = _TimedSearch(store, k, sample, seed, queries)
    truth, exact_speed = search(ExactIndex(store))
    trials = [IndexTrial(EXACT, SearchSettings(), 0.0, 1.0, exact_speed)]
    for name in _usual_kinds(store) if kinds is None else kinds:
        kind = choose_kind(name, store.keys.rows, store.keys.dimension).kind
        if kind.is_exact:
            continue
        started = time.monotonic()
        with training_threads(kind):
            made, _ = make_index(store, kind, seed, None, progress)
        seconds = time.monotonic() - started
        for settings in _tried_settings(kind):
            result, speed = search(FaissIndex(made, store, kind, settings))
            recall = compare_with_truth(result, true_distances(store.keys, search.queries, result.ids), truth, k).recall
            trials.append(IndexTrial(kind.name, settings, seconds, recall, speed))
    return trials


def best_trial(trials: list[IndexTrial], least_recall: float) -> IndexTrial:
    """Return the fastest of those with enough recall."""
    if not 0 < least_recall <= 1:
        raise IndexingError(f"least_recall: got {least_recall}; allowed: more than 0, up to 1")
    return max((trial for trial in trials if trial.recall >= least_recall), key=lambda trial: trial.queries_per_second)


def _usual_kinds(store: KeyStore) -> Iterator[str]:
    rows, dimension = store.keys.rows, store.keys.dimension
    auto = choose_kind(AUTO, rows, dimension).kind
    yield auto.name
    fewer = round(math.sqrt(rows))
    if not auto.is_exact and fewer >= 1:
        yield auto.name.replace(f"IVF{auto.lists},", f"IVF{fewer},")
    yield "HNSW32_SQfp16"


def _tried_settings(kind: IndexKind) -> Iterator[SearchSettings]:
    if kind.graph:
        yield from (search_settings(kind, ef_search=size) for size in _EF_SEARCH)
        return
    reranks = _RERANK if kind.defaults.rerank else (0,)
    if not kind.lists:
        yield from (search_settings(kind, rerank=rerank) for rerank in reranks)
    for nprobe in _NPROBE:
        if nprobe <= kind.lists:
            yield from (search_settings(kind, nprobe=nprobe, rerank=rerank) for rerank in reranks)


class _TimedSearch:
    """Searches any index with the same queries, in batches."""

    def __init__(
        self, store: KeyStore, k: int, sample: int, seed: int, queries: NDArray[np.float32] | None = None
    ) -> None:
        self._k, self._own = k, None
        if queries is None:
            check_recall(store, k, sample=sample, seed=seed)
            self._own = draw_own_keys(store, sample, seed)
            queries = store.keys.gather(self._own).astype(np.float32)
        self.queries = check_queries(queries, k, store.keys.dimension)

    def __call__(self, index: VectorIndex) -> tuple[Neighborhood, float]:
        """Return the neighbors of all queries, and queries per second."""
        k = self._k if self._own is None else self._k + 1
        result, seconds = _timed(index, self.queries, k)
        return result if self._own is None else leave_self_out(result, self._own), len(self.queries) / seconds
