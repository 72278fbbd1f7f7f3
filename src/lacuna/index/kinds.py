"""Kinds of index: parsing their names, choosing one by the size of a store, and their default search settings.

Opens no store and builds nothing.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass

from lacuna.errors import IndexingError

AUTO = "auto"
EXACT = "exact"
FORMS = (
    'auto, exact, or a faiss factory string such as "PCAR160,IVF512,PQ80x4fs,Refine(SQfp16)", "HNSW32_SQfp16", '
    '"IVF4096,PQ64", "IVF256,Flat" or "Flat"'
)

# Rows times dimension: from 8,000 256-dimensional keys on, exact search is slower than an index.
EXACT_BELOW = 8_000 * 256
# From this many rows on, short lists that are found by a graph pay for the longer build: at equal recall or better, a
# search takes three quarters of the time with 5 million keys, and nearly the same time with 1 million.
GRAPH_FROM = 2_000_000
# Size of a row number in an IVF list.
_ID_BYTES = 8

# Above these, faiss takes minutes or all memory before it fails.
_MAX_LINKS = 512
_MAX_BITS = 12
_PAPER = re.compile(r"IVF[0-9]+k?,PQ[0-9]+(x8)?(np)?")
_LISTS = re.compile(r"(?:^|,)IVF([0-9]+)(k?)")
_GRAPH = re.compile(r"(?:^|,)HNSW([0-9]+)")
_LIST_GRAPH = re.compile(r"(?:^|,)IVF[0-9]+k?_HNSW")
_BITS = re.compile(r"PQ[0-9]+x([0-9]+)")
_REFINED = re.compile(r"Refine\(|RFlat")
_REDUCED = re.compile(r"PCA|OPQ|ITQ|Pad|RR\d|SQfp16|SQ|PQ|RaBitQ|LSH|RQ|AQ|LSQ|ZnLattice|Panorama")
_BARRED = {
    "IDMap": "ids are the row numbers of the store already",
    "L2norm": "it changes the distances",
    "NSG": "it cannot be filled block by block; HNSW32 is as fast",
}


@dataclass(frozen=True, slots=True)
class SearchDefaults:
    """Default search settings by kind of index.

    :param nprobe: IVF kinds.
    :param nprobe_refine: IVF kinds with ``Refine``. Re-ranking in memory loses so little that reading more lists is
        the main cost: with decoder states as queries, 12 lists find 94 to 95 % of the neighbors; with 6, BLEU drops.
    :param ef_search: HNSW kinds.
    :param nprobe_graph: IVF kinds with ``Refine`` whose lists are found by a graph: more and shorter lists.
    :param rerank: Kinds with lossy codes.
    :param rerank_graph: The same kinds. They are for large stores, where more candidates have nearly the same distance.
    :param rerank_sq: Kinds whose only codes are scalar-quantized (``SQ8``), which lose less.
    """

    nprobe: int = 32
    nprobe_refine: int = 12
    nprobe_graph: int = 16
    ef_search: int = 48
    rerank: int = 8
    rerank_graph: int = 12
    rerank_sq: int = 2


_DEFAULTS = SearchDefaults()


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How an index is searched; settings that do not apply to its kind are None.

    :param nprobe: IVF lists that a search reads (IVF kinds).
    :param ef_search: Size of the candidate list (HNSW kinds).
    :param rerank: Candidates per neighbor that are re-ranked by exact distance; 0 for none.
    """

    nprobe: int | None = None
    ef_search: int | None = None
    rerank: int = 0


