"""The systems that an experiment compares, and their scores: main comparison, seeds, variants, the ratio curve, sizes.

:class:`~lacuna.reproduction.systems.ExperimentSystems` translates and scores; :mod:`lacuna.reproduction.paper_tables`
formats the results. An experiment has parts, which may be computed on different machines. A result that no part has
computed yet is missing, and so is the table that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from lacuna.evaluation import RunScore, RunsDifference, TermAccuracy, compare_scored
from lacuna.fitting import FitAdaptive, FitKster, Fitter, FitVanilla, PruningLoss
from lacuna.margin import read_margins
from lacuna.pruning import AllKnown, Plac, Pruner, make_pruner
from lacuna.pruning.plac import MIN_MARGINS
from lacuna.reproduction.experiment import ReadSentences, draw
from lacuna.reproduction.systems import ExperimentSystems, PlannedSystem
from lacuna.steps import CachedMemory, MissingResultError, PrunedMemory, SafeRatio

Part = Literal["main", "safe", "analysis", "seeds", "sizes"]
# The first three parts have all results of the first seed.
PARTS: tuple[Part, ...] = ("main", "safe", "analysis", "seeds", "sizes")
BASE, WHOLE, REVERSE = "base", "whole", "reverse"
# The pruning methods of the main comparison.
COMPARED = ("random", "cluster", "merge", "known", "plac", REVERSE)
Differences = dict[str, dict[str, RunsDifference]]
Found = TypeVar("Found")


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

    :param loss: What is lost on test, as a share of what the memory adds to the log-probability.
    :param difference: Difference of the pruned from the whole memory on test, over all seeds whose results are there.
    """

    choice: SafeRatio
    loss: PruningLoss
    difference: RunsDifference | None


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """What a memory offers to PLAC.

    :param unknown_below_four: Share of the unknown entries with a margin of 0 to 3.
    :param unknown_up_to_four: Share of the unknown entries with a margin of 0 to 4.
    :param candidates: By ``min_margin``, the share of the entries that are known with such a margin or a larger one.
    """

    entries: int
    known: int
    unknown_below_four: float
    unknown_up_to_four: float
    candidates: dict[int, float]

    @property
    def known_ratio(self) -> float:
        """Share of the known entries."""
        return self.known / max(1, self.entries)


@dataclass(frozen=True, slots=True)
class SizeResult:
    """A method on a sample of the memory.

    :param counts: What the sample offers to PLAC.
    :param dropped: Share of the entries that are dropped.
    :param whole: BLEU with the whole sample.
    :param difference: Difference from the whole sample.
    """

    counts: MemoryCounts
    method: str
    dropped: float
    bleu: float
    whole: float
    difference: RunsDifference


@dataclass(frozen=True, slots=True)
class ComparisonResults:
    """The results of all systems; ``None`` or nothing for those that are missing.

    :param ratio: Share of the entries dropped in the main comparison.
    :param asked: The ratio in the experiment file.
    :param main: Base, fine-tuned models, the whole memory, and every pruning method with the first seed.
    :param terms: Accuracy of the systems of ``main`` on the words that the memory changes.
    :param seeds: The whole memory and the pruning methods with every seed that is complete.
    :param differences: ``[one][other]``: the difference between two systems of ``seeds``, each over all seeds.
    :param safe: The largest safe ratio; ``None`` if no ratio keeps the promise on dev.
    :param variants: Combiners with the whole and with the pruned memory.
    :param by_k: Adaptive kNN-MT by k, with the whole and with the pruned memory.
    :param curve: On dev: pruning methods by ratio; the first is the whole memory.
    :param sizes: PLAC and other methods on samples of the memory.
    :param missing: What is missing, and the part of the experiment that computes it.
    """

    ratio: float
    asked: float
    main: list[SystemResult]
    terms: TermAccuracy | None
    seeds: list[SystemResult]
    differences: Differences
    safe: SafeResult | None
    variants: list[SystemResult]
    by_k: list[SystemResult]
    curve: list[SystemResult]
    sizes: list[SizeResult]
    missing: dict[str, Part]


