"""Tasks of a measurement, run by a worker pool, with their results saved now and then.

Results are added in the order of the tasks, so they do not depend on timing or on the number of workers.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.files import atomic_path, writing
from lacuna.progress import SILENT, Progress
from lacuna.workers import Pool

SECONDS_BETWEEN_SAVES = 20.0

Arrays = dict[str, NDArray[Any]]


class TaskResult(Protocol):
    """The result of tasks: a dataclass of arrays with one row for each entry."""

    def add(self, entries: NDArray[np.int64], part: Any) -> None:  # noqa: ANN401 - a result of the same class
        """Add the result of a task about these entries."""


Result = TypeVar("Result", bound=TaskResult)
_Part = TypeVar("_Part", covariant=True)


class BlockTasks(Protocol[_Part]):
    """Independent tasks. ``sizes`` says how much work each of them is, in ``unit``."""

    unit: ClassVar[str]
    sizes: Sequence[int]

    def run(self, number: int) -> tuple[NDArray[np.int64], _Part]:
        """Run one task without side effects; return the entries that the result is about, and the result."""


class SavedState:
    """The arrays of an unfinished measurement, by name. A state of another store or of other settings is deleted.

    :param folder: Created when the first arrays are saved.
    :param identity: The store, the settings and the version of the method.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder, self._identity = folder, identity
        self._saved, self._unsaved = time.monotonic(), dict[str, Arrays]()
        if any(self.load(path.stem) is None for path in folder.glob("*.npz")):
            self.remove()

    @property
    def files(self) -> Path:
        """Folder for other files of the measurement, removed with the state."""
        return self._folder / "arrays"

    def load(self, name: str) -> Arrays | None:
        """Return the arrays that were saved last under a name, or None."""
        path = self._path(name)
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as content:
                arrays = {key: content[key] for key in content.files}
        except Exception:  # damaged: zipfile, zlib and numpy raise errors of many types
            return None
        return arrays if str(arrays.pop("identity", "")) == self._identity else None

    def put(self, name: str, arrays: Arrays) -> None:
        """Replace the arrays of a name. They are saved, with all others, when the last time was a while ago."""
        self._unsaved[name] = arrays
        if time.monotonic() - self._saved < SECONDS_BETWEEN_SAVES:
            return
        with writing(self._folder):
            for unsaved, content in self._unsaved.items():
                with atomic_path(self._path(unsaved)) as temporary, temporary.open("wb") as file:
                    np.savez(file, allow_pickle=False, identity=np.array(self._identity), **content)
        self._saved, self._unsaved = time.monotonic(), {}

    def _path(self, name: str) -> Path:
        return self._folder / f"{name.replace(' ', '-')}.npz"

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)


def arrays_of(arrays: Any) -> Arrays:  # noqa: ANN401 - any dataclass of arrays
    """Return the arrays of a dataclass by the names of its fields."""
    return {field.name: getattr(arrays, field.name) for field in fields(arrays)}


@dataclass(frozen=True, eq=False)
class TaskRunner:
    """Runs the tasks of comparisons.

    :param state: Where results are saved; by default nowhere, for comparisons that take seconds only.
    """

    pool: Pool
    progress: Progress = SILENT
    state: SavedState | None = None

    def run(self, name: str, prepare: Callable[[], BlockTasks[Result]], result: Result) -> Result:
        """Run all tasks that the saved state does not contain, and add their results.

        :param name: What is compared, for the progress and the saved state.
        :param prepare: Makes the tasks; not called if all of them are done.
        :param result: What their results are added to.
        """
        saved, done = self.state.load(name) if self.state else None, 0
        if saved is not None:
            done = int(saved["done"])
            for field, array in arrays_of(result).items():
                array[...] = saved[field]
            if done == saved["tasks"]:
                return result
        comparison = prepare()
        sizes, files = comparison.sizes, self.state.files if self.state else None
        self.progress.start(f"comparing {name}", sum(sizes), comparison.unit)
        self.progress.advance(sum(sizes[:done]))
        tasks = range(done, len(sizes))
        with closing(self.pool.map(comparison.run, tasks, files=files)) as parts:
            for number, (entries, part) in zip(tasks, parts, strict=True):
                result.add(entries, part)
                if self.state is not None:
                    count = {"done": np.array(number + 1), "tasks": np.array(len(sizes))}
                    self.state.put(name, count | arrays_of(result))
                self.progress.advance(sizes[number])
        self.progress.finish()
        return result
