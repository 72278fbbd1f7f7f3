"""The systems of an experiment: memories, combiners and translations, each made once and found again.

Nothing is chosen on test: combiners are fitted on dev, each to its own memory. Knows nothing of tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from lacuna.combiners import load_combiner
from lacuna.datastore import Store, build_store, open_store
from lacuna.decoding import BeamSettings
from lacuna.errors import IndexingError
from lacuna.evaluation import evaluate_systems, share_at_least
from lacuna.files import write_json
from lacuna.fitting import DevSet, Fitter, fit_combiner
from lacuna.index import build_index
from lacuna.index.manifest import read_manifest
from lacuna.margin import Approximate, measure_margin
from lacuna.models import Model, load_model
from lacuna.models.finetuning import FinetuneSettings, LoraSettings, finetune_model
from lacuna.progress import SILENT, Progress
from lacuna.pruning import Pruner, prune_store
from lacuna.records import Languages
from lacuna.reproduction.experiment import ExperimentFile, FinetuneMethod, Sentences
from lacuna.reproduction.step_cache import CachedStep, Workshop, described
from lacuna.translator import Translator, open_memory

Scores = dict[str, dict[str, Any]]
Shares = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """A memory on disk.

    :param key: Of the step that made it, and of its index.
    """

    path: Path
    key: str

    @property
    def store(self) -> Store:
        """The store, opened."""
        return open_store(self.path)


@dataclass(frozen=True, slots=True)
class System:
    """What translates: a memory with a way to fit a combiner to it; without either, a model alone.

    :param model: Key of a fine-tuned model; without it, the experiment's own.
    """

    memory: MemoryPlace | None = None
    fitter: Fitter | None = None
    seed: int = 1
    model: str | None = None


class Bench:
    """Makes what an experiment needs."""

    def __init__(
        self,
        experiment: ExperimentFile,
        model: Model,
        sentences: Mapping[str, Sentences],
        workshop: Workshop,
        progress: Progress = SILENT,
    ) -> None:
        self.experiment, self.model, self.sentences = experiment, model, sentences
        self._workshop, self._progress = workshop, progress
        self._tuned: dict[str, Path] = {}
        self._dev = DevSet(sentences["dev"].pairs)
        # By system, then by source: a part of what was translated need not be translated again.
        self._translated: dict[str, dict[str, str]] = {}

    def whole_memory(self) -> MemoryPlace:
        """Build the memory of all training pairs, with its index and its margins."""
        train, kind, margin = self.sentences["train"], self.experiment.index, self.experiment.margin

        def build(folder: Path) -> None:
            build_store(self.model, train.pairs, folder / "store", total=len(train), progress=self._progress)

        step = self._workshop.make("store", {"model": self.model.fingerprint, "train": train.key}, build, goes_on=True)
        path = step.folder / "store"
        index = self._workshop.make("index", {"store": step.key, "kind": kind}, lambda _: self._index(path))
        self._index(path)  # the step is done, but the store may have had another index since
        approximate = Approximate() if margin.approximate else None
        settings = {"store": step.key, **margin.model_dump()}
        self._workshop.make("margin", settings, lambda _: self._measure(path, approximate), goes_on=True)
        self._measure(path, approximate)
        return MemoryPlace(path, index.key)

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
        measure_margin(open_store(path), maximum, approximate=approximate, progress=self._progress)

    def prune(self, memory: MemoryPlace, pruner: Pruner, ratio: float | None, seed: int) -> MemoryPlace:
        """Prune a memory; where a method cannot drop the ratio, it drops what it can."""
        settings = {"store": memory.key, "pruner": described(pruner), "ratio": ratio, "seed": seed}

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
            )

        step = self._workshop.make(f"prune-{pruner.name}", settings, work)
        return MemoryPlace(step.folder / "store", step.key)

    def finetune(self, method: FinetuneMethod) -> CachedStep:
        """Fine-tune the model on the training pairs; the step's folder has ``model`` and ``report.json``."""
        train, dev = self.sentences["train"], self.sentences["dev"]
        lora = LoraSettings() if method == "lora" else None
        asked = self.experiment.finetune
        settings = FinetuneSettings(lora=lora, hours=asked.hours, learning_rate=asked.learning_rates.get(method))
        inputs = {"model": self.model.fingerprint, "train": train.key, "dev": dev.key, "settings": described(settings)}

        def work(folder: Path) -> None:
            report = finetune_model(
                self.model, train.pairs, folder / "model", settings, dev=dev.pairs, progress=self._progress
            )
            write_json(folder / "report.json", report.as_json() | {"into": "model"})

        step = self._workshop.make(f"finetune-{method}", inputs, work, goes_on=True)
        self._tuned[step.key] = step.folder / "model"
        return step

    def translate(self, name: str, system: System, sentences: Sentences) -> list[str]:
        """Fit a system's combiner on dev, and translate."""
        combiner = self._fit(system)
        beam = BeamSettings(self.experiment.beam, self.experiment.length_penalty)
        inputs = {
            "model": system.model or self.model.fingerprint,
            "memory": system.memory.key if system.memory else None,
            "combiner": combiner.key if combiner else None,
            "beam": described(beam),
        }
        done = self._translated.setdefault(json.dumps(inputs, sort_keys=True), {})
        if all(source in done for source in sentences.sources):
            return [done[source] for source in sentences.sources]

        def work(folder: Path) -> None:
            model = self._open_model(system.model)
            memories = [open_memory(system.memory.path, name)] if system.memory else []
            translator = Translator(model, memories, load_combiner(combiner.folder / "fit") if combiner else None, beam)
            results = translator.translate(sentences.sources, progress=self._progress)
            write_json(folder / "texts.json", [result.text for result in results])

        sources = xxhash.xxh3_128("\0".join(sentences.sources).encode()).hexdigest()
        step = self._workshop.make("translate", inputs | {"sources": sources}, work)
        texts: list[str] = json.loads((step.folder / "texts.json").read_text(encoding="utf-8"))
        done.update(zip(sentences.sources, texts, strict=True))
        return texts

    def _fit(self, system: System) -> CachedStep | None:
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

        inputs = {"memory": memory.key, "fitter": described(fitter), "dev": dev.key, "seed": system.seed}
        return self._workshop.make(f"fit-{fitter.name}", inputs, work)

    def _open_model(self, tuned: str | None) -> Model:
        if tuned is None:
            return self.model
        return load_model(self._tuned[tuned], languages=Languages.parse(self.experiment.languages))

    def score(self, systems: Mapping[str, list[str]], sentences: Sentences) -> Scores:
        """Score translations; each is compared with the first. By name: what ``lacuna evaluate --json`` gives."""
        target = Languages.parse(self.experiment.languages).target
        inputs = {"systems": dict(systems), "references": sentences.references, "comet": self.experiment.comet}
        key = xxhash.xxh3_128(json.dumps(inputs, ensure_ascii=False).encode()).hexdigest()

        def work(folder: Path) -> None:
            scores = evaluate_systems(
                sentences.references, systems, target_language=target, progress=self._progress, **self._comet(sentences)
            )
            write_json(folder / "scores.json", [score.as_json() for score in scores])

        step = self._workshop.make("score", {"content": key}, work)
        rows = json.loads((step.folder / "scores.json").read_text(encoding="utf-8"))
        return {row["name"]: row for row in rows}

    def compare_runs(self, systems: Mapping[str, list[list[str]]], sentences: Sentences) -> Shares:
        """Compare systems that were run with several seeds; see :func:`~lacuna.evaluation.share_at_least`."""
        inputs = {"systems": dict(systems), "references": sentences.references}
        key = xxhash.xxh3_128(json.dumps(inputs, ensure_ascii=False).encode()).hexdigest()
        target = Languages.parse(self.experiment.languages).target
        shares: Shares = self.keep(
            "compare",
            {"content": key},
            lambda: share_at_least(sentences.references, systems, target_language=target),
        )
        return shares

    def _comet(self, sentences: Sentences) -> dict[str, Any]:
        if self.experiment.comet is None:
            return {}
        from lacuna.evaluation.comet import CometScorer

        return {"comet": CometScorer(self.experiment.comet), "sources": sentences.sources}

    def keep(self, name: str, inputs: Mapping[str, Any], make: Callable[[], Any]) -> Any:  # noqa: ANN401 - JSON is any
        """Make some JSON once; later runs read it."""
        step = self._workshop.make(name, inputs, lambda folder: write_json(folder / "content.json", make()))
        return json.loads((step.folder / "content.json").read_text(encoding="utf-8"))
