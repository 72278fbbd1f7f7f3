"""Cache of step results on disk. A step runs again only if its inputs or its version change.

The key of a step is a hash of its name, its version and its inputs, which include the keys of the steps before it. A
changed setting therefore repeats the steps that depend on it and no others.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash

from lacuna.artifacts.files import sha256_of, write_json
from lacuna.artifacts.manifests import read_object, sealed, unsealed
from lacuna.errors import LacunaError
from lacuna.steps.usage import Usage, measured_usage

# Increase a number when a code change makes the step give another result for the same inputs: other entries kept, other
# margins, another file format. Results of the old version are then computed again. These numbers are declared because a
# hash of the source would repeat hours of work after an edited comment, and the version of the package changes too
# seldom. Variants such as "prune-plac" and "prune-random" share the number of their first word.
STEP_VERSIONS: Mapping[str, int] = {
    "store": 2,
    "index": 1,
    "margin": 1,
    "prune": 1,
    "mask": 1,
    "sample": 1,
    "fit": 2,
    "finetune": 1,
    "translate": 1,
    "score": 1,
    "run": 1,
    "terms": 2,
    "safe": 4,
    "loss": 1,
    "accuracy": 1,
    "knowledge": 1,
    "counts": 1,
    "indexsize": 1,
    "examples": 1,
    "plan": 1,
    "gate": 2,
    "calibrate": 1,
}

_DONE = "done.json"
_DIGITS = 16


class MissingResultError(LookupError):
    """A result is not there, and nothing may be computed for it."""


@dataclass(frozen=True, slots=True)
class CachedStep:
    """A finished step.

    :param key: Hash of name, version and inputs.
    :param folder: Folder of the results.
    :param usage: What it took, in whichever run it was done; after an interruption, only the last part.
    """

    name: str
    key: str
    folder: Path
    usage: Usage

    @property
    def seconds(self) -> float:
        """Run time of the step."""
        return self.usage.seconds

    def as_json(self) -> dict[str, Any]:
        """Return the step as JSON."""
        return {"name": self.name, "key": self.key, **asdict(self.usage)}


class StepCache:
    """Runs steps in one folder, each of them once.

    :param announce: Called with the name of every step that runs.
    :param results: Folder of the results of :meth:`make_portable`, which may come from other machines; by default the
        same folder.
    """

    def __init__(
        self, folder: Path, announce: Callable[[str], None] = lambda name: None, *, results: Path | None = None
    ) -> None:
        self._folder, self._announce, self._results = folder, announce, results or folder
        self._steps: dict[str, CachedStep] = {}
        self._computes = True
        self.made: list[str] = []

    @property
    def steps(self) -> list[CachedStep]:
        """All steps whose results were used."""
        return list(self._steps.values())

    @contextmanager
    def computing(self, allowed: bool) -> Iterator[None]:
        """Allow to run steps, or raise :class:`MissingResultError` instead."""
        before, self._computes = self._computes, allowed
        try:
            yield
        finally:
            self._computes = before

    def make(
        self, name: str, inputs: Mapping[str, Any], work: Callable[[Path], None], *, resumes: bool = False
    ) -> CachedStep:
        """Return the results of a step; run it if they are missing.

        :param inputs: Everything that decides the results, as JSON.
        :param work: Writes the results into a folder.
        :param resumes: ``work`` can continue an interrupted run; otherwise its files are removed first.
        """
        key = step_key(name, inputs)
        folder = self._folder / f"{name}-{key}"
        if _usage(folder) is None:
            self._begin(name)
            if not resumes:
                shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            with measured_usage() as usage:
                work(folder)
            # Written last and atomically: its presence means that the results are complete.
            content = {"inputs": inputs, **asdict(usage), "files": _hashes(folder)}
            write_json(folder / _DONE, sealed(content))
            self.made.append(name)
        step = CachedStep(name, key, folder, _usage(folder) or Usage())
        self._note(step)
        return step

    @contextmanager
    def temporary_folder(self) -> Iterator[Path]:
        """Make a folder for large files that are needed only for a while; what a killed run left there is removed."""
        folder = self._folder / "temporary"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def has(self, name: str, inputs: Mapping[str, Any]) -> bool:
        """Return whether a step is finished."""
        return _usage(self._folder / f"{name}-{step_key(name, inputs)}") is not None

    def _begin(self, name: str) -> None:
        if not self._computes:
            raise MissingResultError(name)
        self._announce(name)

    def _note(self, step: CachedStep) -> None:
        self._steps.setdefault(step.key, step)

    def make_json(
        self, name: str, inputs: Mapping[str, Any], compute: Callable[[], Any], file: str = "content.json"
    ) -> Any:  # noqa: ANN401 - JSON
        """Return a step's result that is a JSON value; compute it if it is missing.

        :param file: Name of the file in the folder of the step.
        """
        step = self.make(name, inputs, lambda folder: write_json(folder / file, compute()))
        return json.loads((step.folder / file).read_text(encoding="utf-8"))

    def make_portable(self, name: str, inputs: Mapping[str, Any], compute: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Return a result that is a JSON value without any text of corpora; compute it if it is missing.

        It is kept as one file, with the steps that it took: whoever has the file needs no memory and no model.
        """
        key = step_key(name, inputs)
        path = self._results / f"{name}-{key}.json"
        content = _read_portable(path)
        if content is None:
            self._begin(name)
            before = set(self._steps)
            with measured_usage() as usage:
                result = compute()
            steps = [step.as_json() for step in self.steps if step.key not in before]
            content = {**asdict(usage), "steps": steps, "result": result}
            write_json(path, sealed(content))
            self.made.append(name)
        for step in content["steps"]:
            folder = self._folder / f"{step['name']}-{step['key']}"  # perhaps on another machine
            self._note(CachedStep(step["name"], step["key"], folder, _usage_in(step)))
        self._note(CachedStep(name, key, self._results, _usage_in(content)))
        return content["result"]


