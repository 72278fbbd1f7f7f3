"""Progress of long work, and how times are written. Functions report; only the command line draws."""

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


def duration(seconds: float) -> str:
    """Format a time: 56.1 s, 12 min 5 s, 1 h 18 min."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min"
