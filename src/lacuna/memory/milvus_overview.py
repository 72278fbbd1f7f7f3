"""Overview of a memory in Milvus, from counts and a sample that the server gives.

The words that need the memory are left out: they would need every entry.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lacuna.datastore import Entry
from lacuna.datastore.inspection import MARGIN_EDGES
from lacuna.memory.overview import MAP_POINTS, KeyMap, MarginBin, Overview, make_key_map
from lacuna.milvus import Collection
from lacuna.records import SentencePair

_FIELDS = ("sentence", "position", "value", "prediction", "known", "log_p_gold", "margin")


def collection_overview(name: str, collection: Collection) -> Overview:
    """Return the statistics of a memory in Milvus.

    :param name: The name of the memory.
    """
    entries, known = collection.count(), collection.count("known == true")
    measured = collection.count("margin >= 0") if entries else 0
    return Overview(
        name=name,
        entries=entries,
        sentences=collection.count_sentences(),
        dimension=collection.info.dimension,
        known=known,
        known_ratio=known / max(1, entries),
        bytes=0,
        index=collection.kind.name,
        made_by=None,
        margins=_margin_bins(collection) if measured else None,
        margins_outdated=0 < measured < entries,
        unmeasured=entries - measured if measured else 0,
        needed_words=[],
    )


def collection_map(name: str, collection: Collection, token_texts: Sequence[str]) -> KeyMap:
    """Return a map of keys whose numbers leave the same remainder, which is as good as a random sample."""
    step = max(1, collection.count() // MAP_POINTS)
    # Milvus Lite has no modulo; it returns those that were written first.
    where = "id >= 0" if step == 1 or collection.address.is_file else f"id % {step} == 0"
    ids = collection.entries_where(where)[:MAP_POINTS]
    columns = collection.fetch(ids, ["value", "known", "sentence", "key"])
    return make_key_map(name, columns["key"], columns["value"], columns["known"], columns["sentence"], token_texts)


def collection_entries(collection: Collection, sentence: int, pair: SentencePair) -> list[Entry]:
    """Return the entries of a sentence, in target order."""
    ids = collection.entries_where(f"sentence == {sentence}")
    columns = collection.fetch(ids, _FIELDS)
    entries = [
        Entry(
            entry=int(number),
            sentence=sentence,
            position=int(columns["position"][row]),
            value=int(columns["value"][row]),
            prediction=int(columns["prediction"][row]),
            known=bool(columns["known"][row]),
            p_gold=float(np.exp(columns["log_p_gold"][row])),
            margin=int(columns["margin"][row]) if columns["margin"][row] >= 0 else None,
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
