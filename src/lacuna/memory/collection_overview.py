"""Overview of a memory in Milvus, from counts and a sample that the server gives.

The words that need the memory are left out: they would need every entry.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lacuna.datastore import Entry
from lacuna.datastore.inspection import MARGIN_EDGES
from lacuna.memory.base import CollectionMemory
from lacuna.memory.overview import MAP_POINTS, KeyMap, MarginBin, Overview, make_key_map
from lacuna.milvus import Collection

_FIELDS = ("sentence", "position", "value", "prediction", "known", "log_p_gold", "margin")


def collection_overview(memory: CollectionMemory) -> Overview:
    """Return the statistics of a memory in Milvus."""
    collection, store = memory.index.collection, memory.store
    entries, known = collection.count(), collection.count("known == true")
    measured = collection.count("margin >= 0") if entries else 0
    return Overview(
        name=memory.name,
        entries=entries,
        sentences=len(store.sentences),
        dimension=store.dimension,
        known=known,
        known_ratio=known / max(1, entries),
        bytes=0,
        index=memory.index.kind,
        made_by=None,
        margins=_margin_bins(collection) if measured else None,
        margins_outdated=0 < measured < entries,
        unmeasured=entries - measured if measured else 0,
        needed_words=[],
    )


def collection_map(memory: CollectionMemory, token_texts: Sequence[str]) -> KeyMap:
    """Return a map of keys whose numbers leave the same remainder, which is as good as a random sample."""
    collection = memory.index.collection
    step = max(1, collection.count() // MAP_POINTS)
    ids = collection.entries_where(f"id % {step} == 0")[:MAP_POINTS]
    found = collection.fetch(ids, ["value", "known", "sentence"], keys=True)
    return make_key_map(memory.name, found["key"], found["value"], found["known"], found["sentence"], token_texts)


def collection_entries(memory: CollectionMemory, sentence: int) -> list[Entry]:
    """Return the entries of a sentence, in target order."""
    collection = memory.index.collection
    ids = collection.entries_where(f"sentence == {sentence}")
    found = collection.fetch(ids, _FIELDS)
    pair = memory.store.sentences[sentence]
    entries = [
        Entry(
            entry=int(number),
            sentence=sentence,
            position=int(found["position"][row]),
            value=int(found["value"][row]),
            prediction=int(found["prediction"][row]),
            known=bool(found["known"][row]),
            p_gold=float(np.exp(found["log_p_gold"][row])),
            margin=int(found["margin"][row]) if found["margin"][row] >= 0 else None,
            pair=pair,
        )
        for row, number in enumerate(ids)
    ]
    return sorted(entries, key=lambda entry: entry.position)


def _margin_bins(collection: Collection) -> list[MarginBin]:
    bins = []
    for least, following in zip(MARGIN_EDGES, (*MARGIN_EDGES[1:], None), strict=True):
        where = f"margin >= {least}" + ("" if following is None else f" and margin < {following}")
        known, unknown = (collection.count(f"{where} and known == {flag}") for flag in ("true", "false"))
        bins.append(MarginBin(least, known, unknown))
    return bins
