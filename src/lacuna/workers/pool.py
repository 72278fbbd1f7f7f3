"""What any pool of workers offers, and how an object says how another process opens it. Computes nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Tasks in progress or waiting for each worker, and results that no one has taken yet. It bounds memory, and is enough
# to keep every worker busy while the caller stores a result.
AHEAD = 3


class Pool(Protocol):
    """Workers that compute tasks: threads of this process, or processes on one or more machines.

    For the latter, a task is a function of a module, a method, or a ``functools.partial`` of these, so that it can be
    sent. Every task is computed with one thread, wherever it is computed.
    """

    @property
    def workers(self) -> int:
        """Number of tasks that are computed at once; it may change."""

    def map(
        self, task: Callable[[Item], Result], items: Iterable[Item], *, files: Path | None = None
    ) -> Generator[Result, None, None]:
        """Compute all items, and yield the results in the order of the items.

        The error of a task is raised in place of its result. Close the generator to stop early.

        :param files: A folder that all workers see. Large arrays of the task are written there for as long as it runs,
            if workers are other processes; ``None`` sends them with every item.
        """


class Reopened(Protocol):
    """An object that another process opens from its files, rather than receive its content."""

    def reopening(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return a function of a module that opens the object, and its arguments."""
