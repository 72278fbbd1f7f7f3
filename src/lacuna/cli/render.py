"""Output of verbs: progress on stderr; lines, JSON and tables on stdout. Knows nothing of particular verbs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichBar
from rich.table import Table

_drawn: RichBar | None = None  # a terminal shows one bar at a time


def stop_bar() -> None:
    """Remove the bar from the terminal. There may still be one if its work was interrupted."""
    global _drawn
    if _drawn is not None:
        _drawn.stop()
        _drawn = None


class BarProgress:
    """Draws bars on a terminal; elsewhere (a log, CI) prints a line every few seconds.

    :param quiet_seconds: Seconds between two lines if there is no terminal.
    :param shows_time: Show the time left, computed from the speed so far; off if the notes have a better estimate.
    """

    def __init__(self, quiet_seconds: float = 10.0, *, shows_time: bool = True) -> None:
        self._console = Console(stderr=True)
        self._quiet_seconds, self._shows_time = quiet_seconds, shows_time
        self._bar: RichBar | None = None
        self._task = TaskID(0)
        self._what, self._unit = "", ""
        self._total: float | None = None
        self._done = 0.0
        self._started = self._printed = 0.0

    def start(self, what: str, total: float | None = None, unit: str = "") -> None:
        """Start a bar, or print the first line."""
        self._what, self._total, self._unit, self._done = what, total, unit, 0.0
        self._started = self._printed = time.monotonic()
        if self._console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = RichBar(
                *columns,
                TextColumn("{task.fields[note]}"),
                *([TimeRemainingColumn()] if self._shows_time else []),
                console=self._console,
                redirect_stdout=False,  # results belong on stdout, also while a bar is shown on stderr
            )
            self._bar.start()
            global _drawn
            _drawn = self._bar
            self._task = self._bar.add_task(what, total=total, note="")
        else:
            self._print("started")

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        """Move the bar; without a terminal, print a line if enough time has passed."""
        self._done += amount
        speed = self._done / max(time.monotonic() - self._started, 1e-9)
        text = " ".join(part for part in (f"{speed:,.0f} {self._unit}/s" if self._unit else "", note) if part)
        if self._bar is not None:
            self._bar.update(self._task, completed=int(self._done), note=text)
        elif time.monotonic() - self._printed >= self._quiet_seconds:
            self._print(text)

    def finish(self, note: str = "") -> None:
        """Remove the bar and print how long the work took."""
        if self._bar is not None:
            stop_bar()
            self._bar = None
        seconds = time.monotonic() - self._started
        self._console.print(f"{self._what}: done in {seconds:,.1f} s {note}".rstrip(), highlight=False, soft_wrap=True)

    def _print(self, text: str) -> None:
        self._printed = time.monotonic()
        share = f" {self._done:,.0f}" + (f" of {self._total:,.0f}" if self._total else "")
        self._console.print(f"{self._what}:{share} {self._unit} {text}".rstrip(), highlight=False, soft_wrap=True)


def print_line(text: str) -> None:
    """Write one line on stdout, at once: someone may be waiting for it."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_notes(notes: Iterable[object]) -> None:
    """Write notes on stderr, one per line, as warnings are written."""
    for note in notes:
        sys.stderr.write(f"lacuna: note: {note}\n")


def print_json(content: Any) -> None:  # noqa: ANN401 - JSON is any
    """Write one JSON object on stdout."""
    sys.stdout.write(json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a table on stdout; columns of numbers are right-aligned."""
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(columns):
        numeric = all(isinstance(row[number], int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    Console().print(table)