def _read_portable(path: Path) -> dict[str, Any] | None:
    """Return the content of a file with a result; ``None`` if there is none, or if it is damaged."""
    try:
        content = unsealed(read_object(path, LacunaError, missing="not made", again="make it again"))
    except LacunaError:
        return None
    return content if content is not None and "result" in content else None


def _usage_in(content: Mapping[str, Any]) -> Usage:
    # Earlier versions measured only the seconds.
    return Usage(float(content["seconds"]), content.get("cpu_seconds"), content.get("peak_bytes"))


def _usage(folder: Path) -> Usage | None:
    """Return what a finished step took; ``None`` if it has no results, or if they are damaged."""
    try:
        content = unsealed(read_object(folder / _DONE, LacunaError, missing="not finished", again="run it again"))
    except LacunaError:
        return None
    hashes = _hashes(folder)
    # Results of earlier versions have no hashes.
    if content is None or content.get("files", hashes) != hashes or not isinstance(content.get("seconds"), int | float):
        return None
    return _usage_in(content)


def _hashes(folder: Path) -> dict[str, str]:
    """Return the hashes of the files in a folder. Folders in it are artifacts, which check themselves."""
    return {path.name: sha256_of(path) for path in sorted(folder.iterdir()) if path.is_file() and path.name != _DONE}


def step_key(name: str, inputs: Mapping[str, Any]) -> str:
    """Hash everything that decides the results of a step: its name, its version and its inputs.

    :param name: A name of :data:`STEP_VERSIONS`, or one followed by a dash and a variant.
    """
    version = STEP_VERSIONS[name.partition("-")[0]]
    content = json.dumps([name, version, inputs], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]


def settings_as_json(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return a settings dataclass as step inputs: the name of its class and its fields."""
    return {"kind": type(settings).__name__, **json.loads(json.dumps(asdict(settings)))}


def hash_json(content: dict[str, Any]) -> str:
    """Hash content that is too long to be an input itself."""
    return xxhash.xxh3_128(json.dumps(content, ensure_ascii=False).encode()).hexdigest()
