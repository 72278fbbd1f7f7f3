"""Summaries of a store, and listings of its entries.

Reads the manifests of index and margins as JSON, only as far as a summary needs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.files import reading
from lacuna.artifacts.manifests import read_object, unsealed
from lacuna.datastore.columns import map_array, record_of
from lacuna.datastore.manifest import Manifest
from lacuna.datastore.store import Store, open_store
from lacuna.errors import SettingError, StoreError
from lacuna.records import SentencePair

# The knowledge margins, if they were measured: one integer per entry.
MARGIN = "margin/margin.npy"
MARGIN_MANIFEST = "margin/manifest.json"
# The row numbers of the entries, if the memory was edited before.
MARGIN_ROWS = "margin/rows.npy"
# Stands for the margin of an entry that has none.
UNMEASURED = -1

MARGIN_EDGES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)


@dataclass(frozen=True, slots=True)
class StoreReport:
    """Summary of a store.

    :param known: Number of known entries.
    :param bytes: Size of the whole folder, index and margins included.
    :param index: Kind of the index, and whether it was built from the store in its current state; None for no index.
    :param margin_histogram: See :func:`margin_histogram`; None if no entry has a margin.
    :param margins_outdated: Whether entries were added or forgotten after the margins were measured.
    :param unmeasured: Number of entries that were added, which have no margin.
    :param segments: Number of segments; 1 for a store that was never edited.
    """

    path: Path
    manifest: Manifest
    known: int
    bytes: int
    index: dict[str, Any] | None
    margin_histogram: dict[str, dict[str, int]] | None
    margins_outdated: bool = False
    unmeasured: int = 0
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
            "margins_outdated": self.margins_outdated,
            "unmeasured": self.unmeasured,
        }


def inspect_store(path: str | Path) -> StoreReport:
    """Summarize a store without reading its keys."""
    return summarize_store(open_store(path))


def summarize_store(store: Store) -> StoreReport:
    """Summarize an open store without reading its keys."""
    measured = measured_margins(store)
    histogram, has = None, np.ones(store.entries, np.bool_)
    if measured is not None:
        has = measured.values != UNMEASURED
        histogram = margin_histogram(measured.values[has], store.known[has])
    return StoreReport(
        store.path,
        store.manifest,
        int(np.count_nonzero(store.known)),
        _folder_size(store.path),
        _index_of(store),
        histogram,
        measured is not None and measured.outdated,
        int(np.count_nonzero(~has)),
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
    manifests = [_read_part(part.path / "index" / "manifest.json", ("kind", "store"), again) for part in parts]
    if None in manifests:
        return None
    kinds = dict.fromkeys(content["kind"] for content in manifests if content)
    current = all(
        content["store"] == part.fingerprint for content, part in zip(manifests, parts, strict=True) if content
    )
    return {"kind": "+".join(kinds), "current": current}


class MeasuredMargins(NamedTuple):
    """The margins of a store.

    :param values: One for each entry; :data:`UNMEASURED` if it was added after they were measured. # (entries,)
    :param outdated: Whether entries were added or forgotten after they were measured, so that others may have changed.
    """

    values: NDArray[np.int32]
    outdated: bool


def measured_margins(store: Store) -> MeasuredMargins | None:
    """Return the margins of a store as they were measured; ``None`` if no entry has one.

    :mod:`lacuna.margin` can bring outdated ones up to date.
    """
    content = _read_part(store.path / MARGIN_MANIFEST, ("store", "data"), "measure the margins again")
    if content is None:
        return None
    if content["store"] == store.fingerprint:
        numbers = _read_checked(store.path / MARGIN, content["data"], np.uint16, store.entries)
        return MeasuredMargins(numbers.astype(np.int32), outdated=False)
    listed, count = content.get("rows"), content.get("entries", 0)
    saved = None if listed is None else _read_checked(store.path / MARGIN_ROWS, listed, np.int64, count)
    rows = measured_rows(store, content["store"], saved)
    if rows is None:
        return None
    here, kept = np.isin(store.rows, rows), np.isin(rows, store.rows)
    if not here.any():
        return None
    values = np.full(store.entries, UNMEASURED, np.int32)
    values[here] = _read_checked(store.path / MARGIN, content["data"], np.uint16, len(rows))[kept]
    return MeasuredMargins(values, outdated=not (here.all() and kept.all()))


def measured_rows(store: Store, measured: str, saved: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    """Return the row number of each entry that had a margin before a memory was edited; ``None`` if that is unknown.

    :param measured: Fingerprint of the store whose margins were measured.
    :param saved: The row numbers that were saved with the margins, unless the store had not been edited yet.
    """
    if store.segments is None or saved is not None:
        return None if store.segments is None else saved
    first = store.segments[0].store if store.segments else None
    return first.rows if first is not None and first.fingerprint == measured else None


def _read_checked(path: Path, record: object, dtype: type[np.integer[Any]], count: int) -> NDArray[Any]:
    """Read an array of margins, if it is the one that the manifest describes."""
    with reading(path, "measure the margins again"):
        if not isinstance(record, dict) or not path.is_file() or record_of(path).xxh3 != record.get("xxh3"):
            raise StoreError(f"{path}: missing or damaged; measure the margins again")
    return map_array(path, dtype, (count,))


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
    (of_known, _), (of_unknown, _) = (np.histogram(margins[entries], bins=edges) for entries in (known, ~known))
    return {
        str(edge): {"known": int(known_count), "unknown": int(unknown_count)}
        for edge, known_count, unknown_count in zip(MARGIN_EDGES, of_known, of_unknown, strict=True)
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
    margins: NDArray[np.integer[Any]] | None = None,
    limit: int = 50,
) -> list[Entry]:
    """List the entries of a sentence, the entries with a value, or both; at most ``limit``, in order.

    :param margins: The margins of all entries, to be included; :data:`UNMEASURED` for none.
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


def _entry(store: Store, row: int, margins: NDArray[np.integer[Any]] | None) -> Entry:
    sentence = int(store.sentence[row])
    return Entry(
        entry=row,
        sentence=sentence,
        position=int(store.position[row]),
        value=int(store.values[row]),
        prediction=int(store.predictions[row]),
        known=bool(store.known[row]),
        p_gold=float(np.exp(store.log_p_gold[row])),
        margin=None if margins is None or margins[row] == UNMEASURED else int(margins[row]),
        pair=store.sentences[sentence],
    )
