"""Summaries of a store, and listings of its entries.

Reads the manifests of index and margins only as far as a summary needs; knows nothing of how both are built.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.columns import map_array, record_of
from lacuna.datastore.manifest import Manifest
from lacuna.datastore.store import Store, open_store
from lacuna.errors import SettingError, StoreError
from lacuna.files import reading
from lacuna.manifests import read_object, unsealed
from lacuna.records import SentencePair

# The knowledge margins, if they were measured: one integer per entry.
MARGIN = "margin/margin.npy"
MARGIN_MANIFEST = "margin/manifest.json"

MARGIN_EDGES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)


@dataclass(frozen=True, slots=True)
class StoreReport:
    """Summary of a store.

    :param known: Number of known entries.
    :param bytes: Size of the whole folder, index and margins included.
    :param index: Kind of the index, and whether it was built from the store in its current state; None for no index.
    :param margin_histogram: See :func:`margin_histogram`; None if the store has no current margins.
    :param segments: Number of segments; 1 for a store that was never edited.
    """

    path: Path
    manifest: Manifest
    known: int
    bytes: int
    index: dict[str, Any] | None
    margin_histogram: dict[str, dict[str, int]] | None
    segments: int = 1

    @property
    def known_ratio(self) -> float:
        """Share of known entries."""
        return self.known / self.manifest.entries if self.manifest.entries else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON content."""
        manifest = self.manifest
        return {
            "store": str(self.path),
            "entries": manifest.entries,
            "sentences": manifest.sentences,
            "skipped": manifest.skipped,
            "dimension": manifest.dimension,
            "known": self.known,
            "known_ratio": self.known_ratio,
            "bytes": self.bytes,
            "shards": len(manifest.shards),
            "segments": self.segments,
            "model": manifest.model.model_dump(mode="json"),
            "parent": None if manifest.parent is None else manifest.parent.model_dump(mode="json"),
            "index": self.index,
            "margin_histogram": self.margin_histogram,
        }


def inspect_store(path: str | Path) -> StoreReport:
    """Summarize a store without reading its keys."""
    return summarize_store(open_store(path))


def summarize_store(store: Store) -> StoreReport:
    """Summarize an open store without reading its keys."""
    return StoreReport(
        store.path,
        store.manifest,
        int(np.count_nonzero(store.known)),
        _folder_size(store.path),
        _index_of(store),
        _margins_of(store),
        1 if store.segments is None else len(store.segments),
    )


def _folder_size(folder: Path) -> int:
    """Return the size of all files; folders that an edit removes meanwhile are left out, which Path.rglob cannot."""
    return sum(_size(Path(parent) / name) for parent, _, names in os.walk(folder) for name in names)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # an edit has just removed it
        return 0


def _index_of(store: Store) -> dict[str, Any] | None:
    link = _read_part(store.path / "milvus.json", ("index", "segments"), "publish the store again")
    if link is not None:
        numbers = [(segment["number"], segment["store"]) for segment in link["segments"]]
        current = numbers == [(part.store.number, part.store.fingerprint) for part in store.parts]
        return {"kind": f"milvus:{link['index']}", "current": current}
    parts = [segment.store for segment in store.parts]
    again = "build the index again"
    found = [_read_part(part.path / "index" / "manifest.json", ("kind", "store"), again) for part in parts]
    if None in found:
        return None
    kinds = dict.fromkeys(content["kind"] for content in found if content)
    current = all(content["store"] == part.fingerprint for content, part in zip(found, parts, strict=True) if content)
    return {"kind": "+".join(kinds), "current": current}


def _margins_of(store: Store) -> dict[str, dict[str, int]] | None:
    content = _read_part(store.path / MARGIN_MANIFEST, ("store", "data"), "measure the margins again")
    if content is None or content["store"] != store.fingerprint:
        return None
    path, data = store.path / MARGIN, content["data"]
    with reading(path, "measure the margins again"):
        if not isinstance(data, dict) or not path.is_file() or record_of(path).xxh3 != data.get("xxh3"):
            raise StoreError(f"{path}: missing or damaged; measure the margins again")
    margins = cast(NDArray[np.uint16], map_array(path, np.uint16, (store.entries,)))
    return margin_histogram(margins, store.known)


def _read_part(path: Path, keys: tuple[str, ...], again: str) -> dict[str, Any] | None:
    """Read the manifest of an index or of margins; None if there is none."""
    if not path.is_file():
        return None
    content = unsealed(read_object(path, StoreError, missing=f"{path}: missing; {again}", again=again))
    if content is None:
        raise StoreError(f"{path}: changed or damaged; {again}")
    lacking = [key for key in keys if key not in content]
    if lacking:
        raise StoreError(f"{path}: no {' and no '.join(lacking)} in it; {again}")
    return content


def margin_histogram(
    margins: NDArray[np.integer[Any]], known: NDArray[np.bool_]
) -> dict[str, dict[str, int]]:  # {smallest: {"known": count, "unknown": count}}
    """Count known and unknown entries by knowledge margin; each bin is named by its smallest margin."""
    edges = [*MARGIN_EDGES, np.inf]
    (of_known, _), (of_unknown, _) = (np.histogram(margins[some], bins=edges) for some in (known, ~known))
    return {
        str(edge): {"known": int(one), "unknown": int(other)}
        for edge, one, other in zip(MARGIN_EDGES, of_known, of_unknown, strict=True)
    }


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a store.

    :param entry: Its row.
    :param value: The target token.
    :param prediction: The most probable token for the model.
    :param p_gold: The probability of the value for the model.
    :param margin: The knowledge margin, if it was measured.
    :param pair: The sentence pair, with its origin.
    """

    entry: int
    sentence: int
    position: int
    value: int
    prediction: int
    known: bool
    p_gold: float
    margin: int | None
    pair: SentencePair

    def as_json(self) -> dict[str, Any]:
        """Return the entry as JSON content."""
        return asdict(self)


def entries_of(
    store: Store,
    *,
    sentence: int | None = None,
    token: int | None = None,
    margins: NDArray[np.uint16] | None = None,
    limit: int = 50,
) -> list[Entry]:
    """List the entries of a sentence, the entries with a value, or both; at most ``limit``, in order.

    :param margins: The margins of all entries, to be included.
    """
    if sentence is None and token is None:
        raise SettingError("sentence, token: got neither; choose the entries to list with one of them")
    if sentence is not None and not 0 <= sentence < len(store.sentences):
        raise SettingError(f"sentence: got {sentence}; {store.path} has sentences 0 to {len(store.sentences) - 1}")
    chosen = np.ones(store.entries, dtype=np.bool_)
    if sentence is not None:
        chosen &= store.sentence == sentence
    if token is not None:
        chosen &= store.values == token
    return [_entry(store, row, margins) for row in _rows(chosen, limit)]


def _rows(chosen: NDArray[np.bool_], limit: int) -> Sequence[int]:
    if limit < 1:
        raise SettingError(f"limit: got {limit}; allowed is 1 or more")
    rows: list[int] = np.flatnonzero(chosen)[:limit].tolist()
    return rows


def _entry(store: Store, row: int, margins: NDArray[np.uint16] | None) -> Entry:
    sentence = int(store.sentence[row])
    return Entry(
        entry=row,
        sentence=sentence,
        position=int(store.position[row]),
        value=int(store.values[row]),
        prediction=int(store.predictions[row]),
        known=bool(store.known[row]),
        p_gold=float(np.exp(store.log_p_gold[row])),
        margin=None if margins is None else int(margins[row]),
        pair=store.sentences[sentence],
    )
