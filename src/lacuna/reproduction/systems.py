"""The systems of an experiment: what they consist of, their translations, and how they compare.

The steps are in :mod:`lacuna.steps`; here are the settings of the experiment for them, and the steps that only
experiments have. Knows nothing of tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import xxhash

from lacuna.decoding import BeamSettings
from lacuna.evaluation import RunsDifference, TermAccuracy, compare_runs, term_accuracy
from lacuna.fitting import Fitter
from lacuna.models import Model
from lacuna.models.training import FinetuneSettings, LoraSettings
from lacuna.progress import SILENT, Progress
from lacuna.reproduction.experiment import Experiment, FinetuneMethod, ReadSentences
from lacuna.steps import CachedCombiner, CachedMemory, CachedStep, Sentences, StepCache, Steps, StepSettings
from lacuna.steps.cached_steps import Scores
from lacuna.steps.step_cache import hash_json, settings_as_json
from lacuna.translator import System
from lacuna.workers import Pool

Differences = dict[str, dict[str, RunsDifference]]


@dataclass(frozen=True, slots=True)
class PlannedSystem:
    """A translation system: a memory with a fitter for its combiner, or a model alone.

    :param model: The step of a fine-tuned model; ``None`` for the model of the experiment.
    """

    memory: CachedMemory | None = None
    fitter: Fitter | None = None
    seed: int = 1
    model: CachedStep | None = None


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

    def finetune(self, method: FinetuneMethod) -> CachedStep:
        """Fine-tune the model with the settings of the experiment."""
        asked = self.experiment.finetune
        lora = LoraSettings() if method == "lora" else None
        return self.steps.finetune(
            FinetuneSettings(lora=lora, hours=asked.hours, learning_rate=asked.learning_rates.get(method))
        )

    def translate(self, name: str, planned: PlannedSystem, sentences: Sentences) -> list[str]:
        """Fit the system's combiner on dev and translate the sources."""
        memory, fitter, combiner = planned.memory, planned.fitter, None
        if memory is not None and fitter is not None:
            combiner = self.steps.fit(memory, fitter, planned.seed)
        beam = BeamSettings(self.experiment.beam, self.experiment.length_penalty)
        inputs = {
            "finetuned": planned.model.key if planned.model else None,
            "memory": memory.key if memory else None,
            "combiner": combiner.key if combiner else None,
            "beam": settings_as_json(beam),
        }
        done, sources = self._translated.setdefault(json.dumps(inputs, sort_keys=True), {}), sentences.sources
        if all(source in done for source in sources):
            return [done[source] for source in sources]
        inputs["sources"] = xxhash.xxh3_128("\0".join(sources).encode()).hexdigest()
        texts = self.steps.translate(inputs, lambda: self._system(name, planned, combiner, beam), sources)
        done.update(zip(sources, texts, strict=True))
        return texts

    def _system(self, name: str, planned: PlannedSystem, combiner: CachedCombiner | None, beam: BeamSettings) -> System:
        """Return the system as in the paper: the combiner alone decides, and nothing is rounded."""
        return System(
            self.steps.model if planned.model is None else self.steps.load_finetuned(planned.model),
            [planned.memory.open(name)] if planned.memory else [],
            combiner.load() if combiner else None,
            beam,
            exact_contexts=False,
            guard_ends=False,
            int8=False,
        )

    def score(self, systems: Mapping[str, list[str]], sentences: Sentences) -> Scores:
        """Score translations and compare each system with the first; see :meth:`~lacuna.steps.Steps.score`."""
        return self.steps.score(systems, sentences, self.experiment.comet)

    def compare_runs(self, systems: Mapping[str, list[list[str]]], sentences: Sentences) -> Differences:
        """Compare systems over several seeds; see :func:`~lacuna.evaluation.compare_runs`."""
        references, target = sentences.references, self.steps.model.target_language
        key = hash_json({"systems": dict(systems), "references": references})

        def compute() -> dict[str, Any]:
            differences = compare_runs(references, systems, target_language=target)
            return {name: {other: asdict(each) for other, each in row.items()} for name, row in differences.items()}

        content = self.steps.cache.make_json("compare", {"content": key}, compute)
        return {name: {other: RunsDifference(**each) for other, each in row.items()} for name, row in content.items()}

    def term_accuracy(self, base: str, whole: str, systems: Mapping[str, list[str]], part: Sentences) -> TermAccuracy:
        """Measure systems on the words that the memory changes; see :func:`~lacuna.evaluation.term_accuracy`.

        :param base: Name of the system without a memory.
        :param whole: Name of the system with the whole memory.
        """
        references, plain, adapted = part.references, systems[base], systems[whole]
        target = self.steps.model.target_language
        key = hash_json({"systems": dict(systems), "base": base, "whole": whole, "references": references})

        def compute() -> dict[str, Any]:
            return asdict(term_accuracy(references, plain, adapted, systems, target_language=target))

        return TermAccuracy(**self.steps.cache.make_json("terms", {"content": key}, compute))
