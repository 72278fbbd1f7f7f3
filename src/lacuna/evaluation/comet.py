"""COMET scores of segments, computed by a separate Python environment.

COMET's pins (transformers below 5, numpy below 2) conflict with ours, so it is not imported here: ``comet_worker.py``
runs as a subprocess, with JSON files as input and output. This module does not compute corpus scores or significance.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import EvaluationError, MissingExtra, SettingError
from lacuna.progress import SILENT, Progress

PYTHON_VARIABLE = "LACUNA_COMET_PYTHON"

_OWN_PYTHON = ".venv-comet/bin/python"  # made by `make comet`
_WORKER = Path(__file__).with_name("comet_worker.py")
_PUBLISHER = "Unbabel"
_CHECKPOINT = Path("checkpoints", "model.ckpt")


@dataclass(frozen=True, slots=True)
class SegmentScores:
    """Scores of systems by segment.

    :param values: One row per system, one column per segment; higher is better.
    :param signature: Model, versions and settings.
    """

    values: NDArray[np.float64]
    signature: str


class SegmentScorer(Protocol):
    """Scores segments by source, translation and reference, as :class:`CometScorer` does."""

    @property
    def model(self) -> str:
        """Name of the model in reports."""

    def score(
        self,
        sources: Sequence[str],
        references: Sequence[str],
        systems: Sequence[Sequence[str]],
        *,
        progress: Progress = SILENT,
    ) -> SegmentScores:
        """Score each system's translations, one per source and reference."""


class CometScorer:
    """Scores segments with a COMET model in another Python.

    Names and paths are checked here, before any slow work.

    :param model: A hub name (by default of Unbabel), or a checkpoint: a ``.ckpt`` file, or the folder of its model.
    :param python: A Python with unbabel-comet; default: ``LACUNA_COMET_PYTHON``, then that of ``.venv-comet``.
    :param device: auto, cpu, cuda, cuda:1, mps.
    :param threads: CPU threads; default: all cores.
    :raises MissingExtra: No such Python is found.
    :raises SettingError: ``python`` or the checkpoint does not exist.
    """

    def __init__(
        self, model: str, *, python: str | Path | None = None, device: str = "auto", threads: int | None = None
    ) -> None:
        self._checkpoint = find_checkpoint(model)
        self._name = model if self._checkpoint is not None or "/" in model else f"{_PUBLISHER}/{model}"
        self._python = find_python(python)
        self._device, self._threads = device, threads

    @property
    def model(self) -> str:
        """The hub name with its publisher, or the path as given."""
        return self._name

    def score(
        self,
        sources: Sequence[str],
        references: Sequence[str],
        systems: Sequence[Sequence[str]],
        *,
        progress: Progress = SILENT,
    ) -> SegmentScores:
        """Score all systems in one run of COMET.

        Equal translations of a segment are scored once, which saves time and makes their scores exactly equal.

        :raises EvaluationError: COMET failed; the message ends with the last line of its error.
        """
        triples = [triple for lines in systems for triple in zip(sources, lines, references, strict=True)]
        numbers = {triple: number for number, triple in enumerate(dict.fromkeys(triples))}
        progress.start("COMET", len(numbers), "segments")
        answer = self._run([{"src": src, "mt": mt, "ref": ref} for src, mt, ref in numbers], progress)
        progress.finish()
        scores, version = _checked(answer, len(numbers), self._name)
        values = scores[[numbers[triple] for triple in triples]].reshape(len(systems), len(sources))
        return SegmentScores(values, f"nrefs:1|model:{self._name}|comet:{version}|precision:32|batch:independent")

    def _run(self, samples: list[dict[str, str]], progress: Progress) -> str:
        """Return the worker's answer; empty if it exited without one."""
        content = {
            "model": self._name,
            "checkpoint": None if self._checkpoint is None else str(self._checkpoint),
            "device": self._device,
            "threads": self._threads,
            "samples": samples,
        }
        with tempfile.TemporaryDirectory(prefix="lacuna-comet-") as name:
            request, answer, log = (Path(name, file) for file in ("request.json", "answer.json", "stderr"))
            request.write_text(json.dumps(content), encoding="utf-8")
            status = self._watch([str(request), str(answer)], log, progress)
            if status != 0:
                raise EvaluationError(f"COMET {self._name}: {_last_line(log) or f'ended with status {status}'}")
            return answer.read_text(encoding="utf-8") if answer.exists() else ""

    def _watch(self, files: list[str], log: Path, progress: Progress) -> int:
        """Run the worker and report its progress."""
        command = [str(self._python), "-I", str(_WORKER), *files]
        with log.open("wb") as noise:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=noise,
                    env=_environment(),
                    encoding="utf-8",
                    errors="replace",
                )
            except OSError as error:
                raise SettingError(f"{self._python}: does not run ({error.strerror}); name another Python") from error
        with process:
            try:
                done = 0
                for line in process.stdout or ():
                    if line.strip().isdecimal():
                        progress.advance(int(line) - done)
                        done = int(line)
            except BaseException:
                process.kill()  # otherwise the worker would run on for hours
                raise
        return process.returncode


