"""What an adaptation decides: which steps run, what is used of their results, and the notes that say why.

The steps themselves are in :mod:`lacuna.steps`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lacuna.combiners import load_gate
from lacuna.corpora import draw_pairs
from lacuna.domain.corpus_parts import MIN_PART, CorpusParts, hash_pairs
from lacuna.domain.step_progress import StepProgress
from lacuna.domain.work_plan import WorkPlan, make_plan
from lacuna.evaluation.scores import LEVEL
from lacuna.fitting import PruningLoss
from lacuna.fitting.pruning_choice import MAX_LOSS
from lacuna.glossaries import Glossary
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.steps import CachedCombiner, CachedMemory, SafeRatio, Sentences, StepCache, Steps, StepSettings
from lacuna.steps.cached_steps import Scores, model_inputs
from lacuna.steps.combiner_choice import ALONE, can_fit
from lacuna.translator import System
from lacuna.translator.calibration import read_calibration_manifest

# Larger margins count as this: pruning tries none above, and small bounds take less time.
MAX_MARGIN = 64
# A pruned memory is used from this ratio on; below, it would save next to nothing.
MIN_RATIO = 0.1


class Decisions:
    """Runs the steps of one adaptation that are worth it, and notes what is left out.

    :param folder: Folder of the step cache.
    :param name: Name of the domain.
    :param budget: Time limit in minutes.
    :param max_loss: Largest share of what the memory adds that pruning may lose.
    :param glossary: Terms that the domain's translations keep to; what is fitted does not depend on them.
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
        max_loss: float = MAX_LOSS,
        glossary: Glossary | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self._name, self._budget, self._seed, self._max_loss = name, budget, seed, max_loss
        self.glossary = glossary
        self._progress: StepProgress | None = None
        self._cache = StepCache(folder, self._announce)
        self._plan = self._make_plan(model, parts)
        self._progress = StepProgress(progress, "adapt", self._plan.seconds())
        self.sentences = {part: self._draw(parts, part) for part in ("train", "dev", "test")}
        settings = StepSettings(MAX_MARGIN, self._plan.approximate, name=name, seed=seed)
        self._steps = Steps(model, self.sentences, self._cache, settings, self._progress)
        self.notes = [*parts.notes, *self._plan.notes]
        if glossary is not None:
            self.notes.append(f"The glossary has {len(glossary):,} terms; edit them in glossary.tsv.")

    @property
    def seconds(self) -> dict[str, float]:
        """Time of each step so far, in whichever run it was done."""
        seconds: dict[str, float] = {}
        for step in self._cache.steps:
            seconds[step.name] = round(seconds.get(step.name, 0.0) + step.seconds, 1)
        return seconds

    def end(self) -> None:
        """End the display."""
        if self._progress is not None:
            self._progress.end()

    def build(self) -> CachedMemory:
        """Build the memory of all training pairs, with its index and its margins."""
        memory = self._steps.build()
        skipped = memory.store.manifest.skipped
        if skipped:
            pairs = f"{skipped:,} of {len(self.sentences['train']):,} pairs"
            self.notes.append(f"{pairs} are too long for the model and were left out.")
        return memory

    def prune(self, memory: CachedMemory) -> CachedMemory:
        """Drop what PLAC can drop within the promise on dev, if that is worth it."""
        if not (self._plan.fits and self._plan.prune and self._has_time("safe", "pruning")):
            return memory
        choice = self._steps.choose_ratio(memory, self._steps.dev_parts.fitted, self._max_loss)
        safe = choice.safe
        if safe is None or safe.ratio < MIN_RATIO:
            why = choice.why if safe is None else f"PLAC could drop no more than {safe.ratio:.0%} within the promise"
            self.notes.append(f"The memory is not pruned: {why}.")
            return memory
        pruned = self._steps.prune_safely(memory, safe)
        self.notes.append(promise_note(safe, dropped_share(memory, pruned)))
        if self.sentences["test"].pairs:
            found = self._steps.measure_loss(memory, pruned, safe.combiner, "test")
            self.notes.append(kept_note(safe, found))
        return pruned

    def fit(self, memory: CachedMemory) -> CachedCombiner:
        """Choose a combiner, and add a gate if that is worth it."""
        fits = self._plan.fits and can_fit(memory.store.entries)
        combiner = self._steps.choose_combiner(memory, fits=fits)
        if not fits:
            self._explain_safe(combiner)
            return combiner
        if not (self._plan.gate and self._has_time("gate", "the gate")):
            return combiner
        gated = self._steps.add_gate(memory, combiner)
        if gated.searched is None:
            self.notes.append("There is no gate: none saves enough searches without a loss on dev.")
        return gated

    def calibrate(self, memory: CachedMemory) -> Path | None:
        """Fit a calibration; ``None`` if the probability of the model is as good on held-out dev sentences."""
        if not self._plan.fits:
            return None
        folder = self._steps.calibrate(memory)
        brier = {each.name: each.brier for each in read_calibration_manifest(folder).measured}
        if brier["both"] < brier["max probability"]:
            return folder
        self.notes.append("There is no calibration: the probability of the model is as good an estimate on dev.")
        return None

    def translate(self, memory: CachedMemory, combiner: CachedCombiner) -> dict[str, list[str]]:
        """Translate the test set with the model alone and with the domain; nothing without a test set."""
        test = self.sentences["test"]
        if not test.pairs:
            return {}
        inputs = {"test": test.key}
        adapted = inputs | {"memory": memory.key, "combiner": combiner.key}
        if self.glossary is not None:
            adapted |= {"glossary": self.glossary.fingerprint}
        return {
            ALONE: self._steps.translate(inputs, self._system, test.sources),
            self._name: self._steps.translate(adapted, lambda: self._system(memory, combiner), test.sources),
        }

    def score(self, texts: dict[str, list[str]]) -> Scores:
        """Score the translations of the test set."""
        if not texts:
            return {}
        scores = self._steps.score(texts, self.sentences["test"])
        p_decline = scores[self._name]["p_decline"]
        if p_decline is not None and p_decline < LEVEL:
            self.notes.append(
                "On test, the domain is significantly worse than the model alone: do not use it as it is."
            )
        return scores

    def _system(self, memory: CachedMemory | None = None, combiner: CachedCombiner | None = None) -> System:
        """Return the model alone, or with a memory and a combiner."""
        if memory is None or combiner is None:
            return System(self._steps.model)
        gate = None if combiner.searched is None else load_gate(combiner.path)[0]
        return System(self._steps.model, [memory.open()], combiner.load(), gate=gate, glossary=self.glossary)

    def _announce(self, step: str) -> None:
        if self._progress is not None:
            self._progress.begin(step)

    def _make_plan(self, model: Model, parts: CorpusParts) -> WorkPlan:
        inputs = {**model_inputs(model, self._seed), **parts.hashes(), "budget": self._budget}

        def compute() -> dict[str, Any]:
            return make_plan(model, parts, self._budget, self._seed).as_json()

        return WorkPlan.from_json(self._cache.make_json("plan", inputs, compute))

    def _draw(self, parts: CorpusParts, part: str) -> Sentences:
        pairs = draw_pairs(getattr(parts, part), getattr(self._plan, part), self._seed)
        return Sentences(pairs, hash_pairs(pairs))

    def _has_time(self, step: str, what: str) -> bool:
        """Return whether an optional step and all later steps that are not optional fit into the time limit."""
        if self._budget is None or sum(self.seconds.values()) + self._plan.seconds_from(step) <= 60 * self._budget:
            return True
        self.notes.append(f"The time limit leaves out {what}: the steps before took longer than estimated.")
        return False

    def _explain_safe(self, combiner: CachedCombiner) -> None:
        dev = len(self.sentences["dev"])
        settings = ", ".join(f"{name} {value}" for name, value in combiner.load().manifest.settings.items())
        if 0 < dev < MIN_PART:
            self.notes.append(f"Nothing is fitted: {dev:,} dev pairs are too few (from {MIN_PART:,} on).")
        self.notes.append(f"The combiner is proximity, with settings that are safe for a small memory: {settings}.")


