"""Kinds of index: which are known, which suits a store, and how each is searched unless told otherwise.

Text in, settings out: this module opens no store and builds nothing.
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

# Numbers in all keys together: from 8,000 keys of 256 on, comparing with all of them takes longer than an index.
EXACT_BELOW = 8_000 * 256
_PROBES = 32
# Where candidates are ranked anew in memory, codes lose so little that reading more lists is what costs: on states of a
# decoder, these find 94 to 95 % of the neighbors, and 6 probes so few that BLEU falls.
_PROBES_REFINED = 12
# Of an entry in a list: its row number.
_ID_BYTES = 8

# Above these, faiss takes minutes or all memory before it fails; no store is served by them.
_MOST_LINKS = 512
_MOST_BITS = 12
_PAPER = re.compile(r"IVF[0-9]+k?,PQ[0-9]+(x8)?(np)?")
_LISTS = re.compile(r"(?:^|,)IVF([0-9]+)(k?)")
_GRAPH = re.compile(r"(?:^|,)HNSW([0-9]+)")
_BITS = re.compile(r"PQ[0-9]+x([0-9]+)")
_REFINED = re.compile(r"Refine\(|RFlat")
_REDUCED = re.compile(r"PCA|OPQ|ITQ|Pad|RR\d|SQfp16|SQ|PQ|RaBitQ|LSH|RQ|AQ|LSQ|ZnLattice|Panorama")
_BARRED = {
    "IDMap": "ids are the row numbers of the store already",
    "L2norm": "it changes the distances",
    "NSG": "it cannot be filled block by block; HNSW32 is as quick",
}


@dataclass(frozen=True, slots=True)
class IndexKind:
    """A kind of index, read from its name.

    :param name: ``exact``, or the faiss factory string.
    :param lists: Inverted lists, 0 if it has none.
    :param graph: Whether keys are found by walking a graph.
    """

    name: str
    lists: int = 0
    graph: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether it needs no data of its own."""
        return self.name == EXACT

    @property
    def is_paper(self) -> bool:
        """Whether it is inverted lists with product codes and nothing else, as kNN-MT papers use it."""
        return _PAPER.fullmatch(self.name) is not None

    @property
    def refines(self) -> bool:
        """Whether the index holds a second, better form of the keys, by which it ranks candidates anew itself."""
        return _REFINED.search(self.name) is not None

    @property
    def probes(self) -> int | None:
        """Lists to read for each query, None where there are none."""
        return min(_PROBES_REFINED if self.refines else _PROBES, self.lists) or None

    @property
    def training_rows(self) -> int:
        """Keys to draw for training, where there are that many.

        Papers draw a million for 4096 lists, 256 each; 64 each give nearly the same lists in a quarter of the
        time (faiss itself asks for 39 to 256). Code books want 65,536: 256 for each of 256 words.
        """
        return max(65_536, (256 if self.is_paper else 64) * self.lists)

    @property
    def rerank(self) -> int:
        """Candidates per neighbor whose distances are computed anew, 0 for none.

        Half-precision codes of centered keys round each distance by less than a thousandth: nothing to mend.
        """
        if self.is_exact or self.is_paper:
            return 0
        if self.refines:
            return 8
        reduced = set(_REDUCED.findall(self.name)) - {"SQfp16"}
        if not reduced:
            return 0
        return 2 if reduced == {"SQ"} else 8