Planned = Mapping[tuple[str, str], PlannedSystem]


class Comparison:
    """Runs the systems of some parts of an experiment, and collects the results of all parts.

    :param parts: The parts that are computed. Of the others, the results that are there are used.
    """

    def __init__(self, systems: ExperimentSystems, whole: CachedMemory, parts: Collection[Part] = PARTS) -> None:
        self._systems, self._steps, self._whole, self._parts = systems, systems.steps, whole, parts
        self._experiment, self._settings = systems.experiment, systems.experiment.pruning
        self.missing: dict[str, Part] = {}
        self._first_seed = self._experiment.seeds[0]

    def find(self, what: str, part: Part, compute: Callable[[], Found]) -> Found | None:
        """Return a result; ``None`` if something is missing for it and the part is not computed."""
        with self._steps.cache.computing(part in self._parts):
            try:
                return compute()
            except MissingResultError:
                self.missing[what] = part
                return None

    def run(self) -> ComparisonResults | None:
        """Translate and score every system; ``None`` if nothing is known of the memory."""
        # Every part needs the memory, and can count its entries.
        first: Part = next((part for part in PARTS if part in self._parts), "main")
        counts = self.find("everything", first, lambda: self.count(self._whole))
        if counts is None:
            return None
        self._counts = counts
        # All methods drop the same share, so that only the choice of entries differs.
        self._ratio = min(self._settings.ratio, counts.candidates[self._settings.min_margin])
        # First, because other results are about parts of these translations.
        main = self._compare("main", "main", self._main(), self._test)
        terms = self.find("terms", "main", self._terms)
        seeds = self._runs_by_seed()
        return ComparisonResults(
            ratio=self._ratio,
            asked=self._settings.ratio,
            main=main,
            terms=terms,
            seeds=self._list_seeds(seeds),
            differences=compare_scored({name: list(runs.values()) for name, runs in seeds.items() if runs}),
            safe=self.find("safe", "safe", self._safe),
            variants=self._variants(),
            by_k=self._by_k(),
            curve=self._curve(),
            sizes=list(self._sizes()),
            missing=self.missing,
        )

    @property
    def _test(self) -> ReadSentences:
        return self._systems.sentences["test"]

    @property
    def _repeated(self) -> ReadSentences:
        return draw(self._test, self._experiment.limits.repeats)

    def count(self, memory: CachedMemory) -> MemoryCounts:
        """Count the entries of a memory that PLAC may drop."""
        bounds = sorted({*MIN_MARGINS, self._settings.min_margin, *self._settings.min_margins})

        def compute() -> dict[str, Any]:
            store = memory.store
            known, margins = store.known, read_margins(store).values
            unknown = margins[~known]
            return {
                "entries": store.entries,
                "known": int(np.count_nonzero(known)),
                "unknown_below_four": float(np.count_nonzero(unknown < 4)) / max(1, len(unknown)),
                "unknown_up_to_four": float(np.count_nonzero(unknown <= 4)) / max(1, len(unknown)),
                "candidates": {
                    str(bound): float(np.count_nonzero(known & (margins >= bound))) / max(1, store.entries)
                    for bound in bounds
                },
            }

        inputs = {"memory": memory.key, **memory.margins, "max_margin": self._steps.settings.max_margin}
        content = self._steps.cache.make_portable("counts", {**inputs, "bounds": bounds}, compute)
        candidates = {bound: content["candidates"][str(bound)] for bound in bounds}
        return MemoryCounts(**content | {"candidates": candidates})

    def _adaptive(self, k: int | None = None) -> Fitter:
        adaptive = self._experiment.adaptive
        return FitAdaptive(k=k or adaptive.k, temperature=adaptive.temperature)

    def _pruner(self, name: str, min_margin: int | None = None) -> Pruner:
        margin = min_margin or self._settings.min_margin
        if name == "plac":
            return Plac(margin)
        return make_pruner(name, min_margin=margin) if name == REVERSE else make_pruner(name)

    def _pruned(self, name: str, ratio: float | None, seed: int, min_margin: int | None = None) -> PrunedMemory:
        return self._steps.prune(self._whole, self._pruner(name, min_margin), ratio, seed)

    @property
    def plac(self) -> PrunedMemory:
        """The memory that PLAC pruned for the main comparison."""
        return self._pruned("plac", self._ratio, self._first_seed)

    def indexed(self, safe: SafeResult | None) -> dict[str, PrunedMemory]:
        """Return the memories whose indexes are compared, by the name of their row."""
        memories: dict[str, PrunedMemory] = {"whole memory": self._whole, "PLAC": self.plac}
        if safe is not None:
            choice = safe.choice
            memories["PLAC, safe ratio"] = self._pruned("plac", choice.ratio, self._first_seed, choice.min_margin)
        return memories

    def _system(self, memory: PrunedMemory, fitter: Fitter | None = None, seed: int | None = None) -> PlannedSystem:
        return PlannedSystem(memory, fitter or self._adaptive(), self._first_seed if seed is None else seed)

    def _main(self) -> Planned:
        systems = {(WHOLE, ""): self._system(self._whole), (BASE, ""): PlannedSystem()}
        for method in self._experiment.finetune.methods:
            systems[f"finetuned, {method}", ""] = PlannedSystem(model=self._systems.finetune(method))
        for name in (*COMPARED, *self._settings.more_methods):
            systems[name, ""] = self._system(self._pruned(name, self._ratio, self._first_seed))
        for margin in self._settings.more_min_margins:
            ratio = min(self._ratio, self._counts.candidates[margin])
            systems["plac", str(margin)] = self._system(self._pruned("plac", ratio, self._first_seed, margin))
        systems["all_known", ""] = self._system(self._steps.prune(self._whole, AllKnown(), None, self._first_seed))
        return systems

    def _terms(self) -> TermAccuracy:
        return self._systems.term_accuracy(
            BASE, WHOLE, {" ".join(key).strip(): each for key, each in self._main().items()}
        )

    def _runs_by_seed(self) -> dict[str, dict[int, RunScore]]:
        """Return the runs of the whole memory and of the methods by seed, for all seeds that are complete."""
        found: dict[str, dict[int, RunScore]] = {name: {} for name in (WHOLE, *COMPARED)}
        for seed in self._experiment.seeds:
            part: Part = "main" if seed == self._first_seed else "seeds"
            runs = self.find(f"seed {seed}", part, lambda seed=seed: self._runs_of_seed(seed))  # type: ignore[misc]
            for name, run in (runs or {}).items():
                found[name][seed] = run
        return found

    def _runs_of_seed(self, seed: int) -> dict[str, RunScore]:
        memories = {name: self._pruned(name, self._ratio, seed) for name in COMPARED}
        return {
            name: self._systems.run(self._system(memory, seed=seed), self._repeated).score
            for name, memory in {WHOLE: self._whole, **memories}.items()
        }

    def _list_seeds(self, runs: Mapping[str, Mapping[int, RunScore]]) -> list[SystemResult]:
        return [
            SystemResult(name, None, None, str(seed), run.against(runs[WHOLE][seed], name).as_json())
            for name, of_seed in runs.items()
            for seed, run in of_seed.items()
        ]

    def _safe(self) -> SafeResult | None:
        """Choose the safe ratio on dev, and confirm it on test with every seed whose results are there."""
        choice = self._steps.choose_ratio(self._whole, self._steps.dev).safe
        if choice is None:
            return None
        whole, pruned = list[RunScore](), list[RunScore]()
        for seed in self._experiment.seeds:
            part: Part = "safe" if seed == self._first_seed else "seeds"
            memories = (self._whole, self._pruned("plac", choice.ratio, seed, choice.min_margin))

            def run(seed: int = seed, memories: tuple[PrunedMemory, ...] = memories) -> list[RunScore]:
                systems = (self._system(memory, seed=seed) for memory in memories)
                return [self._systems.run(system, self._repeated).score for system in systems]

            if (runs := self.find(f"safe ratio, seed {seed}", part, run)) is not None:
                whole.append(runs[0])
                pruned.append(runs[1])
        memory = self._pruned("plac", choice.ratio, self._first_seed, choice.min_margin)
        loss = self._steps.measure_loss(self._whole, memory, choice.combiner, "test")
        return SafeResult(choice, loss, RunsDifference.between(pruned, whole) if pruned else None)

    def _variants(self) -> list[SystemResult]:
        others: dict[str, Fitter] = {"vanilla": FitVanilla(), "kster": FitKster()}
        fitters = {"adaptive": self._adaptive()} | {name: others[name] for name in self._experiment.variants}
        systems = {
            (name, size): self._system(memory, fitter)
            for name, fitter in fitters.items()
            for size, memory in ((WHOLE, self._whole), ("plac", self.plac))
        }
        return self._compare("variants", "analysis", systems, self._test)

    def _by_k(self) -> list[SystemResult]:
        systems = {
            (size, str(k)): self._system(memory, self._adaptive(k))
            for k in self._experiment.adaptive.ks
            for size, memory in ((WHOLE, self._whole), ("plac", self.plac))
        }
        return self._compare("k", "analysis", systems, self._repeated)

    def _curve(self) -> list[SystemResult]:
        """Translate part of dev with memories of increasing pruning ratio."""
        systems = {(WHOLE, ""): self._system(self._whole)}
        ratios = sorted({*self._settings.ratios, self._ratio})
        for name in self._settings.curve_methods:
            for ratio in ratios:
                systems[name, f"{ratio:.4f}"] = self._system(self._pruned(name, ratio, self._first_seed))
        for margin in self._settings.min_margins:
            largest = self._counts.candidates[margin]
            for ratio in sorted({*(each for each in ratios if each < largest), largest}):
                memory = self._pruned("plac", ratio, self._first_seed, margin)
                systems[f"plac {margin}", f"{ratio:.4f}"] = self._system(memory)
        return self._compare(
            "curve", "analysis", systems, draw(self._systems.sentences["dev"], self._experiment.limits.curve)
        )

    def _sizes(self) -> Iterator[SizeResult]:
        """Prune samples of the memory, the smallest first, and the memory itself."""
        sizes = self._experiment.sizes
        for entries in (*sorted(sizes.entries), None) if sizes.entries else ():
            memory = self._whole if entries is None else self._steps.sample(self._whole, entries)
            name = "the whole memory" if entries is None else f"{entries:,} entries"
            yield from self.find(f"sizes, {name}", "sizes", lambda memory=memory: self._size(memory)) or ()  # type: ignore[misc]

    def _size(self, memory: CachedMemory) -> list[SizeResult]:
        """Prune a memory with several methods; all drop as much as PLAC can."""
        sizes, counts, seed = self._experiment.sizes, self.count(memory), self._first_seed
        whole, results = self._systems.run(self._system(memory), self._repeated).score, list[SizeResult]()
        most = counts.candidates[self._settings.min_margin]
        for ratio in dict.fromkeys(min(ratio, most) for ratio in sizes.ratios):
            for method in sizes.methods:
                pruned = self._steps.prune(memory, self._pruner(method), ratio, seed)
                run = self._systems.run(self._system(pruned), self._repeated).score
                difference = RunsDifference.between([run], [whole])
                results.append(SizeResult(counts, method, ratio, run.bleu, whole.bleu, difference))
        return results

    def _compare(self, what: str, part: Part, systems: Planned, sentences: ReadSentences) -> list[SystemResult]:
        """Run systems and compare each with the first; systems that are missing are left out."""
        results, first = list[SystemResult](), None
        for (name, setting), system in systems.items():
            title = " ".join((name, setting)).strip()
            run = self.find(f"{what}, {title}", part, lambda system=system: self._systems.run(system, sentences))  # type: ignore[misc]
            if run is None and first is None:
                return []  # the others have nothing to be compared with
            if run is not None:
                score = run.score.against(first, title)
                first = first or run.score
                dropped = None if run.entries is None else 1 - run.entries / self._counts.entries
                results.append(SystemResult(name, dropped, run.entries, setting, score.as_json()))
        return results
