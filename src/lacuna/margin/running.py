"""The work of measuring, step by step, so that it can be broken off and taken up again. Knows of no manifest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.margin.exact import PASSES, Ledger, Open, advance, begin
from lacuna.margin.lists import Lists, make_lists
from lacuna.margin.manifest import Agreement, Approximate
from lacuna.margin.points import Centered
from lacuna.margin.probing import Prober, Seen
from lacuna.margin.resuming import Arrays, Work, work_through
from lacuna.margin.sketch import Basis, find_basis
from lacuna.margin.sweep import Found, Needs, Sweep
from lacuna.progress import Progress

# Stores of fewer entries are not worth dividing: all pairs are looked at as if they were nearby.
_UNDIVIDED = 4096
_T = TypeVar("_T", Seen, Ledger, Found, Lists)

_STATE, _LISTS = "state", "lists"
_PASS_NAMES = ("unknown entries", "known with unknown entries", "known entries")
_DECISIONS = (4, 8, 16, 32)


class Run:
    """Measuring one store that has unknown entries.

    :param settings: How many lists, and how many of them to compare; what is seen there is the approximate margin.
    :param work: Keeps what is done.
    """

    def __init__(self, store: Store, max_margin: int, settings: Approximate, work: Work, progress: Progress) -> None:
        self._store, self._max_margin, self._settings = store, max_margin, settings
        self._work, self._progress = work, progress
        self._keys = Centered(store.keys, store.mean)

    def approximate(self) -> tuple[NDArray[np.uint16], Agreement]:
        """Return what is seen nearby, and how that agrees with exact margins."""
        seen = self._probe(self._work.load(_STATE))
        margin = seen.margin(self._max_margin)
        return margin, self._agreement(margin, begin(seen, self._max_margin))

    def exact(self) -> NDArray[np.uint16]:
        """Return exact margins."""
        saved = self._work.load(_STATE)
        if saved is not None and int(saved["stage"]) > 0:
            return self._close(_from(Ledger, saved), int(saved["stage"]) - 1, _from(Found, saved), int(saved["done"]))
        seen = self._probe(saved)
        if self._settings.probes >= len(self._lists):
            return seen.margin(self._max_margin)
        return self._close(begin(seen, self._max_margin))

    @cached_property
    def _basis(self) -> Basis:
        return find_basis(self._keys, self._store.entries, np.random.default_rng(self._settings.seed))

    @cached_property
    def _lists(self) -> Lists:
        saved = self._work.load(_LISTS)
        if saved is None:
            entries, wanted = self._store.entries, self._settings.lists
            count = min(entries, wanted or (round(4 * entries**0.5) if entries > _UNDIVIDED else 1))
            lists = make_lists(self._keys, entries, self._basis, count, self._settings.seed, self._progress)
            saved = {"centers": lists.centers, "list_of": lists.list_of}
            self._work.save(_LISTS, saved)
        return _from(Lists, saved)

    def _probe(self, saved: Arrays | None) -> Seen:
        store, lists = self._store, self._lists
        seen, done = (Seen.nothing(store.entries), 0) if saved is None else (_from(Seen, saved), int(saved["done"]))
        prober = Prober(store.keys, store.mean, store.known, lists, self._settings.probes, self._max_margin)
        self._progress.start("looking nearby", store.entries, "entries")
        self._progress.advance(sum(len(lists.members(number)) for number in range(done)))
        work_through(
            done, len(lists), lambda number: prober.probe(number, seen), self._saver(0, seen), self._progress.advance
        )
        self._progress.finish()
        return seen

    def _close(
        self, ledger: Ledger, number: int = 0, found: Found | None = None, done: int = 0, saving: bool = True
    ) -> NDArray[np.uint16]:
        """Sweep through all pairs, pass after pass, until nothing is open.

        :param number: The pass to begin with, of which ``done`` blocks are in ``found``.
        """
        while (ledger.open != Open.NOTHING).any():
            needs = ledger.needs(self._store.known, number)
            found = found or Found.nothing(self._store.entries)
            if needs.unknown.any() or needs.known.any():
                save = self._saver(number + 1, ledger, found) if saving else _save_nothing
                self._sweep(number, needs, found, done, save)
            ledger = advance(ledger, needs, found, self._max_margin)
            number, found, done = number + 1, None, 0
        return ledger.margin

    def _sweep(self, number: int, needs: Needs, found: Found, done: int, save: Callable[[int], None]) -> None:
        store = self._store
        sweep = Sweep(store.keys, store.mean, store.known, needs, self._basis)
        self._progress.start(f"comparing {_PASS_NAMES[number % PASSES]}", len(sweep), "blocks")
        self._progress.advance(done)
        work_through(done, len(sweep), lambda block: sweep.run(block, found), save, self._progress.advance)
        self._progress.finish()

    def _saver(self, stage: int, *tables: Seen | Ledger | Found) -> Callable[[int], None]:
        def save(done: int) -> None:
            arrays: Arrays = {"stage": np.array(stage), "done": np.array(done)}
            for table in tables:
                arrays |= {field.name: getattr(table, field.name) for field in fields(table)}
            self._work.save(_STATE, arrays)

        return save

    def _agreement(self, margin: NDArray[np.uint16], ledger: Ledger) -> Agreement:
        """Find the exact margins of a sample, and compare."""
        known, entries = self._store.known, self._store.entries
        rng = np.random.default_rng(self._settings.seed)
        sample = rng.choice(entries, size=min(entries, self._settings.sample), replace=False)
        open_here = np.zeros_like(ledger.open)
        open_here[sample] = ledger.open[sample]
        exact = self._close(Ledger(open_here, ledger.radius, ledger.margin), saving=False)[sample]
        found, known = margin[sample], known[sample]
        alike = {str(least): (found >= least) == (exact >= least) for least in _DECISIONS}
        return Agreement(
            entries=len(sample),
            known=int(np.count_nonzero(known)),
            equal=float(np.mean(found == exact)),
            decisions={least: float(np.mean(same[known])) if known.any() else 1.0 for least, same in alike.items()},
        )


def _save_nothing(done: int) -> None:
    """Leave the work folder as it is: what takes seconds is done again."""


def _from(table: type[_T], arrays: Arrays) -> _T:
    return table(**{field.name: arrays[field.name] for field in fields(table)})
