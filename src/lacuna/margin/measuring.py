"""Measuring the knowledge margin of every entry of a store (PLAC, section 3): ``lacuna margin``.

The margin of an entry is the number of its neighbors, nearest first, that are known, up to the first that is not. The
entry itself is left out by number; of equally near neighbors the unknown come first. Knows nothing of pruning.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.datastore.inspection import margin_histogram
from lacuna.errors import StoreError
from lacuna.margin.manifest import (
    FOLDER,
    FORMAT,
    MAX_MARGIN,
    Agreement,
    Approximate,
    MarginManifest,
    Margins,
    check_max_margin,
    read_margins,
    write_margins,
)
from lacuna.margin.resuming import Work
from lacuna.margin.running import Run
from lacuna.progress import SILENT, Progress

_UNFINISHED = "unfinished"
# What the exact way looks at nearby before it compares all entries: more would cost more than it saves.
_NEARBY = Approximate(probes=8)


@dataclass(frozen=True, slots=True)
class MarginReport:
    """What was measured.

    :param path: The folder of the margins.
    :param max_margin: As asked for; the manifest may have a larger one.
    :param histogram: Entries by margin, each bin named by its least, known and unknown ones apart.
    :param measured: False if margins that serve were there already, and nothing was done.
    """

    path: Path
    manifest: MarginManifest
    max_margin: int
    histogram: dict[str, dict[str, int]]
    measured: bool
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the content as JSON-ready values."""
        content = self.manifest.model_dump(mode="json")
        data = content.pop("data")
        return {
            "into": str(self.path),
            **content,
            "max_margin": self.max_margin,
            "xxh3": data["xxh3"],
            "margin_histogram": self.histogram,
            "measured": self.measured,
            "seconds": round(self.seconds, 3),
        }


def measure_margin(
    store: Store,
    max_margin: int = MAX_MARGIN,
    *,
    approximate: Approximate | None = None,
    progress: Progress = SILENT,
) -> MarginReport:
    """Measure the margins of a store and write them into it.

    Broken off at any moment, the same call goes on where it was, and the result is the same bytes. Margins that are
    there already and serve are left as they are: exact ones, or approximate ones of the same settings, with the same
    ``max_margin`` or a larger one.

    :param max_margin: Larger margins count as this. A small one (what pruning needs is the largest ``min_margin``) is
        quicker to measure.
    :param approximate: Look for neighbors only nearby; without it, margins are exact.
    """
    check_max_margin(max_margin)
    started = time.monotonic()
    earlier = _serving(store, max_margin, approximate)
    if earlier is not None:
        values = earlier.capped(max_margin)
        manifest = earlier.manifest
    else:
        values, agreement = _measure(store, max_margin, approximate, progress)
        manifest = write_margins(store, values, max_margin, approximate, agreement)
        _work(store, max_margin, approximate).remove()
    return MarginReport(
        store.path / FOLDER,
        manifest,
        max_margin,
        margin_histogram(values, store.known),
        earlier is None,
        time.monotonic() - started,
    )


def _serving(store: Store, max_margin: int, approximate: Approximate | None) -> Margins | None:
    try:
        margins = read_margins(store)
    except StoreError:
        return None
    manifest = margins.manifest
    alike = manifest.method == "exact" or manifest.approximate == approximate
    return margins if alike and manifest.max_margin >= max_margin else None


def _measure(
    store: Store, max_margin: int, approximate: Approximate | None, progress: Progress
) -> tuple[NDArray[np.uint16], Agreement | None]:
    known = int(np.count_nonzero(store.known))
    if known == store.entries:  # without an unknown entry, all others count
        return np.full(store.entries, min(max_margin, max(0, known - 1)), np.uint16), None
    work = _work(store, max_margin, approximate)
    if approximate is None:
        return Run(store, max_margin, _NEARBY, work, progress).exact(), None
    return Run(store, max_margin, approximate, work, progress).approximate()


def _work(store: Store, max_margin: int, approximate: Approximate | None) -> Work:
    settings = None if approximate is None else asdict(approximate)
    identity = {"format": FORMAT, "store": store.fingerprint, "max_margin": max_margin, "approximate": settings}
    return Work(store.path / FOLDER / _UNFINISHED, json.dumps(identity, sort_keys=True))
