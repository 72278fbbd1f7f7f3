"""faiss indexes by factory string: training, filling and searching. Also k-means.

Keys are centered and added in the order of the store, so an id is a row number. Nothing is ever removed from an index,
because faiss renumbers some kinds on removal. Where codes are lossy, candidates are re-ranked by the keys on disk.
Knows nothing of stores and manifests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock, current_thread, main_thread
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from lacuna.errors import IndexingError
from lacuna.index.base import KeyStore, Neighborhood, check_queries
from lacuna.index.distances import empty_neighborhood, nearest, true_distances
from lacuna.index.inverted_file import InvertedFile, read_lists
from lacuna.index.kinds import IndexKind, SearchSettings, unknown_kind
from lacuna.progress import SILENT, Progress
from lacuna.workers import one_thread

_FAISS: Any = faiss  # its type stubs are incomplete

# faiss looks for Ctrl-C inside of parallel loops too, where its error would end the process; see _interruptible.
_FAISS.InterruptCallback.clear_instance()

# Kinds that quantize whole keys; before others, a transformation changes the dimension.
_WHOLE_PQ = re.compile(r"(?:IVF[^,]*,)?PQ(\d+).*")
_MORE_LISTS = 4  # each further round of a restricted search reads this many times more lists
_BLOCK_ELEMENTS = 1 << 24  # of float32 keys added at once: 64 MiB

# faiss has one threshold for the whole process. We lower it while any of our calls runs and restore it after the last
# one. Other users of faiss in the process only see a change of speed.
_threshold_lock = Lock()
_threshold_users = 0
_threshold_before = 0


class FaissIndex:
    """Searches a faiss index, re-ranks candidates, and breaks ties by id.

    :param index: A filled index whose ids are row numbers; the constructor applies ``settings`` to it.
    :param store: The store that the keys come from.
    """

    def __init__(self, index: Any, store: KeyStore, kind: IndexKind, settings: SearchSettings) -> None:  # noqa: ANN401
        self._index = index
        self._keys = store.keys
        self._mean = np.asarray(store.mean, dtype=np.float32)
        self._kind = kind
        self.settings = settings
        space = _FAISS.ParameterSpace()
        if settings.nprobe is not None:
            space.set_index_parameter(index, "nprobe", settings.nprobe)
        if settings.ef_search is not None:
            space.set_index_parameter(index, "efSearch", settings.ef_search)
        # Kinds with Refine re-rank by the keys they store, others by the keys on disk.
        self._rerank = 0 if kind.refines else settings.rerank
        if kind.refines:
            index.k_factor = settings.rerank
        self._lock = Lock()

    @property
    def kind(self) -> str:
        """The factory string."""
        return self._kind.name

    @property
    def size(self) -> int:
        """Number of keys."""
        return int(self._index.ntotal)

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood:
        """Find approximately the ``k`` nearest keys of each query; shape (queries, dimension)."""
        queries = check_queries(queries, k, self._keys.dimension)
        if not len(queries) or not self.size:
            return empty_neighborhood(len(queries), k)
        if self.settings.nprobe and (lists := self._lists) is not None:
            reranked = k * self.settings.rerank
            if lists.serves(reranked):
                return lists.search(queries, k, self.settings.nprobe, reranked)
        candidates = min(self.size, k * max(1, self._rerank))
        with _matrix_products(queries.shape[1]), _own_errors(f"searching {self.kind}"):
            distances, ids = self._index.search(queries - self._mean, candidates)
        if self._rerank:
            distances = true_distances(self._keys, queries, ids)
        else:
            # Rounding can make distances negative.
            distances = np.where(ids < 0, np.float32(np.inf), np.maximum(distances, np.float32(0)))
        return nearest(distances, ids, k)

    def restricted(self, keep: NDArray[np.bool_]) -> RestrictedLists | None:
        """Return a search of some rows only; ``None`` if it has no lists that the compiled search can read."""
        if not self.settings.nprobe or not self.size or (lists := self._lists) is None:
            return None
        return RestrictedLists(lists.keeping(keep), int(np.count_nonzero(keep)), self.settings, self._keys.dimension)

    @cached_property
    def _lists(self) -> InvertedFile | None:
        """Its lists for the compiled search, read when they are first needed."""
        with self._lock:
            return self.__dict__.get("_lists") or read_lists(self._index, self._mean)


class RestrictedLists:
    """Searches some rows of a faiss index: the others take no place among the candidates.

    :param lists: The lists, in which only these rows are found.
    :param rows: Number of these rows.
    """

    def __init__(self, lists: InvertedFile, rows: int, settings: SearchSettings, dimension: int) -> None:
        self._lists, self._rows, self._settings, self._dimension = lists, rows, settings, dimension

    def search(self, queries: NDArray[np.float32], k: int) -> Neighborhood | None:
        """Find approximately the ``k`` nearest of the rows; ``None`` if ``k`` is too large for the compiled search.

        More lists are read for queries with fewer than ``k`` neighbors in the nearest ones.
        """
        queries, reranked = check_queries(queries, k, self._dimension), k * self._settings.rerank
        if not self._lists.serves(reranked):
            return None
        nprobe = self._settings.nprobe or 1
        found = self._lists.search(queries, k, nprobe, reranked)
        while nprobe < len(self._lists):
            lacking = np.flatnonzero(found.ids[:, min(k, self._rows) - 1] < 0) if self._rows else ()
            if not len(lacking):
                break
            nprobe = min(len(self._lists), _MORE_LISTS * nprobe)
            found.distances[lacking], found.ids[lacking] = self._lists.search(queries[lacking], k, nprobe, reranked)
        return found


def make_index(
    store: KeyStore, kind: IndexKind, seed: int, training_rows: int | None, progress: Progress = SILENT
) -> tuple[Any, int]:
    """Train and fill a faiss index with the keys of a store; return it, and the number of training keys.

    :param seed: Seed of the training sample, of k-means and of the levels of a graph. With one thread the same seed
        gives the same bytes; graphs that several threads fill differ from run to run.
    :param training_rows: Number of training keys; by default, that of the kind.
    """
    rows, dimension = store.keys.rows, store.keys.dimension
    if kind.lists > rows:
        suited = max(1, round(4 * rows**0.5))
        raise IndexingError(
            f"kind: {kind.name} has {kind.lists:,} lists and needs at least as many entries, the store has {rows:,}; "
            + (f'use `kind` exact, or fewer lists as in "IVF{suited},Flat"' if rows else "use `kind` exact")
        )
    index = make_empty(kind, dimension)
    _prepare(index, seed)
    trained = 0
    if not index.is_trained:
        trained = _train(index, store, kind, seed, training_rows, progress)
        _link_centroids(index, seed)
    progress.start("filling the index", total=rows, unit="keys")
    for _, block in store.keys.blocks(max(1, _BLOCK_ELEMENTS // dimension)):
        with _matrix_products(dimension), _own_errors(f"filling {kind.name}"):
            index.add(block.astype(np.float32) - store.mean)
        progress.advance(len(block))
    progress.finish()
    return index, trained


def find_centroids(vectors: NDArray[np.float32], count: int, *, seed: int, iterations: int) -> NDArray[np.float32]:
    """Cluster vectors by k-means; the same seed and number of threads give the same centroids.

    :param vectors: All are used for training, at least ``count``. # (n, dimension)
    """
    kmeans = _FAISS.Kmeans(
        vectors.shape[1],
        count,
        niter=iterations,
        seed=seed,
        min_points_per_centroid=1,  # silences a warning
        max_points_per_centroid=len(vectors),
    )
    with _matrix_products(vectors.shape[1]), _own_errors(f"k-means with {count:,} centroids"), _interruptible():
        kmeans.train(vectors)
    return np.asarray(kmeans.centroids, dtype=np.float32)


def read_faiss(path: str) -> Any:  # noqa: ANN401 - faiss has no types
    """Read an index file; the caller has checked its hash."""
    with _own_errors(f"reading {path}", "build the index again with lacuna index, or free memory"):
        return _FAISS.read_index(path)


def write_faiss(index: Any, path: str) -> None:  # noqa: ANN401 - faiss has no types
    """Write an index file.

    Python writes the bytes: where faiss does, the last ones are written when it closes the file, and it ignores if that
    fails.
    """
    with _own_errors(f"writing {path}", "check the free space and the permissions"), Path(path).open("wb") as file:
        _FAISS.write_index(index, _FAISS.PyCallbackIOWriter(file.write))


def make_empty(kind: IndexKind, dimension: int) -> Any:  # noqa: ANN401
    """Return an index without keys, not trained."""
    try:
        return _FAISS.index_factory(dimension, kind.name, _FAISS.METRIC_L2)
    except (RuntimeError, MemoryError, ValueError) as error:
        codes = _WHOLE_PQ.fullmatch(kind.name)
        if codes and dimension % int(codes[1]):
            why = f"but its number of codes must divide the dimension, {dimension}"
        else:
            why = f"which faiss cannot build for {dimension}-dimensional keys"
        raise unknown_kind(kind.name, why) from error


def _train(
    index: Any,  # noqa: ANN401
    store: KeyStore,
    kind: IndexKind,
    seed: int,
    training_rows: int | None,
    progress: Progress,
) -> int:
    """Train on a random sample of all rows; the first rows alone may come from one document."""
    count = min(store.keys.rows, kind.training_rows if training_rows is None else training_rows)
    if count < max(1, kind.lists):
        raise IndexingError(
            f"training_rows: got {training_rows}, {kind.name} needs {max(1, kind.lists):,} or more; "
            f"the store has {store.keys.rows:,} entries"
        )
    progress.start(f"training on {count:,} keys")
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.choice(store.keys.rows, size=count, replace=False)).astype(np.int64)
    sample = store.keys.gather(drawn).astype(np.float32)
    sample -= store.mean
    with _matrix_products(sample.shape[1]), _own_errors(f"training {kind.name} on {count:,} keys"), _interruptible():
        index.train(sample)
    progress.finish()
    return count


def _link_centroids(index: Any, seed: int) -> None:  # noqa: ANN401
    """Build the graph of the centroids of an IVF index again, with one thread.

    Training built it with all threads, and such a graph differs from run to run.
    """
    inner = _FAISS.try_extract_index_ivf(index)
    graph = None if inner is None else _FAISS.downcast_index(inner.quantizer)
    if not isinstance(graph, _FAISS.IndexHNSW):
        return
    centroids = graph.reconstruct_n(0, graph.ntotal)
    graph.reset()
    graph.hnsw.rng = _FAISS.RandomGenerator(seed)
    with one_thread():
        graph.add(centroids)


def _prepare(index: Any, seed: int) -> None:  # noqa: ANN401
    """Seed all random generators of an index, and silence warnings about small samples (the report has a note).

    The factory also enables polysemous training. It takes three seconds for each code of ``PQ64`` and only serves a
    filter that we do not use; distances are the same without it.
    """
    if hasattr(index, "do_polysemous_training"):
        index.do_polysemous_training = False
    for name in ("cp", "pq"):
        part = getattr(index, name, None)
        settings = getattr(part, "cp", None) if name == "pq" else part
        if settings is not None:
            settings.seed, settings.min_points_per_centroid = seed, 1
    if hasattr(index, "hnsw"):
        index.hnsw.rng = _FAISS.RandomGenerator(seed)
    for name in ("index", "storage", "quantizer", "base_index", "refine_index"):
        inner = getattr(index, name, None)
        if inner is not None:
            _prepare(_FAISS.downcast_index(inner), seed)


@contextmanager
def _matrix_products(dimension: int) -> Iterator[None]:
    """Make faiss use matrix products for three queries or more.

    Since 1.15 it does so from 128,000 / dimension queries on only, which is eight times slower for decoding batches.
    """
    global _threshold_users, _threshold_before
    with _threshold_lock:
        if not _threshold_users:
            _threshold_before = _FAISS.cvar.distance_compute_blas_threshold
        _threshold_users += 1
        _FAISS.cvar.distance_compute_blas_threshold = 3 * dimension
    try:
        yield
    finally:
        with _threshold_lock:
            _threshold_users -= 1
            if not _threshold_users:
                _FAISS.cvar.distance_compute_blas_threshold = _threshold_before


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a long training in the main thread, which alone gets signals. Nothing else may use faiss then."""
    if current_thread() is not main_thread():
        yield
        return
    _FAISS.PythonInterruptCallback.reset()
    try:
        yield
    finally:
        _FAISS.InterruptCallback.clear_instance()


@contextmanager
def _own_errors(what: str, way_out: str = "use `kind` exact or another one") -> Iterator[None]:
    """Convert exceptions of faiss to one-line errors."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        reason = (
            re.sub(r"^Error in .*? at \S+?:\d+: (Error: )?('.*?' failed: )?", "", str(error)) or type(error).__name__
        )
        raise IndexingError(f"{what}: {reason}; {way_out}") from error
