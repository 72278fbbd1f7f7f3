"""Run an experiment: from its settings to tables, checked claims and ``experiment.json``.

Step results are cached in ``INTO/steps``. After an interruption, the same call continues; if nothing changed, it runs
no step. Knows nothing of reports.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lacuna.artifacts.files import write_json
from lacuna.artifacts.locks import alone
from lacuna.margin import read_margins
from lacuna.memory import Memory
from lacuna.models import load_model
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages
from lacuna.reproduction.cases import corpus_cases, neighbor_case
from lacuna.reproduction.claims import CheckedClaim, check_claims
from lacuna.reproduction.comparison import REVERSE, WHOLE, Comparison, ComparisonResults
from lacuna.reproduction.experiment import Experiment, read_sentences
from lacuna.reproduction.knowledge_tables import accuracy_by_margin, index_sizes, known_statistics, margin_distribution
from lacuna.reproduction.paper import paper_of
from lacuna.reproduction.paper_tables import (
    by_k_table,
    curve_table,
    data_table,
    main_table,
    reverse_table,
    safe_table,
    seeds_table,
    settings_table,
    variants_table,
)
from lacuna.reproduction.systems import ExperimentSystems
from lacuna.reproduction.tables import Table, write_table
from lacuna.steps import CachedMemory, CachedStep, StepCache
from lacuna.version import __version__
from lacuna.workers import Pool

_FORMAT = 1
_LIBRARIES = ("torch", "transformers", "faiss-cpu", "numpy", "sacrebleu")


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The results of an experiment.

    :param into: Folder of the results, as :func:`lacuna.reports.write_report` takes it.
    :param memories: The whole memory (``whole``) and the one pruned by PLAC (``plac``), opened.
    :param made: Names of the steps that ran; empty if all results were cached.
    """

    into: Path
    tables: list[Table]
    claims: list[CheckedClaim]
    memories: dict[str, Memory]
    steps: list[CachedStep]
    made: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Run time of all steps together, in whichever run they were done."""
        return round(sum(step.seconds for step in self.steps), 1)

    def as_json(self) -> dict[str, Any]:
        """Return the results as JSON."""
        return {
            "into": str(self.into),
            "tables": [table.name for table in self.tables],
            "findings": [claim.as_json() for claim in self.claims],
            "steps": len(self.steps),
            "made": len(self.made),
            "seconds": self.seconds,
        }


@alone("into")
def reproduce(
    experiment: Experiment,
    into: Path,
    *,
    data: Path,
    device: str = "auto",
    progress: Progress = SILENT,
    announce: Callable[[str], None] = lambda name: None,
    pool: Pool | None = None,
) -> Reproduction:
    """Run an experiment; steps whose results are cached do not run again.

    :param into: Folder for ``steps``, ``tables`` and ``experiment.json``.
    :param data: Base folder of the corpora named in the experiment.
    :param device: Device of all models, as in :func:`~lacuna.models.load_model`.
    :param announce: Called with the name of every step that runs.
    :param pool: Workers that build, measure margins, prune and translate; by default, the threads of this process.
    """
    sentences = read_sentences(experiment, data, into / "corpus", progress)
    languages = Languages.parse(experiment.languages)
    # The paper translates text as it is.
    model = load_model(experiment.model, device=device, languages=languages, mask_placeholders=False)
    cache = StepCache(into / "steps", announce)
    systems = ExperimentSystems(experiment, model, sentences, cache, progress, pool)
    whole = systems.steps.build()
    knowledge = list(_knowledge_tables(systems, whole, progress))
    results = Comparison(systems, whole).run()
    tables = [*knowledge, *_comparison_tables(experiment, results)]
    accuracy = next(table for table in tables if table.name == "accuracy")
    claims = check_claims(results, accuracy, _share_up_to_four(whole))
    for table in tables:
        write_table(table, into / "tables")
    memories = {name: memory.open(name) for name, memory in results.memories.items()}
    outcome = Reproduction(into, tables, claims, memories, cache.steps, cache.made)
    write_json(into / "experiment.json", _describe(systems, outcome))
    return outcome


def _knowledge_tables(systems: ExperimentSystems, whole: CachedMemory, progress: Progress) -> Iterator[Table]:
    """Yield the tables about the model's knowledge of the memory, which need no translation."""
    experiment, steps, dev = systems.experiment, systems.steps, systems.sentences["dev"]
    paper, store = paper_of(experiment.paper), whole.store
    margins = read_margins(store)
    yield data_table(systems.sentences, paper)
    yield known_statistics(store, paper)
    yield margin_distribution(store, margins)
    tokens, cap = experiment.limits.accuracy, experiment.margin.max_margin
    inputs = {"store": store.fingerprint, "dev": dev.key, "tokens": tokens, "max_margin": cap}

    def measure() -> dict[str, Any]:
        return accuracy_by_margin(
            steps.model, store, dev.pairs, max_margin=cap, most=tokens, progress=progress
        ).as_json()

    yield Table.from_json(steps.cache.make_json("accuracy", inputs, measure))
    inputs = {"memory": whole.key, "dev": dev.key}

    def find() -> dict[str, Any] | None:
        case = neighbor_case(steps.model, whole.open(), dev.pairs)
        return None if case is None else case.as_json()

    content = steps.cache.make_json("neighbors", inputs, find)
    if content is not None:
        yield Table.from_json(content)
    yield corpus_cases(steps.model, store, margins)


def _comparison_tables(experiment: Experiment, results: ComparisonResults) -> Iterator[Table]:
    """Yield the tables that compare systems; those for which the experiment has only one system are left out."""
    paper = paper_of(experiment.paper)
    yield settings_table(experiment, results, paper)
    yield main_table(results, paper, experiment.comet)
    yield seeds_table(results)
    yield safe_table(results, paper)
    yield curve_table(results)
    if REVERSE in experiment.pruning.curve_methods:
        yield reverse_table(results, experiment.pruning.min_margin, paper)
    if experiment.variants:
        yield variants_table(results, paper)
    if len(experiment.adaptive.ks) > 1:
        yield by_k_table(results, paper)
    stores = {"whole memory": results.memories[WHOLE].store, "PLAC": results.memories["plac"].store}
    yield index_sizes(stores | ({"PLAC, safe ratio": results.safe.memory.store} if results.safe else {}))


def _share_up_to_four(whole: CachedMemory) -> float:
    """Return the share of unknown entries with a margin of 0 to 4."""
    store = whole.store
    margins = read_margins(store).values[~store.known]
    return float(np.count_nonzero(margins <= 4)) / max(1, len(margins))


def _describe(systems: ExperimentSystems, outcome: Reproduction) -> dict[str, Any]:
    """Return the content of ``experiment.json``, which a report needs besides the tables."""
    experiment = systems.experiment
    hashes = {part: sentences.key for part, sentences in systems.sentences.items()}
    return {
        "kind": "experiment",
        "format": _FORMAT,
        "name": experiment.title,
        "title": experiment.note,
        "languages": experiment.languages,
        "tables": [table.name for table in outcome.tables],
        "findings": [claim.as_json() for claim in outcome.claims],
        "settings": experiment.model_dump(mode="json"),
        "versions": {"lacuna": __version__, "python": platform.python_version()}
        | {name: version(name) for name in _LIBRARIES},
        "hashes": {"model": systems.steps.model.fingerprint, **hashes},
        "steps": [step.as_json() for step in outcome.steps],
        "seconds": outcome.seconds,
    }
