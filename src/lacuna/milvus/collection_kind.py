"""Kinds of index that a collection can have, and their search settings. Does not connect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lacuna.errors import IndexingError

KIND = "milvus"
FORMS = "milvus, milvus:HNSW, milvus:FLAT, milvus:IVF_FLAT or milvus:IVF_SQ8"

_LINKS, _EF_CONSTRUCTION = 32, 100
_EF, _NPROBE = 64, 32
_MAX_VALUE = 65_536
_SEGMENT_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class CollectionKind:
    """The index of a collection.

    :param index: The name of the index type in Milvus.
    :param ef: Size of the candidate list of an HNSW search.
    :param nprobe: Lists that an IVF search reads.
    :param rerank: Candidates per neighbor that are re-ranked by the true distances.
    """

    index: str = "HNSW"
    ef: int | None = None
    nprobe: int | None = None
    rerank: int = 1

    @classmethod
    def parse(
        cls, kind: str, ef: int | None = None, nprobe: int | None = None, rerank: int | None = None
    ) -> CollectionKind:
        """Read a kind such as ``milvus:FLAT`` and complete its settings.

        :raises IndexingError: The kind is unknown, or a setting does not apply to it.
        """
        name, _, index = kind.partition(":")
        index = index.upper() or "HNSW"
        if name != KIND or index not in ("HNSW", "FLAT", "IVF_FLAT", "IVF_SQ8"):
            raise IndexingError(f"kind: got {kind!r}; allowed: {FORMS}")
        for option, value, owner in (("ef", ef, "HNSW"), ("nprobe", nprobe, "IVF")):
            if value is not None and not index.startswith(owner):
                raise IndexingError(f"{option}: got {value}, but {kind} is not of a kind with {owner}; omit it")
            if value is not None and not 1 <= value <= _MAX_VALUE:
                raise IndexingError(f"{option}: got {value}; allowed: 1 to {_MAX_VALUE:,}")
        if rerank is not None and rerank < 1:
            raise IndexingError(f"rerank: got {rerank}; allowed: 1 or more")
        return cls(
            index,
            (ef or _EF) if index == "HNSW" else None,
            (nprobe or _NPROBE) if index.startswith("IVF") else None,
            rerank or (4 if index == "IVF_SQ8" else 1),
        )

    @property
    def name(self) -> str:
        """The kind as on the command line."""
        return f"{KIND}:{self.index}"

    @property
    def queries_at_once(self) -> int:
        """Maximum number of queries of a request: comparing all entries with many of them would exceed a deadline."""
        return 64 if self.index == "FLAT" else 1024

    def build_params(self, rows: int, dimension: int) -> dict[str, int]:
        """Return the parameters of the index for this number of entries.

        Milvus builds an index for each of its segments, which have 512 MiB by default. More lists than the square root
        of the number of entries, as Milvus recommends, take it minutes for each segment.
        """
        if self.index == "HNSW":
            return {"M": _LINKS, "efConstruction": _EF_CONSTRUCTION}
        if self.index == "FLAT":
            return {}
        return {"nlist": max(1, round(math.sqrt(min(rows, _SEGMENT_BYTES // (4 * dimension)))))}

    def search_params(self, candidates: int) -> dict[str, Any]:
        """Return the parameters of a search for this many candidates; efSearch must not be smaller."""
        params: dict[str, int] = {}
        if self.ef is not None:
            params["ef"] = max(self.ef, candidates)
        if self.nprobe is not None:
            params["nprobe"] = self.nprobe
        return {"metric_type": "L2", "params": params}