def promise_note(safe: SafeRatio, dropped: float) -> str:
    """Say what pruning has promised, and what dev shows."""
    drops = " and ".join(f"{each.metric} {each.score:.2f} instead of {each.baseline:.2f}" for each in safe.drops)
    return (
        f"PLAC dropped {dropped:.1%} of the entries, with a margin of {safe.min_margin} or more. It promises to lose "
        f"no more than {safe.max_loss:.1%} of what the memory adds to the log-probability: it loses "
        f"{safe.loss.share:.1%} on dev, and with 95 % confidence no more than {safe.loss.bound:.1%}. "
        f"Dev translations have {drops}; with 95 % confidence, neither drops by {safe.max_drop:g} or more."
    )


def kept_note(safe: SafeRatio, loss: PruningLoss) -> str:
    """Say what test shows of the promise."""
    if loss.share is None or loss.low is None:
        return "On test, the whole memory adds nothing for certain, so the promise of pruning cannot be tested."
    interval = f"95 % interval {loss.low:.1%} to " + ("unknown" if loss.high is None else f"{loss.high:.1%}")
    verdict = "is kept"
    if loss.share > safe.max_loss:
        verdict = "is not kept" if loss.low > safe.max_loss else "may not be kept: the test set is too small to tell"
    return f"On test, pruning loses {loss.share:.1%} ({interval}): the promise {verdict}."


def dropped_share(whole: CachedMemory, pruned: CachedMemory) -> float:
    """Return the share of the entries that pruning dropped."""
    return round(1 - pruned.store.entries / whole.store.entries, 4)
