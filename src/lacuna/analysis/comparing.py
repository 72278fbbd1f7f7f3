"""How systems compare on a test set: model alone, whole memory, pruned memories, and the combiners over them.

Each combiner is fitted on dev to its own memory; nothing is chosen on test. What is done stays on disk and is not done
again. Knows nothing of how a table is shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from lacuna.combiners import Combiner
from lacuna.datastore import open_store
from lacuna.evaluation import SystemScore, evaluate_systems
from lacuna.files import write_json
from lacuna.index.kinds import AUTO
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.pruning import Pruner, prune_store
from lacuna.records import SentencePair
from lacuna.translator import Memory, Translator, open_memory
from lacuna.translator.fitting import Fitter, FitVanilla

BASE, WHOLE = "model alone", "whole memory"


@dataclass(frozen=True, slots=True)
class Experiment:
    """What all systems of a table share.

    :param folder: Where pruned stores and translations go.
    :param index: The kind of index that pruned stores get; the whole memory's should be the same.
    """

    model: Model
    dev: Sequence[SentencePair]
    test: Sequence[SentencePair]
    folder: Path
    index: str = AUTO
    seed: int = 1
    progress: Progress = SILENT


@dataclass(frozen=True, slots=True)
class System:
    """One line of a table: a memory, and how its combiner is fitted; without a memory, the model alone."""

    name: str
    memory: Memory | None = None
    fitter: Fitter | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of a system.

    :param entries: Of the memory; 0 for the model alone.
    :param combiner: The settings that were found on dev.
    :param score: On test, compared with the first system.
    """

    name: str
    entries: int
    combiner: Mapping[str, Any]
    score: SystemScore

    def as_json(self) -> dict[str, Any]:
        """Return the line for machines."""
        return self.score.as_json() | {"entries": self.entries, "combiner": dict(self.combiner)}


def compare_systems(experiment: Experiment, systems: Sequence[System]) -> list[Compared]:
    """Fit every system on dev, translate test with it, and compare it with the first."""
    lines = {system.name: _translate(experiment, system) for system in systems}
    texts = {name: line["texts"] for name, line in lines.items()}
    scores = evaluate_systems([pair.target for pair in experiment.test], texts, progress=experiment.progress)
    return [
        Compared(score.name, line["entries"], line["combiner"], score)
        for score, line in zip(scores, lines.values(), strict=True)
    ]


def compare_pruners(
    experiment: Experiment, memory: Memory, pruners: Mapping[str, tuple[Pruner, float | None]]
) -> list[Compared]:
    """Prune in every way, and compare each memory, under vanilla kNN-MT, with the whole one.

    :param pruners: By the name of the line: the method, and the ratio to drop (or as much as the method can).
    """
    systems = [System(WHOLE, memory, FitVanilla()), System(BASE)]
    for name, (pruner, ratio) in pruners.items():
        systems.append(System(name, prune_once(experiment, memory, name, pruner, ratio), FitVanilla()))
    return compare_systems(experiment, systems)


def prune_once(experiment: Experiment, memory: Memory, name: str, pruner: Pruner, ratio: float | None) -> Memory:
    """Return a pruned memory, made unless it is there; where the ratio is too much, as pruned as can be."""
    folder = _folder(experiment, name) / "store"
    if folder.exists():
        parent = open_store(folder).manifest.parent
        if parent is not None and parent.fingerprint == memory.store.fingerprint:
            return open_memory(folder)
    prune_store(
        memory.store,
        pruner,
        folder,
        ratio=ratio,
        seed=experiment.seed,
        clamp=True,
        index=experiment.index,
        progress=experiment.progress,
    )
    return open_memory(folder)


def _folder(experiment: Experiment, name: str) -> Path:
    return experiment.folder / name.replace(",", "").replace(" ", "-")


def _translate(experiment: Experiment, system: System) -> dict[str, Any]:
    """Fit on dev and translate test, unless that was done before with the same model, memory and sentences."""
    path = _folder(experiment, system.name) / "translations.json"
    sentences = [f"{pair.source}\t{pair.target}" for pair in (*experiment.dev, *experiment.test)]
    memory = system.memory.store.fingerprint if system.memory else ""
    inputs = [experiment.model.fingerprint, memory, repr(system.fitter), str(experiment.seed), *sentences]
    made_of = xxhash.xxh3_128("\n".join(inputs).encode()).hexdigest()
    if path.exists():
        line: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if line["made_of"] == made_of:
            return line
    memories = [system.memory] if system.memory else []
    combiner = None
    if system.memory and system.fitter:
        fitted = system.fitter.fit(
            experiment.model, memories, experiment.dev, seed=experiment.seed, progress=experiment.progress
        )
        combiner = fitted.combiner
    translator = Translator(experiment.model, memories, combiner)
    results = translator.translate([pair.source for pair in experiment.test], progress=experiment.progress)
    line = {
        "made_of": made_of,
        "entries": system.memory.store.entries if system.memory else 0,
        "combiner": {} if combiner is None else _settings(combiner),
        "texts": [result.text for result in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, line)
    return line


def _settings(combiner: Combiner) -> dict[str, Any]:
    names = ("k", "temperature", "knn_weight", "kernel")
    return {"kind": type(combiner).__name__.lower()} | {
        name: getattr(combiner, name) for name in names if hasattr(combiner, name)
    }