def find_python(named: str | Path | None) -> Path:
    """Find the Python of COMET: the given one, that of the environment variable, or that of ``make comet``."""
    wanted = str(named or os.environ.get(PYTHON_VARIABLE) or "")
    # Not resolved: the python of a virtual environment is a link, and finds its environment by its own path.
    program = shutil.which(Path(wanted or _OWN_PYTHON).expanduser())
    if program is not None:
        return Path(program).absolute()
    if wanted:
        raise SettingError(f"{wanted}: no such program; name the Python of an environment with unbabel-comet")
    raise MissingExtra(
        f"COMET needs a separate environment, and {_OWN_PYTHON} does not exist; run `make comet`, or name a Python "
        f"with unbabel-comet by `python` or {PYTHON_VARIABLE}"
    )


def find_checkpoint(model: str) -> Path | None:
    """Return the checkpoint file that ``model`` names, or None for a name on the hub."""
    # Not resolved either: the hub's cache links its files, and hparams.yaml is next to the link.
    path = Path(model).expanduser().absolute()
    if not path.exists():
        if model.endswith(".ckpt") or model.startswith((".", "/", "~")) or model.count("/") > 1:
            raise SettingError(f"{model}: no such file or folder; name a COMET checkpoint, or a model on the hub")
        return None
    checkpoint = path / _CHECKPOINT if path.is_dir() else path
    settings = checkpoint.parents[1] / "hparams.yaml"
    missing = next((file for file in (checkpoint, settings) if not file.is_file()), None)
    if missing is not None:
        raise SettingError(f"{model}: no {missing}; a COMET model is a folder with hparams.yaml and {_CHECKPOINT}")
    return checkpoint


def _environment() -> dict[str, str]:
    """Return our environment variables; torch may not run code from a checkpoint unless the user allows it."""
    trusting = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" in os.environ
    careful = {} if trusting else {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}
    return {**os.environ, **careful, "TOKENIZERS_PARALLELISM": "false"}


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")


def _checked(answer: str, count: int, model: str) -> tuple[NDArray[np.float64], str]:
    """Return the scores and the version of COMET; refuse an invalid answer."""
    try:
        content: Any = json.loads(answer)
        scores, version = [float(score) for score in content["scores"]], str(content["comet"])
    except (ValueError, KeyError, TypeError) as error:
        raise EvaluationError(f"COMET {model}: no usable answer ({error!r}); is its Python the right one?") from error
    if len(scores) != count or not all(map(math.isfinite, scores)):
        raise EvaluationError(
            f"COMET {model}: got {len(scores):,} scores for {count:,} segments, or scores that are not finite"
        )
    return np.array(scores), version