@dataclass(frozen=True, slots=True)
class KindChoice:
    """A kind and why it was chosen."""

    kind: IndexKind
    why: str


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How an index is searched; what does not apply to its kind is None.

    :param probes: Inverted lists that are read for each query.
    :param ef: Candidates that a walk through the graph keeps.
    :param rerank: So many candidates per neighbor get their true distance from the keys; 0 takes the index's word.
    """

    probes: int | None = None
    ef: int | None = None
    rerank: int = 0


def choose_kind(asked: str, rows: int, dimension: int, memory: int | None = None) -> KindChoice:
    """Read a kind, or choose one by the size of the store (``auto``).

    :param memory: Bytes of memory of the machine; without it, those this machine has.
    """
    if asked.lower() == EXACT:
        return KindChoice(IndexKind(EXACT), "asked for")
    if asked.lower() != AUTO:
        return KindChoice(_read_factory(asked), "asked for")
    if rows * dimension < EXACT_BELOW:
        return KindChoice(IndexKind(EXACT), f"{rows:,} entries: exact search is quick enough")
    memory = _physical_memory() if memory is None else memory
    # The directions in which keys differ least say next to nothing of who is near, and are left out of the codes;
    # candidates are ranked by whole keys. Two directions share a code.
    codes = max(1, 5 * dimension // 16)
    needed = rows * (2 * dimension + codes // 2 + _ID_BYTES)
    if needed <= memory / 2:
        lists = round(math.sqrt(rows))
        why = (
            f"{rows:,} entries: short codes, and half-precision keys to rank by, in memory ({needed / 2**20:,.0f} MiB)"
        )
        return KindChoice(IndexKind(f"PCAR{2 * codes},IVF{lists},PQ{codes}x4fs,Refine(SQfp16)", lists=lists), why)
    # Reading a key from disk costs more than comparing a code, so codes tell more, and lists are shorter.
    codes, lists = max(1, 3 * dimension // 8), round(2 * math.sqrt(rows))
    why = f"{rows:,} entries, whose keys would take over half of the memory: short codes, ranked by the keys on disk"
    return KindChoice(IndexKind(f"PCAR{2 * codes},IVF{lists},PQ{codes}x4fs", lists=lists), why)


def search_settings(
    kind: IndexKind, probes: int | None = None, ef: int | None = None, rerank: int | None = None
) -> SearchSettings:
    """Fill in the settings not given; refuse those that mean nothing for this kind."""
    if probes is not None and not kind.lists:
        raise IndexingError(f"probes: got {probes}, but {kind.name} has no lists; leave it out or use a kind with IVF")
    if ef is not None and not kind.graph:
        raise IndexingError(f"ef: got {ef}, but {kind.name} has no graph; leave it out or use a kind with HNSW")
    if probes is not None and not 1 <= probes <= kind.lists:
        raise IndexingError(f"probes: got {probes}, {kind.name} has {kind.lists:,} lists; allowed: 1 to {kind.lists:,}")
    if ef is not None and ef < 1:
        raise IndexingError(f"ef: got {ef}; allowed: 1 or more")
    if rerank == 0 and kind.refines:
        raise IndexingError(f"rerank: got 0, but {kind.name} is made to rank anew; allowed: 1 or more")
    if rerank is not None and (rerank < 0 or (rerank and kind.is_exact)):
        raise IndexingError(f"rerank: got {rerank}; allowed: 0 or more, and 0 for exact, whose distances are true")
    return SearchSettings(
        probes=probes or kind.probes,
        ef=ef or (48 if kind.graph else None),
        rerank=kind.rerank if rerank is None else rerank,
    )


def unknown_kind(text: str, why: str) -> IndexingError:
    """Say that a kind cannot be made, and which can."""
    return IndexingError(f"kind: got {text!r}, {why}; allowed: {FORMS}")


def _read_factory(text: str) -> IndexKind:
    for part, why in _BARRED.items():
        if part.lower() in text.lower():
            raise unknown_kind(text, f"{part} is not for stores ({why})")
    lists, graph, bits = _LISTS.search(text), _GRAPH.search(text), _BITS.search(text)
    count = int(lists[1]) * (1024 if lists[2] else 1) if lists else 0
    if lists and not count:
        raise unknown_kind(text, "lists must be 1 or more")
    if graph and not 2 <= int(graph[1]) <= _MOST_LINKS:
        raise unknown_kind(text, f"a graph must have 2 to {_MOST_LINKS} links per key")
    if bits and int(bits[1]) > _MOST_BITS:
        raise unknown_kind(text, f"a code may have at most {_MOST_BITS} bits")
    return IndexKind(text, lists=count, graph=graph is not None)


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system tells; then the number of entries decides
        return 1 << 62
