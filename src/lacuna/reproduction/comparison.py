"""The systems that an experiment compares, and their scores: main comparison, seeds, variants and the ratio curve.

:class:`~lacuna.reproduction.systems.ExperimentSystems` translates and scores; :mod:`lacuna.reproduction.paper_tables`
formats the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lacuna.evaluation import RunsDifference, TermAccuracy
from lacuna.fitting import FitAdaptive, FitKster, Fitter, FitVanilla
from lacuna.margin import read_margins
from lacuna.pruning import AllKnown, Plac, Pruner, make_pruner
from lacuna.reproduction.experiment import draw
from lacuna.reproduction.systems import Differences, ExperimentSystems, PlannedSystem
from lacuna.steps import CachedMemory, SafeRatio

BASE, WHOLE, REVERSE = "base", "whole", "reverse"
# The pruning methods of the main comparison.
COMPARED = ("random", "cluster", "merge", "known", "plac", REVERSE)


@dataclass(frozen=True, slots=True)
class SystemResult:
    """The score of one system in a comparison.

    :param dropped: Share of the entries that are not in its memory; ``None`` without a memory.
    :param setting: Distinguishes systems of the same name: a seed, a ``min_margin``, a ratio or a k.
    :param score: The JSON object of ``lacuna evaluate --json``.
    """

    name: str
    dropped: float | None
    entries: int | None
    setting: str
    score: dict[str, Any]

    @property
    def bleu(self) -> float:
        """BLEU."""
        return float(self.score["bleu"])


@dataclass(frozen=True, slots=True)
class SafeResult:
    """The safe ratio of PLAC, chosen on dev, on the test set.

    :param difference: Difference of the pruned from the whole memory on test, over all seeds.
    :param memory: The pruned memory of the first seed.
    """

    choice: SafeRatio
    difference: RunsDifference
    memory: CachedMemory


@dataclass(frozen=True, slots=True)
class ComparisonResults:
    """The results of all systems.

    :param ratio: Share of the entries dropped in the main comparison.
    :param asked: The ratio in the experiment file.
    :param main: Base, fine-tuned models, the whole memory, and every pruning method with the first seed.
    :param terms: Accuracy of the systems of ``main`` on the words that the memory changes.
    :param seeds: The whole memory and the pruning methods with every seed.
    :param differences: ``[one][other]``: the difference between two systems of ``seeds``, each over all seeds.
    :param safe: The largest safe ratio; ``None`` if no ratio keeps the promise on dev.
    :param variants: Combiners with the whole and with the pruned memory.
    :param by_k: Adaptive kNN-MT by k, with the whole and with the pruned memory.
    :param curve: On dev: pruning methods by ratio; the first is the whole memory.
    """

    ratio: float
    asked: float
    main: list[SystemResult]
    terms: TermAccuracy
    seeds: list[SystemResult]
    differences: Differences
    safe: SafeResult | None
    variants: list[SystemResult]
    by_k: list[SystemResult]
    curve: list[SystemResult]
    memories: dict[str, CachedMemory]


class Comparison:
    """Runs all systems of an experiment."""

    def __init__(self, systems: ExperimentSystems, whole: CachedMemory) -> None:
        self._systems, self._steps, self._whole = systems, systems.steps, whole
        self._experiment, self._settings = systems.experiment, systems.experiment.pruning
        store = whole.store
        self._entries = store.entries
        margins = read_margins(store).values
        self._largest_ratio = {
            margin: float(np.count_nonzero(store.known & (margins >= margin))) / store.entries
            for margin in {self._settings.min_margin, *self._settings.min_margins}
        }
        # All methods drop the same share, so that only the choice of entries differs.
        self._ratio = min(self._settings.ratio, self._largest_ratio[self._settings.min_margin])
        self._first_seed = self._experiment.seeds[0]

    def run(self) -> ComparisonResults:
        """Translate and score every system."""
        pruned = self._pruned("plac", self._ratio, self._first_seed)
        repeats = self._experiment.limits.repeats
        return ComparisonResults(
            ratio=self._ratio,
            asked=self._settings.ratio,
            main=self._compare(self._main(), "test"),
            terms=self._terms(),
            seeds=self._compare(self._by_seed(), "test", repeats),
            differences=self._compare_runs(repeats),
            safe=self._safe(),
            variants=self._variants(pruned),
            by_k=self._by_k(pruned),
            curve=self._curve(),
            memories={WHOLE: self._whole, "plac": pruned},
        )

    def _adaptive(self, k: int | None = None) -> Fitter:
        adaptive = self._experiment.adaptive
        return FitAdaptive(k=k or adaptive.k, temperature=adaptive.temperature)

    def _pruner(self, name: str, min_margin: int | None = None) -> Pruner:
        margin = min_margin or self._settings.min_margin
        if name == "plac":
            return Plac(margin)
        return make_pruner(name, min_margin=margin) if name == REVERSE else make_pruner(name)

    def _pruned(self, name: str, ratio: float | None, seed: int, min_margin: int | None = None) -> CachedMemory:
        return self._steps.prune(self._whole, self._pruner(name, min_margin), ratio, seed)

    def _system(self, memory: CachedMemory, fitter: Fitter | None = None, seed: int | None = None) -> PlannedSystem:
        return PlannedSystem(memory, fitter or self._adaptive(), self._first_seed if seed is None else seed)

    def _main(self) -> dict[tuple[str, str], PlannedSystem]:
        systems = {WHOLE: self._system(self._whole), BASE: PlannedSystem()}
        for method in self._experiment.finetune.methods:
            systems[f"finetuned, {method}"] = PlannedSystem(model=self._systems.finetune(method))
        for name in COMPARED:
            systems[name] = self._system(self._pruned(name, self._ratio, self._first_seed))
        systems["all_known"] = self._system(self._steps.prune(self._whole, AllKnown(), None, self._first_seed))
        return {(name, ""): system for name, system in systems.items()}

    def _terms(self) -> TermAccuracy:
        test = self._systems.sentences["test"]
        texts = {name: self._systems.translate(name, system, test) for (name, _), system in self._main().items()}
        return self._systems.term_accuracy(BASE, WHOLE, texts, test)

    def _by_seed(self) -> dict[tuple[str, str], PlannedSystem]:
        seeds = self._experiment.seeds
        systems = {(WHOLE, str(seed)): self._system(self._whole, seed=seed) for seed in seeds}
        for seed in seeds:
            for name in COMPARED:
                systems[(name, str(seed))] = self._system(self._pruned(name, self._ratio, seed), seed=seed)
        return systems

    def _compare_runs(self, repeats: int | None) -> Differences:
        sentences, systems = draw(self._systems.sentences["test"], repeats), self._by_seed()
        texts = {
            name: [self._systems.translate(" ".join(key), systems[key], sentences) for key in systems if key[0] == name]
            for name in (WHOLE, *COMPARED)
        }
        return self._systems.compare_runs(texts, sentences)

    def _safe(self) -> SafeResult | None:
        """Choose the safe ratio on dev, and confirm it on test with every seed."""
        choice = self._steps.choose_ratio(self._whole, self._steps.dev).safe
        if choice is None:
            return None
        test, seeds = self._systems.sentences["test"], self._experiment.seeds
        pruned = [self._pruned("plac", choice.ratio, seed, choice.min_margin) for seed in seeds]
        systems = {WHOLE: [self._whole] * len(seeds), "plac": pruned}
        texts = {
            name: [
                self._systems.translate(name, self._system(memory, seed=seed), test)
                for memory, seed in zip(memories, seeds, strict=True)
            ]
            for name, memories in systems.items()
        }
        return SafeResult(choice, self._systems.compare_runs(texts, test)["plac"][WHOLE], pruned[0])

    def _variants(self, pruned: CachedMemory) -> list[SystemResult]:
        others: dict[str, Fitter] = {"vanilla": FitVanilla(), "kster": FitKster()}
        fitters = {"adaptive": self._adaptive()} | {name: others[name] for name in self._experiment.variants}
        systems = {
            (name, size): self._system(memory, fitter)
            for name, fitter in fitters.items()
            for size, memory in ((WHOLE, self._whole), ("plac", pruned))
        }
        return self._compare(systems, "test")

    def _by_k(self, pruned: CachedMemory) -> list[SystemResult]:
        systems = {
            (size, str(k)): self._system(memory, self._adaptive(k))
            for k in self._experiment.adaptive.ks
            for size, memory in ((WHOLE, self._whole), ("plac", pruned))
        }
        return self._compare(systems, "test", self._experiment.limits.repeats)

    def _curve(self) -> list[SystemResult]:
        """Translate part of dev with memories of increasing pruning ratio."""
        systems = {(WHOLE, ""): self._system(self._whole)}
        ratios = sorted({*self._settings.ratios, self._ratio})
        for name in self._settings.curve_methods:
            for ratio in ratios:
                systems[(name, f"{ratio:.4f}")] = self._system(self._pruned(name, ratio, self._first_seed))
        for margin in self._settings.min_margins:
            largest = self._largest_ratio[margin]
            for ratio in sorted({*(each for each in ratios if each < largest), largest}):
                memory = self._pruned("plac", ratio, self._first_seed, margin)
                systems[(f"plac {margin}", f"{ratio:.4f}")] = self._system(memory)
        return self._compare(systems, "dev", self._experiment.limits.curve)

    def _compare(
        self, systems: dict[tuple[str, str], PlannedSystem], part: str, most: int | None = None
    ) -> list[SystemResult]:
        sentences = draw(self._systems.sentences[part], most)
        names = {key: " ".join(key) for key in systems}
        texts = {names[key]: self._systems.translate(names[key], systems[key], sentences) for key in systems}
        scores = self._systems.score(texts, sentences)
        return [self._result(key, systems[key], scores[names[key]]) for key in systems]

    def _result(self, key: tuple[str, str], system: PlannedSystem, score: dict[str, Any]) -> SystemResult:
        entries = system.memory.store.entries if system.memory else None
        dropped = None if entries is None else 1 - entries / self._entries
        return SystemResult(key[0], dropped, entries, key[1], score)
