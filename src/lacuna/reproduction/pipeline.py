"""A whole experiment: from its file to tables, findings and what a report needs.

The chain of steps lives in ``INTO/steps``; killed at any moment, the same call goes on, and where nothing changed it
does nothing. Knows nothing of how a report looks.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lacuna.analysis.cases import corpus_cases, neighbor_case
from lacuna.analysis.knowledge import accuracy_by_margin, index_sizes, known_statistics, margin_distribution
from lacuna.analysis.paper import paper_of
from lacuna.analysis.tables import Table, write_table
from lacuna.files import write_json
from lacuna.margin import read_margins
from lacuna.models import Model, load_model
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages
from lacuna.reproduction.claims import Finding, check_claims
from lacuna.reproduction.comparison import WHOLE, Comparison, Results
from lacuna.reproduction.experiment import ExperimentFile, read_sentences
from lacuna.reproduction.paper_tables import (
    by_k_table,
    curve_table,
    data_table,
    main_table,
    reverse_table,
    seeds_table,
    settings_table,
    variants_table,
)
from lacuna.reproduction.step_cache import CachedStep, Workshop
from lacuna.reproduction.systems import Bench, MemoryPlace
from lacuna.translator import open_memory
from lacuna.version import __version__

_FORMAT = 1
_LIBRARIES = ("torch", "transformers", "faiss-cpu", "numpy", "sacrebleu")


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What came of an experiment.

    :param made: Names of the steps that had to be done in this run; none if nothing had changed.
    """

    into: Path
    tables: list[Table]
    findings: list[Finding]
    steps: list[CachedStep]
    made: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """What all steps took together, in whichever run they were done."""
        return round(sum(step.seconds for step in self.steps), 1)

    def as_json(self) -> dict[str, Any]:
        """Return the outcome for machines."""
        return {
            "into": str(self.into),
            "tables": [table.name for table in self.tables],
            "findings": [finding.as_json() for finding in self.findings],
            "steps": len(self.steps),
            "made": len(self.made),
            "seconds": self.seconds,
        }


def reproduce(
    experiment: ExperimentFile,
    into: Path,
    *,
    data: Path,
    device: str = "auto",
    progress: Progress = SILENT,
    announce: Callable[[str], None] = lambda name: None,
) -> Reproduction:
    """Run an experiment, as far as it has not been run.

    :param into: Gets ``steps``, ``tables`` and ``experiment.json``.
    :param data: The folder that corpora are named relative to.
    :param announce: Told the name of every step that has to be done.
    """
    sentences = read_sentences(experiment, data, into / "corpus", progress)
    model = load_model(experiment.model, device=device, languages=Languages.parse(experiment.languages))
    workshop = Workshop(into / "steps", announce)
    bench = Bench(experiment, model, sentences, workshop, progress)
    whole = bench.whole_memory()
    knowledge = list(_knowledge(bench, whole, progress))
    results = Comparison(bench, whole).run()
    tables = [*knowledge, *_comparisons(bench, results)]
    accuracy = next(table for table in tables if table.name == "accuracy")
    findings = check_claims(results, accuracy, _unknown_up_to_four(whole))
    for table in tables:
        write_table(table, into / "tables")
    outcome = Reproduction(into, tables, findings, workshop.steps, workshop.made)
    write_json(into / "experiment.json", _describe(experiment, model, bench, outcome))
    return outcome


def _knowledge(bench: Bench, whole: MemoryPlace, progress: Progress) -> Iterator[Table]:
    """Say what the model knows of the memory, before any translation."""
    paper, store, dev = paper_of(bench.experiment.paper), whole.store, bench.sentences["dev"]
    margins = read_margins(store)
    yield data_table(bench.sentences, paper)
    yield known_statistics(store, paper)
    yield margin_distribution(store, margins)
    limits, cap = bench.experiment.limits, bench.experiment.margin.max_margin
    inputs = {"store": store.fingerprint, "dev": dev.key, "tokens": limits.accuracy, "max_margin": cap}

    def measure() -> dict[str, Any]:
        tokens = limits.accuracy
        return accuracy_by_margin(
            bench.model, store, dev.pairs, max_margin=cap, most=tokens, progress=progress
        ).as_json()

    yield Table.from_json(bench.keep("accuracy", inputs, measure))
    case = bench.keep("neighbors", {"memory": whole.key, "dev": dev.key}, lambda: _case(bench, whole))
    if case is not None:
        yield Table.from_json(case)
    yield corpus_cases(bench.model, store, margins)


def _case(bench: Bench, whole: MemoryPlace) -> dict[str, Any] | None:
    case = neighbor_case(bench.model, open_memory(whole.path), bench.sentences["dev"].pairs)
    return None if case is None else case.as_json()


def _comparisons(bench: Bench, results: Results) -> Iterator[Table]:
    experiment = bench.experiment
    paper = paper_of(experiment.paper)
    yield settings_table(experiment, results, paper)
    yield main_table(results, paper, experiment.comet)
    yield seeds_table(results)
    yield curve_table(results)
    yield reverse_table(results, experiment.pruning.min_margin, paper)
    yield variants_table(results, paper)
    yield by_k_table(results, paper)
    yield index_sizes(
        {"whole memory" if name == WHOLE else "PLAC": place.store for name, place in results.memories.items()}
    )


def _unknown_up_to_four(whole: MemoryPlace) -> float:
    store = whole.store
    margins = read_margins(store).values[~store.known]
    return float(np.count_nonzero(margins <= 4)) / max(1, len(margins))


def _describe(experiment: ExperimentFile, model: Model, bench: Bench, outcome: Reproduction) -> dict[str, Any]:
    """Return what the report needs beside the tables."""
    hashes = {part: sentences.key for part, sentences in bench.sentences.items()}
    return {
        "kind": "experiment",
        "format": _FORMAT,
        "name": experiment.title,
        "title": experiment.note,
        "languages": experiment.languages,
        "tables": [table.name for table in outcome.tables],
        "findings": [finding.as_json() for finding in outcome.findings],
        "settings": experiment.model_dump(mode="json"),
        "versions": {"lacuna": __version__, "python": platform.python_version()}
        | {name: version(name) for name in _LIBRARIES},
        "hashes": {"model": model.fingerprint, **hashes},
        "steps": [step.as_json() for step in outcome.steps],
        "seconds": outcome.seconds,
    }
