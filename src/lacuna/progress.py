"""How long work tells how far it is. Functions report to a ``Progress``; only the command line draws one."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told of the work as it goes; says nothing back."""

    def start(self, what: str, total: float | None = None, unit: str = "") -> None:
        """Begin one piece of work; ``total`` is None where it cannot be known."""

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        """Count work done; ``note`` is a short text to show beside it."""

    def finish(self, note: str = "") -> None:
        """End the piece of work."""


class Silent:
    """Says nothing: the default of every function."""

    def start(self, what: str, total: float | None = None, unit: str = "") -> None:
        """Ignore."""

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        """Ignore."""

    def finish(self, note: str = "") -> None:
        """Ignore."""


SILENT: Progress = Silent()
