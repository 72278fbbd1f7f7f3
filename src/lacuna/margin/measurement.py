"""Measuring the knowledge margin of every entry of a store: ``lacuna margin``.

Chooses between the approximate method, the exact one and an update, and resumes after an interruption. Knows nothing of
pruning.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.locks import alone
from lacuna.datastore import Store
from lacuna.datastore.inspection import margin_histogram
from lacuna.errors import StoreError
from lacuna.margin.approximate import InvertedLists, ListProbe, ProbeResult
from lacuna.margin.exact import MarginBounds, exact_margins
from lacuna.margin.screening import Screening
from lacuna.margin.storage import (
    FOLDER,
    MAX_MARGIN,
    UNFINISHED,
    Agreement,
    Approximate,
    MarginManifest,
    Margins,
    check_max_margin,
    read_margins,
    write_margins,
)
from lacuna.margin.tasks import SavedState, TaskRunner, arrays_of
from lacuna.margin.updating import follow_edits
from lacuna.progress import SILENT, Progress
from lacuna.workers import Pool, WorkerPool, keep_freed_memory

# Lists that the exact method compares before the passes over all entries.
EXACT_LISTS = Approximate()

# Smaller stores get one list, so that all pairs are compared.
_MIN_DIVIDED = 4096
_DECISIONS = (4, 8, 16, 32)

# Increase it when saved states of earlier versions become invalid.
_STATE_VERSION = 5


@dataclass(frozen=True, slots=True)
class MarginReport:
    """The result of a measurement.

    :param margins: The margins, up to ``margins.manifest.max_margin``.
    :param max_margin: The requested bound; that of the margins may be larger.
    :param histogram: Number of known and unknown entries by margin; each bin is named by its smallest margin.
    :param measured: False if suitable margins existed already.
    """

    margins: Margins
    max_margin: int
    histogram: dict[str, dict[str, int]]
    measured: bool
    seconds: float

    @property
    def path(self) -> Path:
        """The folder of the margins."""
        return self.margins.path

    @property
    def manifest(self) -> MarginManifest:
        """The manifest of the margins."""
        return self.margins.manifest

    def as_json(self) -> dict[str, Any]:
        """Return the content as JSON-ready values."""
        content = self.manifest.model_dump(mode="json", by_alias=True)
        data = content.pop("data")
        content.pop("unknown")
        return {
            "into": str(self.path),
            **content,
            "max_margin": self.max_margin,
            "xxh3": data["xxh3"],
            "margin_histogram": self.histogram,
            "measured": self.measured,
            "seconds": round(self.seconds, 3),
        }


@alone("store", "margin")
def measure_margin(
    store: Store,
    max_margin: int = MAX_MARGIN,
    *,
    approximate: Approximate | None = None,
    progress: Progress = SILENT,
    pool: Pool | None = None,
) -> MarginReport:
    """Measure the margins of a store and write them into its folder.

    After an interruption the same call resumes, and the result has the same bytes. Suitable margins that exist already
    are kept: exact ones, or approximate ones with the same settings, and with the same or a larger ``max_margin``.
    If a memory was edited a little since its exact margins were measured, only what can have changed is measured.

    :param max_margin: Larger margins count as this. PLAC needs no more than the largest ``min_margin``; small bounds
        are faster.
    :param approximate: Settings of approximate margins; by default, margins are exact.
    :param pool: Workers that compare entries; by default, the threads of this process. The margins are the same.
    """
    check_max_margin(max_margin)
    started = time.monotonic()
    margins = _suitable(store, max_margin, approximate)
    measured = margins is None
    if margins is None and approximate is None:
        margins = follow_edits(store, max_margin, progress)
    if margins is None:
        state = _saved_state(store, max_margin, approximate)
        margins = _measure(store, max_margin, approximate, TaskRunner(pool or WorkerPool.of_process(), progress, state))
        state.remove()
    histogram = margin_histogram(margins.capped(max_margin), store.known)
    return MarginReport(margins, max_margin, histogram, measured, time.monotonic() - started)


def _suitable(store: Store, max_margin: int, approximate: Approximate | None) -> Margins | None:
    try:
        margins = read_margins(store)
    except StoreError:
        return None
    manifest = margins.manifest
    same = manifest.method == "exact" or manifest.approximate == approximate
    return margins if same and manifest.max_margin >= max_margin else None


def _saved_state(store: Store, max_margin: int, approximate: Approximate | None) -> SavedState:
    identity = {
        "version": _STATE_VERSION,
        "store": store.fingerprint,
        "max_margin": max_margin,
        "approximate": None if approximate is None else asdict(approximate),
    }
    return SavedState(store.path / FOLDER / UNFINISHED, json.dumps(identity, sort_keys=True))


def _measure(store: Store, max_margin: int, approximate: Approximate | None, runner: TaskRunner) -> Margins:
    """Measure all margins and write them."""
    keep_freed_memory()
    measurement = _Measurement(store, max_margin, approximate or EXACT_LISTS, runner)
    if store.known.all():
        bounds = MarginBounds.of(store.known, max_margin)
        distance = bounds.radius if approximate is None else None
        return write_margins(store, bounds.margin, max_margin, approximate, unknown_distance=distance)
    if approximate is None:
        values, distance = measurement.exact()
        return write_margins(store, values, max_margin, unknown_distance=distance)
    values, agreement = measurement.approximate()
    return write_margins(store, values, max_margin, approximate, agreement)


@dataclass(frozen=True, eq=False)
class _Measurement:
    """Measures one store that has unknown entries.

    :param settings: Settings of the comparison with near lists, which both methods start with.
    """

    store: Store
    max_margin: int
    settings: Approximate
    runner: TaskRunner

    def exact(self) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
        """Return exact margins and unknown distances."""
        probed = self._probe(self.max_margin)
        return self._exact(probed, np.arange(self.store.entries), self.runner)

    def approximate(self) -> tuple[NDArray[np.uint16], Agreement]:
        """Return approximate margins, and their agreement with exact ones on a sample."""
        probed, entries = self._probe(), self.store.entries
        margins = probed.margin(self.max_margin)
        rng = np.random.default_rng(self.settings.seed)
        sample = rng.choice(entries, size=min(entries, self.settings.sample), replace=False)
        exact, _ = self._exact(probed, sample, replace(self.runner, state=None))
        return margins, _agreement(margins[sample], exact[sample], self.store.known[sample])

    @cached_property
    def _screening(self) -> Screening:
        return Screening(self.store.keys, self.store.mean, self.store.entries, self.settings.seed)

    def _probe(self, cap: int | None = None) -> ProbeResult:
        """Compare all entries with near lists."""

        def prepare() -> ListProbe:
            return ListProbe(self.store, self._lists(), self._screening, self.settings.nprobe, cap)

        return self.runner.run("near lists", prepare, ProbeResult.empty(self.store.entries))

    def _lists(self) -> InvertedLists:
        state, entries, count = self.runner.state, self.store.entries, self.settings.lists
        saved = None if state is None else state.load("lists")
        if saved is not None:
            return InvertedLists(**saved)
        count = min(entries, count or (round(4 * entries**0.5) if entries > _MIN_DIVIDED else 1))
        lists = InvertedLists.train(self._screening.projections, count, self.settings.seed, self.runner.progress)
        if state is not None:
            state.put("lists", arrays_of(lists))
        return lists

    def _exact(
        self, probed: ProbeResult, entries: NDArray[np.int64], runner: TaskRunner
    ) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
        """Return exact margins and unknown distances, which hold for these entries only."""
        distance = probed.unknown_distance(self.store, entries)
        bounds = MarginBounds.of(self.store.known, self.max_margin, distance, probed.cap_distance)
        return exact_margins(bounds, self.store, self._screening, self.max_margin, runner)


def _agreement(found: NDArray[np.uint16], exact: NDArray[np.uint16], known: NDArray[np.bool_]) -> Agreement:
    """Compare approximate margins with exact ones."""
    same = {str(margin): (found >= margin) == (exact >= margin) for margin in _DECISIONS}
    return Agreement(
        entries=len(found),
        known=int(np.count_nonzero(known)),
        equal=float(np.mean(found == exact)),
        decisions={margin: float(np.mean(equal[known])) if known.any() else 1.0 for margin, equal in same.items()},
    )
