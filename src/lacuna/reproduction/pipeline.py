"""Run an experiment: from its settings to tables, checked claims and ``experiment.json``.

Step results are cached in ``INTO/steps``. After an interruption, the same call continues; if nothing changed, it runs
no step. A long experiment has parts, whose results can be computed on several machines. Knows nothing of reports.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lacuna.artifacts.files import write_json
from lacuna.artifacts.locks import alone
from lacuna.errors import SettingError
from lacuna.margin import read_margins
from lacuna.models import load_model
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages
from lacuna.reproduction.cases import corpus_cases, neighbor_case
from lacuna.reproduction.claims import CheckedClaim, check_claims
from lacuna.reproduction.comparison import PARTS, REVERSE, WHOLE, Comparison, ComparisonResults, Part
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
    size_margins_table,
    sizes_table,
    times_table,
    variants_table,
)
from lacuna.reproduction.systems import ExperimentSystems
from lacuna.reproduction.tables import Table, write_table
from lacuna.steps import CachedMemory, CachedStep, PrunedMemory, StepCache
from lacuna.version import __version__
from lacuna.workers import Pool

_FORMAT = 1
_LIBRARIES = ("torch", "transformers", "faiss-cpu", "numpy", "sacrebleu")


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The results of an experiment.

    :param into: Folder of the results, as :func:`lacuna.reports.write_report` takes it.
    :param memories: The whole memory (``whole``) and the one pruned by PLAC (``plac``); they are opened when they are
        asked for.
    :param missing: Results that are not there, and the part of the experiment that computes them.
    :param made: Names of the steps that ran; empty if all results were there.
    """

    into: Path
    tables: list[Table]
    claims: list[CheckedClaim]
    memories: dict[str, PrunedMemory]
    missing: dict[str, Part]
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
            "missing": self.missing,
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
    parts: Sequence[Part] = PARTS,
    results: Path | None = None,
    device: str = "auto",
    progress: Progress = SILENT,
    announce: Callable[[str], None] = lambda name: None,
    pool: Pool | None = None,
) -> Reproduction:
    """Run an experiment; steps whose results are cached do not run again.

    :param into: Folder for ``steps``, ``tables`` and ``experiment.json``.
    :param data: Base folder of the corpora named in the experiment.
    :param parts: The parts to compute. Of the others, the results that are there are used; with no part at all, nothing
        is computed.
    :param results: Folder of the figures behind the tables: one small JSON file each, without text of corpora. Files
        that other machines have written there are used. By default, they are in ``steps``.
    :param device: Device of all models, as in :func:`~lacuna.models.load_model`.
    :param announce: Called with the name of every step that runs.
    :param pool: Workers that build, measure margins, prune and translate; by default, the threads of this process.
    :raises SettingError: There are no results, and no part is to be computed.
    """
    if unknown := [part for part in parts if part not in PARTS]:
        raise SettingError(f"parts: got {unknown[0]!r}; allowed: {', '.join(PARTS)}")
    sentences = read_sentences(experiment, data, into / "corpus", progress)
    languages = Languages.parse(experiment.languages)
    # The paper translates text as it is.
    model = load_model(experiment.model, device=device, languages=languages, mask_placeholders=False)
    cache = StepCache(into / "steps", announce, results=results)
    systems = ExperimentSystems(experiment, model, sentences, cache, progress, pool)
    whole = systems.steps.build()
    comparison = Comparison(systems, whole, parts)
    knowledge = list(_knowledge_tables(comparison, systems, whole, progress))
    found = comparison.run()
    if found is None:
        where = results or into
        raise SettingError(
            f"parts: got none, and {where} has no results of this experiment to merge; compute {', '.join(PARTS)} first"
        )
    tables = [*knowledge, *_comparison_tables(experiment, found), *_size_tables(comparison, systems, found)]
    accuracy = next((table for table in tables if table.name == "accuracy"), None)
    claims = check_claims(found, accuracy, comparison.count(whole).unknown_up_to_four)
    tables.append(times_table(cache.steps))
    for table in tables:
        write_table(table, into / "tables")
    memories: dict[str, PrunedMemory] = {WHOLE: whole, "plac": comparison.plac}
    outcome = Reproduction(into, tables, claims, memories, comparison.missing, cache.steps, cache.made)
    write_json(into / "experiment.json", _describe(systems, outcome))
    return outcome


