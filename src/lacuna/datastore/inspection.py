"""What is in a store: a few numbers, or its entries one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.manifest import Manifest
from lacuna.datastore.store import Store, open_store
from lacuna.errors import SettingError, StoreError
from lacuna.records import SentencePair

# Where the knowledge margins of the entries are, once measured: whole numbers, one for each entry.
MARGIN = "margin/margin.npy"
MARGIN_MANIFEST = "margin/manifest.json"

_MARGIN_EDGES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What is in a store.

    :param known: Entries whose value the model would have said by itself.
    :param bytes: Size of the whole folder, with index and margins.
    :param index: The kind of the store's index, and whether it was made of the store as it is; ``None`` for no index.
    :param margin_histogram: See :func:`margin_histogram`; ``None`` where the store as it is has none.
    """

    path: Path
    manifest: Manifest
    known: int
    bytes: int
    index: dict[str, Any] | None
    margin_histogram: dict[str, dict[str, int]] | None

    @property
    def known_ratio(self) -> float:
        """The share of entries that are known."""
        return self.known / self.manifest.entries if self.manifest.entries else 0.0

    def as_json(self) -> dict[str, Any]:
        """Give the report as JSON has it."""
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
            "model": manifest.model.model_dump(mode="json"),
            "parent": None if manifest.parent is None else manifest.parent.model_dump(mode="json"),
            "index": self.index,
            "margin_histogram": self.margin_histogram,
        }


def inspect_store(path: str | Path) -> StoreReport:
    """Look at a store without reading its keys."""
    store = open_store(path)
    size = sum(file.stat().st_size for file in store.path.rglob("*") if file.is_file())
    return StoreReport(
        store.path,
        store.manifest,
        int(np.count_nonzero(store.known)),
        size,
        _index_of(store),
        _margins_of(store),
    )


def _index_of(store: Store) -> dict[str, Any] | None:
    path = store.path / "index" / "manifest.json"
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {"kind": content["kind"], "current": content["store"] == store.fingerprint}
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: not the manifest of an index ({error}); make the index again") from error


def _margins_of(store: Store) -> dict[str, dict[str, int]] | None:
    path, manifest = store.path / MARGIN, store.path / MARGIN_MANIFEST
    if not manifest.is_file():
        return None
    try:
        if json.loads(manifest.read_text(encoding="utf-8"))["store"] != store.fingerprint:
            return None
        margins = np.load(path, mmap_mode="r" if store.entries else None, allow_pickle=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path.parent}: cannot be read ({error}); measure the margins again") from error
    if margins.shape != (store.entries,):
        raise StoreError(f"{path}: has shape {margins.shape}, not {(store.entries,)}; measure the margins again")
    return margin_histogram(margins, store.known)


def margin_histogram(
    margins: NDArray[np.integer[Any]], known: NDArray[np.bool_]
) -> dict[str, dict[str, int]]:  # {least: {"known": count, "unknown": count}}
    """Count entries by knowledge margin, known and unknown ones apart; a bin is named by its least margin."""
    edges = [*_MARGIN_EDGES, np.inf]
    (of_known, _), (of_unknown, _) = (np.histogram(margins[some], bins=edges) for some in (known, ~known))
    return {
        str(edge): {"known": int(one), "unknown": int(other)}
        for edge, one, other in zip(_MARGIN_EDGES, of_known, of_unknown, strict=True)
    }


@dataclass(frozen=True, slots=True)
class Entry:
    """What a store knows of one entry.

    :param entry: Its row.
    :param value: The right token.
    :param prediction: The token the model found most probable.
    :param p_gold: The model's probability of the right token.
    :param margin: The knowledge margin, where it was measured.
    :param pair: The sentence pair it comes from, with file and place.
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
        """Give the entry as JSON has it."""
        return asdict(self)


def entries_of(
    store: Store,
    *,
    sentence: int | None = None,
    token: int | None = None,
    margins: NDArray[np.uint16] | None = None,
    limit: int = 50,
) -> list[Entry]:
    """List the entries of a sentence, or those with a certain value, or both; at most ``limit``, in order.

    :param margins: Of all entries, if they are to be shown.
    """
    if sentence is None and token is None:
        raise SettingError("sentence, token: got neither; say which entries to list")
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