@dataclass(frozen=True, slots=True)
class IndexKind:
    """A kind of index, parsed from its name.

    :param name: ``exact``, or the faiss factory string.
    :param lists: Number of IVF lists, 0 if there are none.
    :param graph: Whether it is an HNSW graph.
    """

    name: str
    lists: int = 0
    graph: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether it is exact search, which needs no index file."""
        return self.name == EXACT

    @property
    def is_paper(self) -> bool:
        """Whether it is IVF with product quantization and nothing else, as in kNN-MT papers."""
        return _PAPER.fullmatch(self.name) is not None

    @property
    def refines(self) -> bool:
        """Whether the index stores a second, better copy of the keys and re-ranks candidates itself."""
        return _REFINED.search(self.name) is not None

    @property
    def has_list_graph(self) -> bool:
        """Whether the lists of a query are found by an HNSW graph of their centroids."""
        return _LIST_GRAPH.search(self.name) is not None

    @property
    def training_rows(self) -> int:
        """Number of keys to train on, if the store has that many.

        Papers train on a million keys for 4096 lists, 256 per list; 64 per list give nearly the same lists in a
        quarter of the time (faiss recommends 39 to 256). Kinds with a graph of the lists have many lists and get 40 per
        list. Product quantization gets 65,536: 256 for each of 256 centroids.
        """
        per_list = 256 if self.is_paper else 40 if self.has_list_graph else 64
        return max(65_536, per_list * self.lists)

    @property
    def defaults(self) -> SearchSettings:
        """The search settings of this kind, unless others are given.

        Half-precision codes of centered keys change a distance by less than 0.1 %, so they need no re-ranking.
        """
        large = self.refines and self.has_list_graph
        refined = _DEFAULTS.nprobe_graph if large else _DEFAULTS.nprobe_refine
        nprobe = min(refined if self.refines else _DEFAULTS.nprobe, self.lists)
        lossy = set(_REDUCED.findall(self.name)) - {"SQfp16"}
        if self.is_exact or self.is_paper or not (lossy or self.refines):
            rerank = 0
        elif large:
            rerank = _DEFAULTS.rerank_graph
        else:
            rerank = _DEFAULTS.rerank_sq if lossy == {"SQ"} and not self.refines else _DEFAULTS.rerank
        return SearchSettings(nprobe or None, _DEFAULTS.ef_search if self.graph else None, rerank)


@dataclass(frozen=True, slots=True)
class KindChoice:
    """A kind, and the reason for choosing it."""

    kind: IndexKind
    why: str


def choose_kind(asked: str, rows: int, dimension: int, memory: int | None = None) -> KindChoice:
    """Parse a kind, or choose one by the size of the store (``auto``).

    :param memory: Memory of the machine in bytes; by default, of this machine.
    """
    if asked.lower() == EXACT:
        return KindChoice(IndexKind(EXACT), "asked for")
    if asked.lower() != AUTO:
        return KindChoice(_read_factory(asked), "asked for")
    if rows * dimension < EXACT_BELOW:
        return KindChoice(IndexKind(EXACT), f"{rows:,} entries: exact search is fast enough")
    memory = _physical_memory() if memory is None else memory
    # The last principal components hardly change the order of neighbors, so the codes omit them; candidates are
    # re-ranked by whole keys. One code covers two components.
    codes = max(1, 5 * dimension // 16)
    needed = rows * (2 * dimension + codes // 2 + _ID_BYTES)
    if needed <= memory / 2:
        lists, graph = (round(math.sqrt(rows)), "") if rows < GRAPH_FROM else (round(4 * math.sqrt(rows)), "_HNSW32")
        name = f"PCAR{2 * codes},IVF{lists}{graph},PQ{codes}x4fs,Refine(SQfp16)"
        why = f"{rows:,} entries: short codes, re-ranked by half-precision keys in memory ({needed / 2**20:,.0f} MiB)"
        return KindChoice(IndexKind(name, lists=lists), why)
    # Reading a key from disk costs more than comparing a code, so codes are longer and lists shorter.
    codes, lists = max(1, 3 * dimension // 8), round(2 * math.sqrt(rows))
    why = f"{rows:,} entries, whose keys would take over half of the memory: short codes, re-ranked by keys on disk"
    return KindChoice(IndexKind(f"PCAR{2 * codes},IVF{lists},PQ{codes}x4fs", lists=lists), why)


def search_settings(
    kind: IndexKind, nprobe: int | None = None, ef_search: int | None = None, rerank: int | None = None
) -> SearchSettings:
    """Complete the settings with the defaults of a kind.

    :raises IndexingError: A setting does not apply to this kind or is out of range.
    """
    if nprobe is not None and not kind.lists:
        raise IndexingError(f"nprobe: got {nprobe}, but {kind.name} has no lists; omit it, or use an IVF kind")
    if ef_search is not None and not kind.graph:
        raise IndexingError(f"ef_search: got {ef_search}, but {kind.name} has no graph; omit it, or use an HNSW kind")
    if nprobe is not None and not 1 <= nprobe <= kind.lists:
        raise IndexingError(f"nprobe: got {nprobe}, {kind.name} has {kind.lists:,} lists; allowed: 1 to {kind.lists:,}")
    if ef_search is not None and ef_search < 1:
        raise IndexingError(f"ef_search: got {ef_search}; allowed: 1 or more")
    if rerank == 0 and kind.refines:
        raise IndexingError(f"rerank: got 0, but {kind.name} always re-ranks; allowed: 1 or more")
    if rerank is not None and (rerank < 0 or (rerank and kind.is_exact)):
        raise IndexingError(f"rerank: got {rerank}; allowed: 0 or more, and 0 for exact, whose distances are exact")
    defaults = kind.defaults
    return SearchSettings(
        nprobe=nprobe or defaults.nprobe,
        ef_search=ef_search or defaults.ef_search,
        rerank=defaults.rerank if rerank is None else rerank,
    )


def unknown_kind(text: str, why: str) -> IndexingError:
    """Return the error for a kind that cannot be built; it lists the allowed ones."""
    return IndexingError(f"kind: got {text!r}, {why}; allowed: {FORMS}")


def _read_factory(text: str) -> IndexKind:
    for part, why in _BARRED.items():
        if part.lower() in text.lower():
            raise unknown_kind(text, f"{part} is not for stores ({why})")
    lists, graph, bits = _LISTS.search(text), _GRAPH.search(text), _BITS.search(text)
    count = int(lists[1]) * (1024 if lists[2] else 1) if lists else 0
    if lists and not count:
        raise unknown_kind(text, "lists must be 1 or more")
    if graph and not 2 <= int(graph[1]) <= _MAX_LINKS:
        raise unknown_kind(text, f"a graph must have 2 to {_MAX_LINKS} links per key")
    if bits and int(bits[1]) > _MAX_BITS:
        raise unknown_kind(text, f"a code may have at most {_MAX_BITS} bits")
    return IndexKind(text, lists=count, graph=graph is not None)


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (
        AttributeError,
        ValueError,
        OSError,
    ):  # not available on every system; then memory does not limit the choice
        return 1 << 62
