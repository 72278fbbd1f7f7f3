"""The inverted lists of a faiss index, read in place by a compiled search that takes about half of the time of faiss.

It serves the kinds that ``auto`` chooses: a rotation, inverted lists of 4-bit codes, and half-precision keys to re-rank
candidates. For others, and without numba, faiss itself searches. Both read the same lists and compute the same
distances, but of candidates that look equally far by their codes, each re-ranks others. Knows nothing of stores.
"""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from lacuna.index.base import Neighborhood
from lacuna.kernels import load_list_search

_FAISS: Any = faiss  # its type stubs are incomplete

# Candidates of a query up to which the compiled search is used: it keeps neighbors sorted one by one.
_MAX_CANDIDATES = 1024


class InvertedFile:
    """Searches the lists of a faiss index; see :func:`read_lists`.

    :param index: The index; it must not change any more.
    :param kernels: :mod:`lacuna.kernels.list_search`.
    :param lists: Its lists, as that module reads them.
    """

    def __init__(self, index: Any, kernels: Any, lists: Any) -> None:  # noqa: ANN401 - faiss and numba have no types
        self._index = index  # owns the memory of the lists
        self._kernels, self._lists = kernels, lists

    def __len__(self) -> int:
        return len(self._lists.sizes)

    def serves(self, candidates: int) -> bool:
        """Tell whether a search that re-ranks this number of candidates is fast here."""
        return candidates <= _MAX_CANDIDATES

    def keeping(self, keep: NDArray[np.bool_]) -> InvertedFile:
        """Return the same lists, of which only some rows are found.

        :param keep: Whether a row may be found, for each row.
        """
        sizes, block = self._lists.sizes, self._kernels.BLOCK
        kept = np.zeros(int((-(-sizes // block)).sum()), np.uint32)
        self._kernels.mark_kept(self._lists, np.ascontiguousarray(keep), kept)
        return InvertedFile(self._index, self._kernels, self._lists._replace(kept=kept))

    def search(self, queries: NDArray[np.float32], k: int, nprobe: int, candidates: int) -> Neighborhood:
        """Find the ``k`` nearest of the candidates in the nearest lists."""
        distances, ids = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        self._kernels.search(queries, nprobe, candidates, self._lists, distances, ids)
        return Neighborhood(distances, ids)


def read_lists(index: Any, mean: NDArray[np.float32]) -> InvertedFile | None:  # noqa: ANN401 - faiss has no types
    """Return the lists of a faiss index, or ``None`` if the compiled search cannot read them.

    :param mean: Was subtracted from all keys.
    """
    parts = _parts(index)
    kernels = None if parts is None else load_list_search()
    if parts is None or kernels is None:
        return None
    rotation, lists, keys = parts
    if index.d % kernels.STEP or lists.M % kernels.TABLES:
        return None
    offset = _FAISS.vector_to_array(rotation.b) if rotation.have_bias else np.zeros(rotation.d_out, np.float32)
    centroids = lists.quantizer.reconstruct_n(0, lists.nlist)
    books = _FAISS.vector_to_array(lists.pq.centroids).reshape(lists.M, kernels.CODEBOOK, lists.pq.dsub)
    places = range(lists.nlist)
    sizes = np.array([lists.invlists.list_size(place) for place in places], np.int64)
    blocks = -(-sizes // kernels.BLOCK)
    read = kernels.PackedFile(
        np.ascontiguousarray(mean, np.float32),
        kernels.pack(_FAISS.vector_to_array(rotation.A).reshape(rotation.d_out, rotation.d_in), offset),
        kernels.pack(centroids, -0.5 * np.einsum("nd,nd->n", centroids, centroids)),
        np.ascontiguousarray(books.transpose(0, 2, 1)),
        sizes,
        np.array([_address(lists.invlists.get_codes(place)) for place in places], np.uint64),
        np.array([_address(lists.invlists.get_ids(place)) for place in places], np.uint64),
        np.uint64(_address(keys.codes.data())),
        np.cumsum(blocks) - blocks,
        np.empty(0, np.uint32),
    )
    return InvertedFile(index, kernels, read)


def _address(pointer: Any) -> int:  # noqa: ANN401 - faiss has no types
    return 0 if pointer is None else int(pointer)  # an empty list may have none


def _parts(index: Any) -> tuple[Any, Any, Any] | None:  # noqa: ANN401 - faiss has no types
    """Return rotation, inverted lists and half-precision keys of an index that has these three and nothing else."""
    if type(index) is not _FAISS.IndexRefine:
        return None
    keys, outer = _FAISS.downcast_index(index.refine_index), _FAISS.downcast_index(index.base_index)
    if not isinstance(keys, _FAISS.IndexScalarQuantizer) or keys.sq.qtype != _FAISS.ScalarQuantizer.QT_fp16:
        return None
    if not isinstance(outer, _FAISS.IndexPreTransform) or outer.chain.size() != 1:
        return None
    rotation = _FAISS.downcast_VectorTransform(outer.chain.at(0))
    lists = _FAISS.downcast_index(outer.index)
    if not isinstance(rotation, _FAISS.LinearTransform) or not isinstance(lists, _FAISS.IndexIVFPQFastScan):
        return None
    # How the codes of a list are packed.
    if lists.by_residual or lists.bbs != 32 or lists.ksub != 16 or lists.M2 != lists.M:
        return None
    return rotation, lists, keys
