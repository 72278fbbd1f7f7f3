"""Progress of long work. Functions report to a ``Progress``; only the command line draws one."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives reports about running work."""

    def start(self, what: str, total: float | None = None, unit: str = "") -> None:
        """Start a task; ``total`` is None if it is unknown."""

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        """Add to the amount of work done; ``note`` is a short text to show next to it."""

    def finish(self, note: str = "") -> None:
        """End the task."""


class Silent:
    """Ignores all reports: the default of every function."""

    def start(self, what: str, total: float | None = None, unit: str = "") -> None:
        """Ignore."""

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        """Ignore."""

    def finish(self, note: str = "") -> None:
        """Ignore."""


SILENT: Progress = Silent()
