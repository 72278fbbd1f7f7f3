"""Steps whose results stay on disk and are made again only when what they are made of changes.

A step is known by a hash of its name and its inputs, among them the hashes of the steps before it: the same settings
find what is there, a changed one makes anew what depends on it and nothing else. Knows nothing of what a step does.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lacuna.files import write_json
from lacuna.version import __version__

_DONE = "done.json"
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class CachedStep:
    """A step that was done.

    :param key: Hash of name and inputs.
    :param folder: Where its results are.
    :param seconds: What making them took, in whichever run that was; of a run that was broken off, only the last part.
    """

    name: str
    key: str
    folder: Path
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the step for machines."""
        return {"name": self.name, "key": self.key, "seconds": self.seconds}


class Workshop:
    """Does steps in one folder, each once.

    :param announce: Told the name of every step that has to be done.
    """

    def __init__(self, folder: Path, announce: Callable[[str], None] = lambda name: None) -> None:
        self._folder, self._announce = folder, announce
        self.steps: list[CachedStep] = []
        self.made: list[str] = []

    def make(
        self, name: str, inputs: Mapping[str, Any], work: Callable[[Path], None], *, goes_on: bool = False
    ) -> CachedStep:
        """Return a step's results; do it if they are not there.

        :param inputs: Everything that decides the results, as JSON.
        :param work: Puts the results into a folder.
        :param goes_on: ``work`` can go on with what an earlier run left when it was broken off; otherwise that is
            removed first.
        """
        key = key_of(name, inputs)
        folder = self._folder / f"{name}-{key}"
        if not (folder / _DONE).exists():
            if not goes_on:
                shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            self._announce(name)
            started = time.monotonic()
            work(folder)
            # Written last, at once: its presence means that the rest is whole.
            write_json(folder / _DONE, {"inputs": inputs, "seconds": round(time.monotonic() - started, 1)})
            self.made.append(name)
        seconds = json.loads((folder / _DONE).read_text(encoding="utf-8"))["seconds"]
        step = CachedStep(name, key, folder, seconds)
        if step not in self.steps:
            self.steps.append(step)
        return step


def key_of(name: str, inputs: Mapping[str, Any]) -> str:
    """Hash what decides a step's results; another version of Lacuna may compute others."""
    content = json.dumps([name, inputs, __version__], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]


def described(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return a dataclass of settings as an input: the name of its class and its fields."""
    return {"kind": type(settings).__name__, **json.loads(json.dumps(asdict(settings)))}
