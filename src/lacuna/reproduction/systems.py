"""The systems of an experiment: what they consist of, their translations, and how they compare.

The steps are in :mod:`lacuna.steps`; here are the settings of the experiment for them, and the steps that only
experiments have. Knows nothing of tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import xxhash

from lacuna.decoding import BeamSettings
from lacuna.evaluation import CometScorer, RunScore, TermAccuracy, score_run, term_accuracy
from lacuna.fitting import Fitter
from lacuna.models import Model
from lacuna.models.training import FinetuneSettings, LoraSettings
from lacuna.progress import SILENT, Progress
from lacuna.reproduction.experiment import Experiment, FinetuneMethod, ReadSentences
from lacuna.steps import CachedCombiner, CachedModel, PrunedMemory, Sentences, StepCache, Steps, StepSettings
from lacuna.steps.step_cache import settings_as_json
from lacuna.translator import System
from lacuna.workers import Pool


@dataclass(frozen=True, slots=True)
class PlannedSystem:
    """A translation system: a memory with a fitter for its combiner, or a model alone.

    :param model: A fine-tuned model; ``None`` for the model of the experiment.
    """

    memory: PrunedMemory | None = None
    fitter: Fitter | None = None
    seed: int = 1
    model: CachedModel | None = None


@dataclass(frozen=True, slots=True)
class SystemRun:
    """The scores of a planned system on some sentences.

    :param entries: Entries of its memory; ``None`` without a memory.
    """

    entries: int | None
    score: RunScore


class ExperimentSystems:
    """Translates and compares the systems of one experiment.

    :param model: Fine-tuned models are loaded on its device.
    :param sentences: Training, dev and test pairs by the name of the part.
    :param pool: As in :class:`~lacuna.steps.Steps`.
    """

    def __init__(
        self,
        experiment: Experiment,
        model: Model,
        sentences: Mapping[str, ReadSentences],
        cache: StepCache,
        progress: Progress = SILENT,
        pool: Pool | None = None,
    ) -> None:
        self.experiment, self.sentences = experiment, sentences
        settings = StepSettings(experiment.margin.max_margin, experiment.margin.approximate, experiment.index)
        self.steps = Steps(model, sentences, cache, settings, progress, pool)
        # By system, then by source sentence: a subset of translated sentences needs no second run.
        self._translated: dict[str, dict[str, str]] = {}

    def finetune(self, method: FinetuneMethod) -> CachedModel:
        """Fine-tune the model with the settings of the experiment."""
        asked = self.experiment.finetune
        lora = LoraSettings() if method == "lora" else None
        return self.steps.finetune(
            FinetuneSettings(lora=lora, hours=asked.hours, learning_rate=asked.learning_rates.get(method))
        )

    def run(self, planned: PlannedSystem, sentences: Sentences) -> SystemRun:
        """Translate sentences and score the translations; the result is portable."""
        comet = self.experiment.comet

        def compute() -> dict[str, Any]:
            score = score_run(
                sentences.references,
                self.translate(planned, sentences),
                target_language=self.steps.model.target_language,
                comet=self._comet,
                sources=sentences.sources,
            )
            return {"entries": planned.memory.entries if planned.memory else None, **score.as_json()}

        inputs = {**self._inputs(planned), "sentences": sentences.key, **({"comet": comet} if comet else {})}
        content = self.steps.cache.make_portable("run", self.steps.with_model(inputs), compute)
        return SystemRun(content["entries"], RunScore.from_json(content))

    def translate(self, planned: PlannedSystem, sentences: Sentences) -> list[str]:
        """Fit the system's combiner on dev and translate the sources."""
        inputs, sources = self._inputs(planned), sentences.sources
        done = self._translated.setdefault(json.dumps(inputs, sort_keys=True), {})
        if not all(source in done for source in sources):
            texts = self._translate(planned, self._containing(inputs, sentences).sources)
            done.update(texts)
        return [done[source] for source in sources]

    def _containing(self, inputs: Mapping[str, Any], sentences: Sentences) -> Sentences:
        """Return the part that the sentences are drawn from if it is translated already; otherwise the sentences."""
        sources = set(sentences.sources)
        for part in (self.sentences["dev"], self.sentences["test"]):  # what is ever translated
            if self.steps.has_translated({**inputs, **_of_sources(part.sources)}) and sources.issubset(part.sources):
                return part
        return sentences

    def _translate(self, planned: PlannedSystem, sources: list[str]) -> dict[str, str]:
        inputs = self._inputs(planned) | _of_sources(sources)
        texts = self.steps.translate(inputs, lambda: self._system(planned), sources)
        return dict(zip(sources, texts, strict=True))

    def _inputs(self, planned: PlannedSystem) -> dict[str, Any]:
        combiner = self._combiner(planned)
        return {
            "finetuned": planned.model.key if planned.model else None,
            "memory": planned.memory.key if planned.memory else None,
            "combiner": combiner.key if combiner else None,
            "beam": settings_as_json(self._beam),
            **({"int8": True} if self.experiment.int8 else {}),
        }

    @cached_property
    def _beam(self) -> BeamSettings:
        return BeamSettings(self.experiment.beam, self.experiment.length_penalty)

    @cached_property
    def _comet(self) -> CometScorer | None:
        name = self.experiment.comet
        return None if name is None else CometScorer(name, device=str(self.steps.model.device))

    def _combiner(self, planned: PlannedSystem) -> CachedCombiner | None:
        if planned.memory is None or planned.fitter is None:
            return None
        return self.steps.fit(planned.memory, planned.fitter, planned.seed)

    def _system(self, planned: PlannedSystem) -> System:
        """Return the system as in the paper: the combiner alone decides."""
        combiner = self._combiner(planned)
        return System(
            self.steps.model if planned.model is None else self.steps.load_finetuned(planned.model),
            [planned.memory.opened] if planned.memory else [],
            combiner.load() if combiner else None,
            self._beam,
            exact_contexts=False,
            guard_ends=False,
            int8=self.experiment.int8,
        )

    def term_accuracy(self, base: str, whole: str, systems: Mapping[str, PlannedSystem]) -> TermAccuracy:
        """Measure systems on the words of test that the memory changes; see :func:`~lacuna.evaluation.term_accuracy`.

        :param base: Name of the system without a memory.
        :param whole: Name of the system with the whole memory.
        """
        test, target = self.sentences["test"], self.steps.model.target_language

        def compute() -> dict[str, Any]:
            texts = {name: self.translate(system, test) for name, system in systems.items()}
            return asdict(term_accuracy(test.references, texts[base], texts[whole], texts, target_language=target))

        named = {name: self._inputs(system) for name, system in systems.items()}
        inputs = self.steps.with_model({"systems": named, "base": base, "whole": whole, "test": test.key})
        return TermAccuracy(**self.steps.cache.make_portable("terms", inputs, compute))


def _of_sources(sources: list[str]) -> dict[str, str]:
    """Return what identifies sources, as an input of a step."""
    return {"sources": xxhash.xxh3_128("\0".join(sources).encode()).hexdigest()}