def _knowledge_tables(
    comparison: Comparison, systems: ExperimentSystems, whole: CachedMemory, progress: Progress
) -> Iterator[Table]:
    """Yield the tables about the model's knowledge of the memory, which need no translation."""
    experiment, steps, dev = systems.experiment, systems.steps, systems.sentences["dev"]
    paper = paper_of(experiment.paper)
    yield data_table(systems.sentences, paper)
    memory = {"memory": whole.key, **whole.margins, "max_margin": experiment.margin.max_margin}

    def count() -> list[dict[str, Any]]:
        store = whole.store
        return [known_statistics(store, paper).as_json(), margin_distribution(store, read_margins(store)).as_json()]

    inputs = memory | {"paper": experiment.paper}
    counted = comparison.find("statistics", "main", lambda: steps.cache.make_portable("knowledge", inputs, count))
    tokens, cap = experiment.limits.accuracy, experiment.margin.max_margin

    def measure() -> dict[str, Any]:
        return accuracy_by_margin(
            steps.model, whole.store, dev.pairs, max_margin=cap, most=tokens, progress=progress
        ).as_json()

    inputs = steps.with_model({"memory": whole.key, "dev": dev.key, "tokens": tokens, "max_margin": cap})
    measured = comparison.find("accuracy", "analysis", lambda: steps.cache.make_portable("accuracy", inputs, measure))
    yield from map(Table.from_json, [*(counted or ()), *([measured] if measured else ())])
    yield from comparison.find("examples", "analysis", lambda: _examples(systems, whole, progress)) or ()


def _examples(systems: ExperimentSystems, whole: CachedMemory, progress: Progress) -> list[Table]:
    """Return the tables with sentences, which are computed where the memory is."""
    steps, dev = systems.steps, systems.sentences["dev"]

    def find() -> list[dict[str, Any]]:
        case = neighbor_case(steps.model, whole.opened, dev.pairs, progress=progress)
        cases = corpus_cases(steps.model, whole.store, read_margins(whole.store))
        return [table.as_json() for table in (case, cases) if table is not None]

    inputs = steps.with_model({"memory": whole.key, **whole.margins, "dev": dev.key})
    return [Table.from_json(content) for content in steps.cache.make_json("examples", inputs, find)]


def _comparison_tables(experiment: Experiment, results: ComparisonResults) -> Iterator[Table]:
    """Yield the tables that compare systems; those for which the experiment has only one system are left out."""
    paper = paper_of(experiment.paper)
    yield settings_table(experiment, results, paper)
    if results.main:
        yield main_table(results, paper, experiment.comet)
    if results.seeds:
        yield seeds_table(results)
    if "safe" not in results.missing:
        yield safe_table(results, paper)
    if results.curve:
        yield curve_table(results)
        if REVERSE in experiment.pruning.curve_methods:
            yield reverse_table(results, experiment.pruning.min_margin, paper)
    if experiment.variants and results.variants:
        yield variants_table(results, paper)
    if len(experiment.adaptive.ks) > 1 and results.by_k:
        yield by_k_table(results, paper)


def _size_tables(comparison: Comparison, systems: ExperimentSystems, results: ComparisonResults) -> Iterator[Table]:
    """Yield the tables about sizes: of indexes, and of memories."""
    memories = comparison.indexed(results.safe)

    def measure() -> Table:
        return index_sizes({name: systems.steps.index_size(memory) for name, memory in memories.items()})

    table = comparison.find("index-sizes", "analysis", measure)
    yield from [table] if table else []
    if results.sizes:
        yield sizes_table(results.sizes)
        yield size_margins_table(results.sizes)


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
        "missing": outcome.missing,
        "settings": experiment.model_dump(mode="json"),
        "versions": {"lacuna": __version__, "python": platform.python_version()}
        | {name: version(name) for name in _LIBRARIES},
        "hashes": {"model": systems.steps.model.fingerprint, **hashes},
        "steps": [step.as_json() for step in outcome.steps],
        "seconds": outcome.seconds,
    }
