"""The steps of an adaptation: memory, pruning, combiner, gate, calibration and scores. Each runs once.

A step whose inputs change runs again, and so do the steps that depend on it. Does not know the folder of a finished
domain.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lacuna.artifacts.files import write_json
from lacuna.artifacts.step_cache import StepCache
from lacuna.combiners import load_combiner, load_gate
from lacuna.corpora import draw_pairs
from lacuna.datastore import build_store, open_store
from lacuna.domain.combiner_choice import (
    ALONE,
    Candidate,
    DevParts,
    can_fit,
    choose_combiner,
    choose_gate,
    save_safe_combiner,
)
from lacuna.domain.corpus_parts import LEAST, CorpusParts, hash_pairs
from lacuna.domain.step_progress import StepProgress
from lacuna.domain.work_plan import MOST_TRANSLATED, WorkPlan, make_plan
from lacuna.evaluation import evaluate_systems
from lacuna.evaluation.scores import LEVEL
from lacuna.explanation.calibration import read_calibration_manifest
from lacuna.fitting import calibrate, choose_pruning
from lacuna.index import build_index
from lacuna.margin import Approximate, measure_margin
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.pruning import Plac, prune_store
from lacuna.records import SentencePair
from lacuna.translator import System

STORE, COMBINER, CALIBRATION = "store", "combiner", "calibration"
# Larger margins count as this: pruning tries none above, and small bounds take less time.
MAX_MARGIN = 64
# A pruned memory is used from this ratio on; below, it would save next to nothing.
MIN_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class AdaptedMemory:
    """A memory made by a step.

    :param key: Key of the step that made it.
    :param known: Share of the entries that the model knows, before pruning.
    :param pruned: Share of the entries that were dropped.
    """

    path: Path
    key: str
    known: float
    pruned: float = 0.0


@dataclass(frozen=True, slots=True)
class AdaptedCombiner:
    """A combiner made by a step.

    :param key: Key of the step that made it.
    :param candidates: See :func:`~lacuna.domain.combiner_choice.choose_combiner`; empty for safe settings.
    :param searched: See :func:`~lacuna.domain.combiner_choice.choose_gate`.
    """

    path: Path
    key: str
    candidates: tuple[Candidate, ...]
    searched: float | None = None


class AdaptationSteps:
    """Runs the steps of one adaptation through a cache.

    :param folder: Folder of the cache.
    :param name: Name of the domain.
    :param budget: Time limit in minutes.
    """

    def __init__(
        self,
        model: Model,
        parts: CorpusParts,
        folder: Path,
        *,
        name: str,
        budget: float | None,
        seed: int,
        progress: Progress = SILENT,
    ) -> None:
        self._model, self._parts, self._name, self._budget, self._seed = model, parts, name, budget, seed
        self._progress: StepProgress | None = None
        self._cache = StepCache(folder, self._announce)
        # One model may translate in several directions.
        self._base = {"model": model.fingerprint, "languages": str(model.languages), "seed": seed}
        self._plan = self._make_plan()
        self._progress = StepProgress(progress, "adapt", self._plan.seconds())
        self.pairs = {part: self._draw(part) for part in ("train", "dev", "test")}
        self._hashes = {part: hash_pairs(some) for part, some in self.pairs.items()}
        self._dev = DevParts.of(self.pairs["dev"], seed) if self._plan.fits else None
        self.notes = [*parts.notes, *self._plan.notes]

    @property
    def seconds(self) -> dict[str, float]:
        """Time of each step so far, in whichever run it was done."""
        found: dict[str, float] = {}
        for step in self._cache.steps:
            found[step.name] = round(found.get(step.name, 0.0) + step.seconds, 1)
        return found

    @property
    def work(self) -> Progress:
        """Receives the progress of the work inside of steps."""
        return self._progress or SILENT

    def end(self) -> None:
        """End the display."""
        if self._progress is not None:
            self._progress.end()

    def build(self) -> AdaptedMemory:
        """Build the memory of all training pairs, with its index and its margins."""
        pairs, plan = self.pairs["train"], self._plan

        def work(folder: Path) -> None:
            # The pairs are clean already.
            build_store(self._model, pairs, folder / STORE, cleaning=None, total=len(pairs), progress=self.work)

        built = self._cache.make("store", {**self._base, "train": self._hashes["train"]}, work, resumes=True)
        path = built.folder / STORE
        self._cache.make("index", {"store": built.key}, lambda _: self._index(path))
        settings = {"store": built.key, "max_margin": MAX_MARGIN, "approximate": plan.approximate}
        self._cache.make("margin", settings, lambda _: self._measure(path), resumes=True)
        store = open_store(path)
        if store.manifest.skipped:
            skipped = f"{store.manifest.skipped:,} of {len(pairs):,} pairs"
            self.notes.append(f"{skipped} are too long for the model and were left out.")
        return AdaptedMemory(path, built.key, round(float(store.known.mean()), 4))

    def prune(self, memory: AdaptedMemory) -> AdaptedMemory:
        """Drop what PLAC can drop without a loss on dev, if that is worth it."""
        dev = self._dev
        if dev is None or not self._plan.prune or not self._has_time("safe", "pruning"):
            return memory
        inputs = {**self._base, "memory": memory.key, "approximate": self._plan.approximate}
        inputs["dev"] = self._hashes["dev"]

        def choose() -> dict[str, Any]:
            some = dev.fitted.draw(MOST_TRANSLATED, self._seed)
            choice = choose_pruning(self._model, self._open(memory), some, seed=self._seed, progress=self.work)
            trial = next((asdict(one) for one in choice.trials if one.ratio == choice.ratio), None)
            return {"ratio": choice.ratio, "bleu": choice.bleu, "trial": trial}

        choice = self._cache.make_json("safe", inputs, choose)
        ratio, trial = choice["ratio"], choice["trial"]
        if ratio < MIN_RATIO or trial is None:
            most = f"no more than {ratio:.0%} of the entries" if ratio else "none of the entries"
            self.notes.append(f"The memory is not pruned: PLAC could drop {most} without a significant loss on dev.")
            return memory

        def work(folder: Path) -> None:
            store, into = open_store(memory.path), folder / STORE
            if not into.exists():  # otherwise the run was killed while margins were measured
                plac = Plac(trial["min_margin"])
                prune_store(store, plac, into, ratio=ratio, clamp=True, seed=self._seed, progress=self.work)
            self._measure(into)

        step = self._cache.make("prune", {"choice": inputs, "ratio": ratio}, work, resumes=True)
        before, after = open_store(memory.path), open_store(step.folder / STORE)
        dropped = round(1 - after.entries / before.entries, 4)
        self.notes.append(
            f"PLAC dropped {dropped:.1%} of the entries, with a margin of {trial['min_margin']} or more: BLEU on dev "
            f"{trial['bleu']:.2f} instead of {choice['bleu']:.2f} (p of a decline {trial['p_bleu']:.3f})."
        )
        return AdaptedMemory(step.folder / STORE, step.key, memory.known, dropped)

    def fit(self, memory: AdaptedMemory) -> AdaptedCombiner:
        """Fit adaptive and vanilla and take the better one; or take safe settings if there is too little to fit to."""
        opened = self._open(memory)
        dev = self._dev if can_fit(opened.entries) else None
        inputs = {**self._base, "memory": memory.key, "dev": None if dev is None else self._hashes["dev"]}

        def work(folder: Path) -> None:
            found: list[Candidate] = []
            if dev is None:
                save_safe_combiner(self._model, opened, folder / COMBINER, seed=self._seed)
            else:
                found = choose_combiner(
                    self._model, opened, dev, folder / COMBINER, seed=self._seed, progress=self.work
                )
            write_json(folder / "candidates.json", [asdict(one) for one in found])

        step = self._cache.make("fit", inputs, work)
        if dev is None:
            self._explain_safe(len(self.pairs["dev"]), step.folder / COMBINER)
        found = json.loads((step.folder / "candidates.json").read_text(encoding="utf-8"))
        return AdaptedCombiner(step.folder / COMBINER, step.key, tuple(Candidate(**one) for one in found))

    def add_gate(self, memory: AdaptedMemory, combiner: AdaptedCombiner) -> AdaptedCombiner:
        """Add a gate if it saves enough searches without a loss on dev."""
        dev = self._dev
        if dev is None or not combiner.candidates or not self._plan.gate or not self._has_time("gate", "the gate"):
            return combiner

        def work(folder: Path) -> None:
            shutil.copytree(combiner.path, folder / COMBINER)
            searched = choose_gate(
                self._model,
                self._open(memory),
                folder / COMBINER,
                dev.fitted,
                translated=MOST_TRANSLATED,
                seed=self._seed,
                progress=self.work,
            )
            write_json(folder / "gate.json", {"searched": searched})

        inputs = {"memory": memory.key, "combiner": combiner.key, "approximate": self._plan.approximate}
        step = self._cache.make("gate", inputs, work)
        searched = json.loads((step.folder / "gate.json").read_text(encoding="utf-8"))["searched"]
        if searched is None:
            self.notes.append("There is no gate: none saves enough searches without a loss on dev.")
        return AdaptedCombiner(step.folder / COMBINER, step.key, combiner.candidates, searched)

    def calibrate(self, memory: AdaptedMemory) -> Path | None:
        """Fit a calibration; ``None`` if the probability of the model is as good on held-out dev sentences."""
        dev = self._dev
        if dev is None:
            return None

        def work(folder: Path) -> None:
            calibrate(
                self._model,
                [self._open(memory)],
                dev.fitted,
                folder / CALIBRATION,
                seed=self._seed,
                progress=self.work,
            )

        step = self._cache.make("calibrate", {**self._base, "memory": memory.key, "dev": self._hashes["dev"]}, work)
        measured = {one.name: one.brier for one in read_calibration_manifest(step.folder / CALIBRATION).measured}
        if measured["both"] < measured["max probability"]:
            return step.folder / CALIBRATION
        self.notes.append("There is no calibration: the probability of the model is as good an estimate on dev.")
        return None

    def translate(self, memory: AdaptedMemory, combiner: AdaptedCombiner) -> dict[str, list[str]]:
        """Translate the test set with the model alone and with the domain; nothing without a test set."""
        sources = [pair.source for pair in self.pairs["test"]]
        if not sources:
            return {}

        def alone(folder: Path) -> None:
            self._write_texts(folder, System(self._model), sources)

        def adapted(folder: Path) -> None:
            gate = None if combiner.searched is None else load_gate(combiner.path)[0]
            system = System(self._model, [self._open(memory)], load_combiner(combiner.path), gate=gate)
            self._write_texts(folder, system, sources)

        inputs = {**self._base, "test": self._hashes["test"]}
        steps = {ALONE: self._cache.make("translate", inputs, alone)}
        inputs |= {"memory": memory.key, "combiner": combiner.key}
        steps[self._name] = self._cache.make("translate", inputs, adapted)
        return {
            name: json.loads((step.folder / "texts.json").read_text(encoding="utf-8")) for name, step in steps.items()
        }

    def score(self, texts: dict[str, list[str]]) -> list[dict[str, Any]]:
        """Score the translations of the test set.

        :return: For each system, the JSON object of ``lacuna evaluate --json``.
        """
        if not texts:
            return []
        references, target = [pair.target for pair in self.pairs["test"]], self._model.target_language

        def compute() -> list[dict[str, Any]]:
            return [one.as_json() for one in evaluate_systems(references, texts, target_language=target)]

        found: list[dict[str, Any]] = self._cache.make_json(
            "score", {"texts": texts, "references": references}, compute
        )
        if found[-1]["p_decline"] is not None and found[-1]["p_decline"] < LEVEL:
            self.notes.append(
                "On test, the domain is significantly worse than the model alone: do not use it as it is."
            )
        return found

    def _announce(self, step: str) -> None:
        if self._progress is not None:
            self._progress.begin(step)

    def _make_plan(self) -> WorkPlan:
        inputs = {**self._base, **self._parts.hashes(), "budget": self._budget}

        def compute() -> dict[str, Any]:
            return make_plan(self._model, self._parts, self._budget, self._seed).as_json()

        return WorkPlan.from_json(self._cache.make_json("plan", inputs, compute))

    def _draw(self, part: str) -> list[SentencePair]:
        return draw_pairs(getattr(self._parts, part), getattr(self._plan, part), self._seed)

    def _open(self, memory: AdaptedMemory) -> Memory:
        return open_memory(memory.path, self._name)

    def _index(self, path: Path) -> None:
        build_index(open_store(path), seed=self._seed, progress=self.work)

    def _measure(self, path: Path) -> None:
        approximate = Approximate() if self._plan.approximate else None
        measure_margin(open_store(path), MAX_MARGIN, approximate=approximate, progress=self.work)

    def _write_texts(self, folder: Path, system: System, sources: Sequence[str]) -> None:
        results = system.open().translate(sources, progress=self.work)
        write_json(folder / "texts.json", [result.text for result in results])

    def _has_time(self, step: str, what: str) -> bool:
        """Return whether an optional step and all later steps that are not optional fit into the time limit."""
        if self._budget is None or sum(self.seconds.values()) + self._plan.seconds_from(step) <= 60 * self._budget:
            return True
        self.notes.append(f"The time limit leaves out {what}: the steps before took longer than estimated.")
        return False

    def _explain_safe(self, dev: int, combiner: Path) -> None:
        settings = ", ".join(f"{name} {value}" for name, value in load_combiner(combiner).manifest.settings.items())
        if 0 < dev < LEAST:
            self.notes.append(f"Nothing is fitted: {dev:,} dev pairs are too few (from {LEAST:,} on).")
        self.notes.append(f"The combiner is proximity, with settings that are safe for a small memory: {settings}.")
