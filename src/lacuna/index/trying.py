"""Which index suits a store: some are made and searched, and the quickest good one is named.

Speed is that of this machine, in batches as a decoder sends them. Knows nothing of models: states of a decoder, which
are harder to search for than the store's own keys, are for the caller to bring.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import IndexingError
from lacuna.index.base import KeyStore, Neighborhood, VectorIndex, check_queries, true_distances
from lacuna.index.exact import ExactIndex
from lacuna.index.faiss import FaissIndex, make_index
from lacuna.index.kinds import AUTO, EXACT, Kind, choose_kind, search_settings
from lacuna.index.recall import check_recall, compare_with_truth, draw_own_keys, leave_out
from lacuna.progress import SILENT, Progress

# Queries searched at once: 32 sentences with 5 unfinished translations each.
_BATCH = 160
_EF = (16, 32, 64, 128)
_PROBES = (8, 16, 32, 64)
_RERANKS = (4, 8)


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to search, and what came of it.

    :param build_seconds: What making the index took, 0 for exact search.
    :param recall: Mean share of the k true neighbors that were found.
    """

    kind: str
    probes: int | None
    ef: int | None
    rerank: int
    build_seconds: float
    recall: float
    queries_per_second: float

    def as_json(self) -> dict[str, Any]:
        """Return the content as JSON-ready values."""
        return asdict(self)


def try_indexes(
    store: KeyStore,
    k: int = 8,
    *,
    sample: int = 500,
    seed: int = 1,
    queries: NDArray[np.float32] | None = None,
    kinds: tuple[str, ...] | None = None,
    progress: Progress = SILENT,
) -> list[Trial]:
    """Make indexes of a store, in memory only, and search each in several ways.

    :param k: Neighbors asked for.
    :param sample: Keys of the store that serve as queries, each left out of its own neighborhood. A graph finds these
        more easily than it finds anything new.
    :param queries: Queries to use instead, as the decoder states of a dev set. # (queries, dimension)
    :param kinds: Without it: exact search, what ``auto`` would take, one with fewer lists, and a graph.
    """
    search = _Searching(store, k, sample, seed, queries)
    truth, exact_speed = search(ExactIndex(store))
    trials = [Trial(EXACT, None, None, 0, 0.0, 1.0, exact_speed)]
    for name in _usual_kinds(store) if kinds is None else kinds:
        kind = choose_kind(name, store.keys.rows, store.keys.dimension).kind
        if kind.is_exact:
            continue
        started = time.monotonic()
        made, _ = make_index(store, kind, seed, None, progress)
        seconds = time.monotonic() - started
        for settings in _ways(kind):
            found, speed = search(FaissIndex(made, store, kind, settings))
            recall = compare_with_truth(found, true_distances(store.keys, search.queries, found.ids), truth, k).recall
            trials.append(Trial(kind.name, settings.probes, settings.ef, settings.rerank, seconds, recall, speed))
    return trials


def best_trial(trials: list[Trial], least_recall: float) -> Trial:
    """Return the quickest of those that find enough."""
    if not 0 < least_recall <= 1:
        raise IndexingError(f"least_recall: got {least_recall}; allowed is more than 0, up to 1")
    return max((trial for trial in trials if trial.recall >= least_recall), key=lambda trial: trial.queries_per_second)


def _usual_kinds(store: KeyStore) -> Iterator[str]:
    rows, dimension = store.keys.rows, store.keys.dimension
    auto = choose_kind(AUTO, rows, dimension).kind
    yield auto.name
    fewer = round(math.sqrt(rows))
    if not auto.is_exact and fewer >= 1:
        yield auto.name.replace(f"IVF{auto.lists},", f"IVF{fewer},")
    yield "HNSW32_SQfp16"


def _ways(kind: Kind) -> Iterator[Any]:
    if kind.graph:
        yield from (search_settings(kind, ef=ef) for ef in _EF)
        return
    usual = search_settings(kind)
    reranks = _RERANKS if usual.rerank else (0,)
    if not kind.lists:
        yield from (search_settings(kind, rerank=rerank) for rerank in reranks)
    for probes in _PROBES:
        if probes <= kind.lists:
            yield from (search_settings(kind, probes=probes, rerank=rerank) for rerank in reranks)


class _Searching:
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
        """Give the neighbors of all queries, and queries per second."""
        k = self._k if self._own is None else self._k + 1
        batches = [self.queries[start : start + _BATCH] for start in range(0, len(self.queries), _BATCH)]
        index.search(batches[0], k)  # the first search reads what it needs into memory
        started = time.perf_counter()
        parts = [index.search(batch, k) for batch in batches]
        seconds = max(time.perf_counter() - started, 1e-9)
        found = Neighborhood(*(np.concatenate([getattr(one, name) for one in parts]) for name in ("distances", "ids")))
        return found if self._own is None else leave_out(found, self._own), len(self.queries) / seconds
