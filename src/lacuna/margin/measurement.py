"""Measuring the knowledge margin of every entry of a store: ``lacuna margin``.

Runs the tasks of the approximate or the exact method, and resumes after an interruption. Knows nothing of pruning.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from lacuna.artifacts.locks import alone
from lacuna.datastore import Store
from lacuna.datastore.inspection import margin_histogram
from lacuna.errors import StoreError
from lacuna.index.distances import CenteredVectors
from lacuna.margin.approximate import KeyLists, ListComparison, Nearby, make_lists
from lacuna.margin.edited import follow_edits
from lacuna.margin.exact import BlockComparison, Found, Questions, Saver, Wanted, answer
from lacuna.margin.screening import Screening, find_rotation
from lacuna.margin.storage import (
    FOLDER,
    MAX_MARGIN,
    UNFINISHED,
    Agreement,
    Approximate,
    Arrays,
    MarginManifest,
    Margins,
    SavedState,
    check_max_margin,
    read_margins,
    write_margins,
)
from lacuna.margin.tasks import run_and_save
from lacuna.progress import SILENT, Progress
from lacuna.workers import Pool, WorkerPool, keep_freed_memory

# Lists that the exact method compares before the passes over all entries.
NEARBY = Approximate()

# Smaller stores get one list, so that all pairs are compared.
_UNDIVIDED = 4096
_DECISIONS = (4, 8, 16, 32)

# Increase it when saved states of earlier versions become invalid.
_STATE_VERSION = 4
_STATE, _LISTS = "state", "lists"
_T = TypeVar("_T", Nearby, Questions, Found, KeyLists)


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
        margins = _measure(store, max_margin, approximate, state, progress, pool or WorkerPool.of_process())
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
    settings = None if approximate is None else asdict(approximate)
    identity = {
        "version": _STATE_VERSION,
        "store": store.fingerprint,
        "max_margin": max_margin,
        "approximate": settings,
    }
    return SavedState(store.path / FOLDER / UNFINISHED, json.dumps(identity, sort_keys=True))


def _measure(
    store: Store, max_margin: int, approximate: Approximate | None, state: SavedState, progress: Progress, pool: Pool
) -> Margins:
    keep_freed_memory()
    measurement = _Measurement(store, max_margin, approximate or NEARBY, state, progress, pool)
    all_known = bool(store.known.all())
    if approximate is not None and not all_known:
        values, agreement = measurement.approximate()
        return write_margins(store, values, max_margin, approximate, agreement)
    answers = Questions.without_unknown(store.entries, max_margin) if all_known else measurement.exact()
    distance = answers.radius if approximate is None else None
    return write_margins(store, answers.margin, max_margin, approximate, unknown_distance=distance)


class _Measurement:
    """Measures one store that has unknown entries.

    :param settings: Settings of the comparison with near lists, which both methods start with.
    """

    def __init__(
        self, store: Store, max_margin: int, settings: Approximate, state: SavedState, progress: Progress, pool: Pool
    ) -> None:
        self._store, self._max_margin, self._settings = store, max_margin, settings
        self._state, self._progress, self._pool = state, progress, pool
        self._keys = CenteredVectors(store.keys, store.mean)

    def approximate(self) -> tuple[NDArray[np.uint16], Agreement]:
        """Return approximate margins, and their agreement with exact ones."""
        nearby = self._compare_lists(self._state.load(_STATE))
        return nearby.margin(self._max_margin), self._agreement(nearby)

    def exact(self) -> Questions:
        """Return exact margins and unknown distances: questions of which none is open."""
        saved = self._state.load(_STATE)
        if saved is not None and int(saved["stage"]) > 0:
            number, done = int(saved["stage"]) - 1, int(saved["done"])
            questions, found = _from(Questions, saved), _from(Found, saved)
        else:
            nearby = self._compare_lists(saved, self._max_margin)
            questions, found = self._questions(np.arange(self._store.entries), nearby), None
            number, done = 0, 0
        return self._answer(questions, number, found, done, self._saver)

    @cached_property
    def _rotation(self) -> torch.Tensor:
        return find_rotation(self._keys, self._store.entries, np.random.default_rng(self._settings.seed))

    @cached_property
    def _screening(self) -> Screening:
        return Screening(self._keys, self._store.entries, self._rotation)

    @cached_property
    def _lists(self) -> KeyLists:
        saved = self._state.load(_LISTS)
        if saved is None:
            entries, wanted = self._store.entries, self._settings.lists
            count = min(entries, wanted or (round(4 * entries**0.5) if entries > _UNDIVIDED else 1))
            lists = make_lists(self._keys, entries, self._rotation, count, self._settings.seed, self._progress)
            saved = _arrays(lists)
            self._state.save(_LISTS, saved)
        return _from(KeyLists, saved)

    def _compare_lists(self, saved: Arrays | None, cap: int | None = None) -> Nearby:
        store, settings = self._store, self._settings
        nearby, done = (Nearby.empty(store.entries), 0) if saved is None else (_from(Nearby, saved), int(saved["done"]))
        comparison = ListComparison(
            store.keys, store.mean, store.known, self._lists, self._screening, settings.nprobe, cap
        )

        def add(number: int, part: Nearby) -> None:
            nearby.put(comparison.entries(number), part)

        def advance(number: int) -> None:
            self._progress.advance(len(comparison.entries(number)))

        self._progress.start("comparing near lists", store.entries, "entries")
        self._progress.advance(sum(len(comparison.entries(number)) for number in range(done)))
        tasks = range(done, len(comparison))
        save, files = self._saver(0, nearby), self._state.files
        run_and_save(self._pool, tasks, comparison.run, add, save, advance, files)
        self._progress.finish()
        return nearby

    def _questions(self, entries: NDArray[np.int64], nearby: Nearby) -> Questions:
        store = self._store
        return Questions.about(entries, nearby, store.keys, int(np.count_nonzero(store.known)), self._max_margin)

    def _compare(self, wanted: Wanted) -> BlockComparison:
        return BlockComparison(self._store.keys, self._store.known, wanted, self._screening)

    def _answer(
        self,
        questions: Questions,
        number: int = 0,
        found: Found | None = None,
        done: int = 0,
        saver: Saver | None = None,
    ) -> Questions:
        arguments = (self._max_margin, self._progress, self._pool, self._state.files, number, found, done, saver)
        return answer(questions, self._compare, *arguments)

    def _saver(self, stage: int, *tables: Nearby | Questions | Found) -> Callable[[int], None]:
        """Return a function that saves tables: stage 0 compares lists, stage ``n`` is pass ``n - 1``."""

        def save(done: int) -> None:
            arrays: Arrays = {"stage": np.array(stage), "done": np.array(done)}
            for table in tables:
                arrays |= _arrays(table)
            self._state.save(_STATE, arrays)

        return save

    def _agreement(self, nearby: Nearby) -> Agreement:
        """Compare approximate margins with exact ones on a sample."""
        known, entries = self._store.known, self._store.entries
        rng = np.random.default_rng(self._settings.seed)
        sample = rng.choice(entries, size=min(entries, self._settings.sample), replace=False)
        questions = self._questions(sample, nearby)
        exact = self._answer(questions).margin[sample]
        found, known = nearby.margin(self._max_margin)[sample], known[sample]
        same = {str(least): (found >= least) == (exact >= least) for least in _DECISIONS}
        return Agreement(
            entries=len(sample),
            known=int(np.count_nonzero(known)),
            equal=float(np.mean(found == exact)),
            decisions={least: float(np.mean(which[known])) if known.any() else 1.0 for least, which in same.items()},
        )


def _arrays(table: Nearby | Questions | Found | KeyLists) -> Arrays:
    return {field.name: getattr(table, field.name) for field in fields(table)}


def _from(table: type[_T], arrays: Arrays) -> _T:
    return table(**{field.name: arrays[field.name] for field in fields(table)})
