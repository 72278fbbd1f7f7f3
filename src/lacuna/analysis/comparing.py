"""How pruning methods compare: base model, whole memory, and the memory as each method leaves it, in one table.

The settings of each method are taken as given; those of vanilla kNN-MT are tuned on dev, for each memory by itself.
Nothing is chosen on test. What is done stays on disk and is not done again. Knows nothing of how the table is shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash

from lacuna.combiners import Vanilla
from lacuna.evaluation import SystemScore, evaluate_systems
from lacuna.files import write_json
from lacuna.index.kinds import AUTO
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.pruning import Pruner, prune_store
from lacuna.records import SentencePair
from lacuna.translator import Memory, Translator, open_memory, tune

BASE, WHOLE = "model alone", "whole memory"


@dataclass(frozen=True, slots=True)
class Compared:
    """One line of the table.

    :param entries: Of the memory; 0 for the model alone.
    :param combiner: As tuned on dev.
    :param score: On test, compared with the whole memory.
    """

    name: str
    entries: int
    combiner: Vanilla | None
    score: SystemScore

    def as_json(self) -> dict[str, Any]:
        """Return the line for machines."""
        own = {"entries": self.entries, "combiner": self.combiner and asdict(self.combiner)}
        return self.score.as_json() | own


@dataclass(frozen=True, slots=True)
class Experiment:
    """What all lines of a table share.

    :param folder: Where pruned stores and translations go.
    :param index: The kind of index that pruned stores get; the whole memory's should be the same.
    """

    model: Model
    dev: Sequence[SentencePair]
    test: Sequence[SentencePair]
    folder: Path
    index: str = AUTO
    progress: Progress = SILENT


def compare_pruners(
    experiment: Experiment, memory: Memory, pruners: Mapping[str, tuple[Pruner, float | None]], *, seed: int = 1
) -> list[Compared]:
    """Prune in every way, tune each memory on dev, translate test with it, and compare with the whole memory.

    :param pruners: By the name of the line: the method, and the ratio to drop (or as much as the method can).
    """
    lines = {WHOLE: _translate(experiment, memory, "whole"), BASE: _translate(experiment, None, "base")}
    for name, (pruner, ratio) in pruners.items():
        part = name.replace(" ", "-")
        store = experiment.folder / part / "store"
        if not store.exists():
            prune_store(
                memory.store,
                pruner,
                store,
                ratio=ratio,
                seed=seed,
                clamp=True,
                index=experiment.index,
                progress=experiment.progress,
            )
        lines[name] = _translate(experiment, open_memory(store), part)
    texts = {name: line["texts"] for name, line in lines.items()}
    scores = evaluate_systems([pair.target for pair in experiment.test], texts, progress=experiment.progress)
    return [
        Compared(score.name, line["entries"], Vanilla(**line["combiner"]) if line["combiner"] else None, score)
        for score, line in zip(scores, lines.values(), strict=True)
    ]


def _translate(experiment: Experiment, memory: Memory | None, part: str) -> dict[str, Any]:
    """Tune on dev and translate test, unless that was done before with the same model, memory and sentences."""
    path = experiment.folder / part / "translations.json"
    sentences = [f"{pair.source}\t{pair.target}" for pair in (*experiment.dev, *experiment.test)]
    inputs = [experiment.model.fingerprint, memory.store.fingerprint if memory else "", *sentences]
    made_of = xxhash.xxh3_128("\n".join(inputs).encode()).hexdigest()
    if path.exists():
        line: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if line["made_of"] == made_of:
            return line
    memories = [memory] if memory else []
    combiner = None
    if memories:
        combiner = tune(experiment.model, memories, experiment.dev, progress=experiment.progress)[0].combiner
    translator = Translator(experiment.model, memories, combiner)
    results = translator.translate([pair.source for pair in experiment.test], progress=experiment.progress)
    line = {
        "made_of": made_of,
        "entries": memory.store.entries if memory else 0,
        "combiner": combiner and asdict(combiner),
        "texts": [result.text for result in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, line)
    return line
