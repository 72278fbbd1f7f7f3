"""The steps of an experiment: memories, fine-tuned models, combiners, translations and scores, all cached.

Nothing is selected on test: combiners are fitted on dev, each to its own memory. This module does not know the tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash

from lacuna.artifacts.files import write_json
from lacuna.artifacts.step_cache import CachedStep, StepCache, settings_as_json
from lacuna.combiners import load_combiner
from lacuna.datastore import Store, build_store, open_store
from lacuna.decoding import BeamSettings
from lacuna.errors import IndexingError
from lacuna.evaluation import CometScorer, RunsDifference, TermAccuracy, compare_runs, evaluate_systems, term_accuracy
from lacuna.fitting import DevSet, Fitter, choose_pruning, fit_combiner
from lacuna.index import build_index
from lacuna.index.manifest import read_manifest
from lacuna.margin import Approximate, measure_margin
from lacuna.memory import open_memory
from lacuna.models import Model, load_model
from lacuna.models.training import FinetuneSettings, LoraSettings, finetune_model
from lacuna.progress import SILENT, Progress
from lacuna.pruning import Pruner, prune_store
from lacuna.records import Languages
from lacuna.reproduction.experiment import Experiment, FinetuneMethod, Sentences
from lacuna.translator import System
from lacuna.workers import Pool

Scores = dict[str, dict[str, Any]]
Differences = dict[str, dict[str, RunsDifference]]


@dataclass(frozen=True, slots=True)
class CachedMemory:
    """A memory made by a step.

    :param key: Key of the last step that made it; covers the entries and the index.
    :param margin_key: Key of the step that measured its margins; ``None`` if they were not measured.
    """

    path: Path
    key: str
    margin_key: str | None = None

    @property
    def store(self) -> Store:
        """The opened store."""
        return open_store(self.path)


@dataclass(frozen=True, slots=True)
class PlannedSystem:
    """A translation system: a memory with a fitter for its combiner, or a model alone.

    :param model: Key of a fine-tuned model; ``None`` for the model of the experiment.
    """

    memory: CachedMemory | None = None
    fitter: Fitter | None = None
    seed: int = 1
    model: str | None = None


@dataclass(frozen=True, slots=True)
class SafeRatio:
    """The largest ratio of PLAC without a significant loss on dev.

    :param whole: BLEU of dev with the whole memory, with vanilla kNN-MT.
    :param pruned: The same with the pruned memory.
    :param p_decline: p-value of the decline.
    """

    min_margin: int
    ratio: float
    whole: float
    pruned: float
    p_decline: float


class ExperimentSteps:
    """Runs the steps of one experiment through a cache.

    :param model: Fine-tuned models are loaded on its device.
    :param sentences: Training, dev and test pairs by the name of the part.
    :param pool: Workers that build, measure margins, prune and translate; by default, the threads of this process.
    """

    def __init__(
        self,
        experiment: Experiment,
        model: Model,
        sentences: Mapping[str, Sentences],
        cache: StepCache,
        progress: Progress = SILENT,
        pool: Pool | None = None,
    ) -> None:
        self.experiment, self.model, self.sentences, self.cache = experiment, model, sentences, cache
        self._progress, self._pool = progress, pool
        self._finetuned: dict[str, Path] = {}
        self._dev = DevSet(sentences["dev"].pairs)
        # By system, then by source sentence: a subset of translated sentences needs no second run.
        self._translated: dict[str, dict[str, str]] = {}

    @property
    def _model_inputs(self) -> dict[str, str]:
        """Step inputs that identify the model; one model may translate in several directions."""
        return {"model": self.model.fingerprint, "languages": self.experiment.languages}

    def whole_memory(self) -> CachedMemory:
        """Build the memory of all training pairs, with its index and its margins."""
        train, kind, margin = self.sentences["train"], self.experiment.index, self.experiment.margin

        def build(folder: Path) -> None:
            pairs, total = train.pairs, len(train)  # cleaned when they were read, if the experiment asks for it
            build_store(
                self.model,
                pairs,
                folder / "store",
                cleaning=None,
                total=total,
                progress=self._progress,
                pool=self._pool,
            )

        inputs = {**self._model_inputs, "train": train.key}
        step = self.cache.make("store", inputs, build, resumes=True)
        path = step.folder / "store"
        index = self.cache.make("index", {"store": step.key, "kind": kind}, lambda _: self._index(path))
        self._index(path)  # the step is done, but another run may have given the store another index since
        approximate = Approximate() if margin.approximate else None
        settings = {"store": step.key, **margin.model_dump()}
        measured = self.cache.make("margin", settings, lambda _: self._measure(path, approximate), resumes=True)
        self._measure(path, approximate)
        return CachedMemory(path, index.key, measured.key)

    def _index(self, path: Path) -> None:
        store = open_store(path)
        try:
            current = read_manifest(store).asked == self.experiment.index
        except IndexingError:
            current = False
        if not current:
            build_index(store, self.experiment.index, progress=self._progress)

    def _measure(self, path: Path, approximate: Approximate | None) -> None:
        maximum = self.experiment.margin.max_margin
        measure_margin(open_store(path), maximum, approximate=approximate, progress=self._progress, pool=self._pool)

    def prune(self, memory: CachedMemory, pruner: Pruner, ratio: float | None, seed: int) -> CachedMemory:
        """Prune a memory; a method that cannot drop ``ratio`` drops as much as it can."""
        inputs = {"store": memory.key, "pruner": settings_as_json(pruner), "ratio": ratio, "seed": seed}
        if pruner.reads_margins:
            inputs["margin"] = memory.margin_key

        def work(folder: Path) -> None:
            prune_store(
                memory.store,
                pruner,
                folder / "store",
                ratio=ratio,
                seed=seed,
                clamp=True,
                index=self.experiment.index,
                progress=self._progress,
                pool=self._pool,
            )

        step = self.cache.make(f"prune-{pruner.name}", inputs, work)
        return CachedMemory(step.folder / "store", step.key)

    def choose_pruning(self, memory: CachedMemory) -> SafeRatio | None:
        """Find the largest safe ratio on dev, as ``lacuna prune --auto`` does; ``None`` if every ratio loses."""
        dev = self.sentences["dev"]
        inputs = {**self._model_inputs, "memory": memory.key, "margin": memory.margin_key, "dev": dev.key}

        def compute() -> dict[str, Any] | None:
            choice = choose_pruning(self.model, open_memory(memory.path), self._dev, progress=self._progress)
            if choice.pruner is None:
                return None
            trial = next(each for each in choice.trials if each.ratio == choice.ratio)
            return {
                "min_margin": choice.pruner.min_margin,
                "ratio": choice.ratio,
                "whole": choice.bleu,
                "pruned": trial.bleu,
                "p_decline": trial.p_bleu,
            }

        content = self.cache.make_json("safe", inputs, compute)
        return None if content is None else SafeRatio(**content)

    def finetune(self, method: FinetuneMethod) -> CachedStep:
        """Fine-tune the model on the training pairs; the step's folder has ``model`` and ``report.json``."""
        train, dev = self.sentences["train"], self.sentences["dev"]
        lora = LoraSettings() if method == "lora" else None
        asked = self.experiment.finetune
        settings = FinetuneSettings(lora=lora, hours=asked.hours, learning_rate=asked.learning_rates.get(method))
        inputs = {
            **self._model_inputs,
            "train": train.key,
            "dev": dev.key,
            "settings": settings_as_json(settings),
        }

        def work(folder: Path) -> None:
            report = finetune_model(
                self.model, train.pairs, folder / "model", settings, dev=dev.pairs, progress=self._progress
            )
            write_json(folder / "report.json", report.as_json() | {"into": "model"})

        step = self.cache.make(f"finetune-{method}", inputs, work, resumes=True)
        self._finetuned[step.key] = step.folder / "model"
        return step

    def translate(self, name: str, system: PlannedSystem, sentences: Sentences) -> list[str]:
        """Fit the system's combiner on dev and translate the sources."""
        combiner = self._fit(system)
        beam = BeamSettings(self.experiment.beam, self.experiment.length_penalty)
        inputs = {
            **self._model_inputs,
            "finetuned": system.model,
            "memory": system.memory.key if system.memory else None,
            "combiner": combiner.key if combiner else None,
            "beam": settings_as_json(beam),
        }
        done = self._translated.setdefault(json.dumps(inputs, sort_keys=True), {})
        if all(source in done for source in sentences.sources):
            return [done[source] for source in sentences.sources]

        def work(folder: Path) -> None:
            model = self._open_model(system.model)
            memories = [open_memory(system.memory.path, name)] if system.memory else []
            fitted = load_combiner(combiner.folder / "fit") if combiner else None
            # As in the paper: the combiner alone decides.
            translator = System(model, memories, fitted, beam, exact_contexts=False, guard_ends=False).open()
            results = translator.translate(sentences.sources, progress=self._progress, pool=self._pool)
            write_json(folder / "texts.json", [result.text for result in results])

        sources = xxhash.xxh3_128("\0".join(sentences.sources).encode()).hexdigest()
        step = self.cache.make("translate", inputs | {"sources": sources}, work)
        texts: list[str] = json.loads((step.folder / "texts.json").read_text(encoding="utf-8"))
        done.update(zip(sentences.sources, texts, strict=True))
        return texts

    def _fit(self, system: PlannedSystem) -> CachedStep | None:
        memory, fitter, dev = system.memory, system.fitter, self.sentences["dev"]
        if memory is None or fitter is None:
            return None

        def work(folder: Path) -> None:
            fit_combiner(
                fitter,
                self.model,
                [open_memory(memory.path)],
                self._dev,
                folder / "fit",
                seed=system.seed,
                progress=self._progress,
            )

        inputs = {"memory": memory.key, "fitter": settings_as_json(fitter), "dev": dev.key, "seed": system.seed}
        return self.cache.make(f"fit-{fitter.name}", inputs, work)

    def _open_model(self, finetuned: str | None) -> Model:
        if finetuned is None:
            return self.model
        languages = Languages.parse(self.experiment.languages)
        return load_model(
            self._finetuned[finetuned],
            device=str(self.model.device),
            languages=languages,
            mask_placeholders=self.model.mask_placeholders,
        )

    def score(self, systems: Mapping[str, list[str]], sentences: Sentences) -> Scores:
        """Score translations and compare each system with the first.

        :return: By name of the system, the JSON object of ``lacuna evaluate --json``.
        """
        key = _hash({"systems": dict(systems), "references": sentences.references, "comet": self.experiment.comet})

        def work(folder: Path) -> None:
            scores = evaluate_systems(
                sentences.references,
                systems,
                target_language=self._target,
                progress=self._progress,
                **self._comet(sentences),
            )
            write_json(folder / "scores.json", [score.as_json() for score in scores])

        step = self.cache.make("score", {"content": key}, work)
        rows = json.loads((step.folder / "scores.json").read_text(encoding="utf-8"))
        return {row["name"]: row for row in rows}

    def compare_runs(self, systems: Mapping[str, list[list[str]]], sentences: Sentences) -> Differences:
        """Compare systems over several seeds; see :func:`~lacuna.evaluation.compare_runs`."""
        key = _hash({"systems": dict(systems), "references": sentences.references})

        def compute() -> dict[str, Any]:
            found = compare_runs(sentences.references, systems, target_language=self._target)
            return {one: {other: asdict(each) for other, each in row.items()} for one, row in found.items()}

        content = self.cache.make_json("compare", {"content": key}, compute)
        return {one: {other: RunsDifference(**each) for other, each in row.items()} for one, row in content.items()}

    def term_accuracy(self, base: str, whole: str, systems: Mapping[str, list[str]], part: Sentences) -> TermAccuracy:
        """Measure systems on the words that the memory changes; see :func:`~lacuna.evaluation.term_accuracy`.

        :param base: Name of the system without a memory.
        :param whole: Name of the system with the whole memory.
        """
        references, plain, adapted = part.references, systems[base], systems[whole]
        key = _hash({"systems": dict(systems), "base": base, "whole": whole, "references": references})

        def compute() -> dict[str, Any]:
            return asdict(term_accuracy(references, plain, adapted, systems, target_language=self._target))

        return TermAccuracy(**self.cache.make_json("terms", {"content": key}, compute))

    @property
    def _target(self) -> str:
        return Languages.parse(self.experiment.languages).target

    def _comet(self, sentences: Sentences) -> dict[str, Any]:
        if self.experiment.comet is None:
            return {}
        return {
            "comet": CometScorer(self.experiment.comet, device=str(self.model.device)),
            "sources": sentences.sources,
        }


def _hash(content: dict[str, Any]) -> str:
    return xxhash.xxh3_128(json.dumps(content, ensure_ascii=False).encode()).hexdigest()
