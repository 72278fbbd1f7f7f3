"""Which systems an experiment compares, and what they scored: the main comparison, its seeds, variants, and the curve.

All is translated and scored here, by a :class:`~lacuna.reproduction.systems.Bench`; the tables only lay it out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lacuna.fitting import FitAdaptive, FitKster, Fitter, FitVanilla
from lacuna.margin import read_margins
from lacuna.pruning import AllKnown, Plac, Pruner, make_pruner
from lacuna.reproduction.experiment import PRUNERS, draw
from lacuna.reproduction.systems import Bench, MemoryPlace, Scores, Shares, System

BASE, WHOLE, REVERSE = "base", "whole", "reverse"
COMPARED = (*PRUNERS, REVERSE)


@dataclass(frozen=True, slots=True)
class Line:
    """One system of a comparison.

    :param dropped: The share of entries that its memory lost; ``None`` without a memory.
    :param setting: What tells it apart from others of its name: a seed, a ``min_margin``, a ratio, a k.
    """

    name: str
    dropped: float | None
    entries: int | None
    setting: str
    score: dict[str, object]

    @property
    def bleu(self) -> float:
        """BLEU."""
        return float(self.score["bleu"])  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Results:
    """What came of all systems.

    :param ratio: The share that was dropped in the main comparison.
    :param asked: The share that the experiment asks for.
    :param main: Base, fine-tuned models, the whole memory, and every way to prune it, with the first seed.
    :param seeds: The ways to prune, with every seed.
    :param at_least: ``[one][other]``: the share of drawn test sets on which one way to prune, over all seeds, has at
        least the BLEU of another.
    :param variants: Combiners, with the whole and the pruned memory.
    :param by_k: Adaptive with several k, with the whole and the pruned memory.
    :param curve: On dev: ways to prune by ratio; the first line is the whole memory.
    """

    ratio: float
    asked: float
    main: list[Line]
    seeds: list[Line]
    at_least: Shares
    variants: list[Line]
    by_k: list[Line]
    curve: list[Line]
    memories: dict[str, MemoryPlace]


class Comparison:
    """Runs the systems of an experiment."""

    def __init__(self, bench: Bench, whole: MemoryPlace) -> None:
        self._bench, self._whole, self._settings = bench, whole, bench.experiment.pruning
        store = whole.store
        self._entries = store.entries
        margins = read_margins(store).values
        self._most = {
            margin: float(np.count_nonzero(store.known & (margins >= margin))) / store.entries
            for margin in {self._settings.min_margin, *self._settings.min_margins}
        }
        # All methods drop the same share, so that only the choice of entries differs.
        self._ratio = min(self._settings.ratio, self._most[self._settings.min_margin])
        self._first = bench.experiment.seeds[0]

    def run(self) -> Results:
        """Run everything."""
        pruned = self._pruned("plac", self._ratio, self._first)
        repeats = self._bench.experiment.limits.repeats
        return Results(
            ratio=self._ratio,
            asked=self._settings.ratio,
            main=self._main(),
            seeds=self._compare(self._by_seed(), "test", repeats)[1:],
            at_least=self._sure(repeats),
            variants=self._variants(pruned),
            by_k=self._by_k(pruned),
            curve=self._curve(),
            memories={WHOLE: self._whole, "plac": pruned},
        )

    def _adaptive(self, k: int | None = None) -> Fitter:
        adaptive = self._bench.experiment.adaptive
        return FitAdaptive(k=k or adaptive.k, temperature=adaptive.temperature)

    def _pruner(self, name: str, min_margin: int | None = None) -> Pruner:
        margin = min_margin or self._settings.min_margin
        if name == "plac":
            return Plac(margin)
        return make_pruner(name, min_margin=margin) if name == REVERSE else make_pruner(name)

    def _pruned(self, name: str, ratio: float | None, seed: int, min_margin: int | None = None) -> MemoryPlace:
        return self._bench.prune(self._whole, self._pruner(name, min_margin), ratio, seed)

    def _system(self, memory: MemoryPlace, fitter: Fitter | None = None, seed: int | None = None) -> System:
        return System(memory, fitter or self._adaptive(), self._first if seed is None else seed)

    def _main(self) -> list[Line]:
        systems = {WHOLE: self._system(self._whole), BASE: System()}
        for method in self._bench.experiment.finetune.methods:
            systems[f"finetuned, {method}"] = System(model=self._bench.finetune(method).key)
        for name in COMPARED:
            systems[name] = self._system(self._pruned(name, self._ratio, self._first))
        systems["all_known"] = self._system(self._bench.prune(self._whole, AllKnown(), None, self._first))
        return self._compare({(name, ""): system for name, system in systems.items()}, "test")

    def _by_seed(self) -> dict[tuple[str, str], System]:
        systems = {(WHOLE, ""): self._system(self._whole)}
        for seed in self._bench.experiment.seeds:
            for name in COMPARED:
                systems[(name, str(seed))] = self._system(self._pruned(name, self._ratio, seed), seed=seed)
        return systems

    def _sure(self, repeats: int | None) -> Shares:
        sentences, systems = draw(self._bench.sentences["test"], repeats), self._by_seed()
        texts = {
            name: [self._bench.translate(" ".join(key), systems[key], sentences) for key in systems if key[0] == name]
            for name in COMPARED
        }
        return self._bench.compare_runs(texts, sentences)

    def _variants(self, pruned: MemoryPlace) -> list[Line]:
        fitters: dict[str, Fitter] = {"adaptive": self._adaptive(), "vanilla": FitVanilla(), "kster": FitKster()}
        systems = {
            (name, size): self._system(memory, fitter)
            for name, fitter in fitters.items()
            for size, memory in ((WHOLE, self._whole), ("plac", pruned))
        }
        return self._compare(systems, "test")

    def _by_k(self, pruned: MemoryPlace) -> list[Line]:
        systems = {
            (size, str(k)): self._system(memory, self._adaptive(k))
            for k in self._bench.experiment.adaptive.ks
            for size, memory in ((WHOLE, self._whole), ("plac", pruned))
        }
        return self._compare(systems, "test", self._bench.experiment.limits.repeats)

    def _curve(self) -> list[Line]:
        """Translate part of dev with memories pruned more and more."""
        systems = {(WHOLE, ""): self._system(self._whole)}
        ratios = sorted({*self._settings.ratios, self._ratio})
        for name in (each for each in COMPARED if each != "plac"):
            for ratio in ratios:
                systems[(name, f"{ratio:.4f}")] = self._system(self._pruned(name, ratio, self._first))
        for margin in self._settings.min_margins:
            most = self._most[margin]
            for ratio in sorted({*(each for each in ratios if each < most), most}):
                memory = self._pruned("plac", ratio, self._first, margin)
                systems[(f"plac {margin}", f"{ratio:.4f}")] = self._system(memory)
        return self._compare(systems, "dev", self._bench.experiment.limits.curve)

    def _compare(self, systems: dict[tuple[str, str], System], part: str, most: int | None = None) -> list[Line]:
        sentences = draw(self._bench.sentences[part], most)
        names = {key: " ".join(key) for key in systems}
        texts = {names[key]: self._bench.translate(names[key], systems[key], sentences) for key in systems}
        scores: Scores = self._bench.score(texts, sentences)
        return [self._line(key, systems[key], scores[names[key]]) for key in systems]

    def _line(self, key: tuple[str, str], system: System, score: dict[str, object]) -> Line:
        entries = system.memory.store.entries if system.memory else None
        dropped = None if entries is None else 1 - entries / self._entries
        return Line(key[0], dropped, entries, key[1], score)
