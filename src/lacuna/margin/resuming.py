"""Measuring that was broken off goes on where it was: what is done so far lies in ``STORE/margin/unfinished``.

The folder belongs to one store and one set of settings; for any other it is emptied. Knows nothing of what the arrays
mean.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.building import writing
from lacuna.files import atomic_path

SECONDS_BETWEEN_SAVES = 20.0

Arrays = dict[str, NDArray[Any]]


class Work:
    """Arrays on disk by name, whole or absent.

    :param folder: Made when the first arrays are saved.
    :param identity: Says what is measured and how.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder, self._identity = folder, identity
        if folder.exists() and self._read("state", {}) is None:
            self.remove()

    def load(self, name: str) -> Arrays | None:
        """Return what was saved last under a name, if it is of the same work."""
        return self._read(name, None)

    def save(self, name: str, arrays: Arrays) -> None:
        """Put arrays in place of those saved before."""
        with (
            writing(self._folder),
            atomic_path(self._folder / f"{name}.npz") as temporary,
            temporary.open("wb") as file,
        ):
            np.savez(file, allow_pickle=False, identity=np.array(self._identity), **arrays)

    def remove(self) -> None:
        """Throw it all away."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self, name: str, absent: Arrays | None) -> Arrays | None:
        path = self._folder / f"{name}.npz"
        if not path.is_file():
            return absent
        try:
            with np.load(path, allow_pickle=False) as content:
                arrays = {key: content[key] for key in content.files}
        except (OSError, ValueError, BadZipFile):
            return None
        return arrays if str(arrays.pop("identity", "")) == self._identity else None


def work_through(
    first: int, count: int, step: Callable[[int], int], save: Callable[[int], None], advance: Callable[[int], None]
) -> None:
    """Take the steps from ``first`` to ``count``, saving now and then how many are done.

    :param step: Does one step, and returns how much that was.
    """
    saved = time.monotonic()
    for number in range(first, count):
        amount = step(number)
        if time.monotonic() - saved >= SECONDS_BETWEEN_SAVES:
            save(number + 1)
            saved = time.monotonic()
        advance(amount)
