"""The plan of an adaptation: how many pairs each part has, which optional steps run, and how long each step may take.

Two speeds are measured on a few pairs: reading with teacher forcing, and translating. Everything else follows from
sizes by rough factors; they are good enough for the time left and for a time limit. Does not run any step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lacuna.corpora import draw_pairs
from lacuna.corpora.placeholders import find_placeholders
from lacuna.domain.corpus_parts import MIN_PART, CorpusParts
from lacuna.fitting import DevSet
from lacuna.fitting.pruning_choice import TRANSLATED
from lacuna.models import Model
from lacuna.records import SentencePair
from lacuna.steps.combiner_choice import COMPARED, MAX_TRANSLATED
from lacuna.translator import System

# Speeds are measured on more and more pairs until that takes this long. The first pairs do not count: weights are
# prepared, and kernels compiled.
_FIRST, _SAMPLES, _ENOUGH_SECONDS = 4, (16, 64, 256), 2.0
# Translating with a memory takes this many times as long as without.
_WITH_MEMORY = 1.5
# Number of translations of dev that choosing a ratio, or a gate, takes on average; and seconds to try ratios.
_PRUNING_TRIALS, _GATE_TRIALS, _TRYING = 2, 5, 10.0
# Seconds per entry of indexing and pruning; margins take longer the more entries there are.
_PER_ENTRY, _MARGIN_PER_ENTRY, _MARGIN_PER_PAIR_OF_ENTRIES = 5e-5, 1e-4, 2e-9
# Seconds of a step with hardly any work.
_MIN_SECONDS = 1.0
# A time limit leaves dev and test at least this many pairs, and the memory this many.
_MIN_LIMITED, _MIN_TRAIN = 200, 200
_OPTIONAL = {"gate": "the gate", "prune": "pruning"}
# A memory with fewer entries takes too little space for pruning, and a search too little time for a gate, to be worth
# the time of trying them.
_MIN_PRUNED, _MIN_GATED = 50_000, 500_000


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """Sizes, choices and speeds.

    :param read: Seconds for the model to read a pair.
    :param translate: Seconds for the model to translate a sentence.
    :param tokens: Target tokens of a pair, on average.
    :param train: Pairs in the memory; drawn at random if there are more.
    :param fits: Whether there are enough dev pairs to fit anything.
    :param prune: Whether to find out if the memory can be pruned.
    :param gate: Whether to fit a gate.
    :param approximate: Whether margins are approximate.
    :param notes: What a time limit leaves out: one sentence each.
    """

    read: float
    translate: float
    tokens: float
    train: int
    dev: int
    test: int
    fits: bool
    prune: bool
    gate: bool
    approximate: bool = False
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> WorkPlan:
        """Return the plan that :meth:`as_json` gave."""
        return cls(**content | {"notes": tuple(content["notes"])})

    def seconds(self) -> dict[str, float]:
        """Estimate the time of each step of the step cache, in order; steps that are left out are missing."""
        entries = self.train * self.tokens
        per_pair = 0.0 if self.approximate else _MARGIN_PER_PAIR_OF_ENTRIES * entries
        margin = entries * (_MARGIN_PER_ENTRY + per_pair)
        reading, translating = self.dev * self.read, min(self.dev, MAX_TRANSLATED) * self.translate * _WITH_MEMORY
        steps = {"store": self.train * self.read, "index": entries * _PER_ENTRY, "margin": margin}
        if self.prune:
            confirming = _PRUNING_TRIALS * min(self.dev, TRANSLATED) * self.translate * _WITH_MEMORY
            steps |= {"safe": reading + _TRYING + confirming, "prune": 2 * entries * _PER_ENTRY + margin}
            steps |= {"loss": self.test * self.read}
        if self.fits:
            steps |= {"fit": 5 + reading + 2 * COMPARED * self.dev * self.translate * _WITH_MEMORY}
        if self.gate:
            steps |= {"gate": reading + _GATE_TRIALS * translating}
        if self.fits:
            steps |= {"calibrate": reading}
        if self.test:
            steps |= {"translate": self.test * self.translate * (1 + _WITH_MEMORY), "score": 2.0}
        return {name: max(_MIN_SECONDS, seconds) for name, seconds in steps.items()}

    def total(self) -> float:
        """Estimate the time of all steps."""
        return sum(self.seconds().values())

    def seconds_from(self, step: str) -> float:
        """Estimate the time of a step and of all that must follow; the gate need not."""
        seconds = self.seconds()
        later = list(seconds)[list(seconds).index(step) :]
        return sum(seconds[name] for name in later if name == step or name != "gate")


def make_plan(model: Model, parts: CorpusParts, budget: float | None, seed: int) -> WorkPlan:
    """Measure speeds and plan the work.

    :param budget: Time limit in minutes.
    """
    sample = draw_pairs(parts.train, max(_SAMPLES), seed)
    read = _time_of(lambda pairs: list(DevSet(pairs).teacher_force(model)), sample)
    translator = System(model).open()
    # A sentence that loses placeholders is translated several times, which would tell little about the others.
    usual = [pair for pair in sample if not find_placeholders(pair.source)] or sample
    translate = _time_of(lambda pairs: translator.translate([pair.source for pair in pairs]), usual)
    tokens = sum(map(len, model.encode_targets([pair.target for pair in sample]))) / len(sample)
    fits = len(parts.dev) >= MIN_PART
    entries = len(parts.train) * tokens
    plan = WorkPlan(
        read=read,
        translate=translate,
        tokens=tokens,
        train=len(parts.train),
        dev=len(parts.dev),
        test=len(parts.test),
        fits=fits,
        prune=fits and entries >= _MIN_PRUNED,
        gate=fits and entries >= _MIN_GATED,
    )
    return plan if budget is None else limit(plan, 60 * budget)


def limit(plan: WorkPlan, seconds: float) -> WorkPlan:
    """Reduce a plan until its estimated time is within a limit, by what costs the least quality first."""
    for reduce in (_without("gate"), _approximate, _without("prune"), _smaller_sets, _smaller_memory):
        if plan.total() > seconds:
            plan = reduce(plan, seconds)
    return plan


def _without(step: str) -> Callable[[WorkPlan, float], WorkPlan]:
    def reduce(plan: WorkPlan, seconds: float) -> WorkPlan:
        if not getattr(plan, step):
            return plan
        without = replace(plan, prune=plan.prune and step != "prune", gate=plan.gate and step != "gate")
        return _noted(without, f"The time limit leaves out {_OPTIONAL[step]}.")

    return reduce


def _approximate(plan: WorkPlan, seconds: float) -> WorkPlan:
    return _noted(replace(plan, approximate=True), "The time limit makes margins approximate.")


def _smaller_sets(plan: WorkPlan, seconds: float) -> WorkPlan:
    """Halve dev and test until the plan fits, or they are small."""
    smaller = plan
    while smaller.total() > seconds and max(smaller.dev, smaller.test) > _MIN_LIMITED:
        dev, test = (min(size, max(_MIN_LIMITED, size // 2)) for size in (smaller.dev, smaller.test))
        smaller = replace(smaller, dev=dev, test=test)
    if smaller == plan:
        return plan
    sizes = f"{smaller.dev:,} of {plan.dev:,} dev and {smaller.test:,} of {plan.test:,} test pairs"
    return _noted(smaller, f"The time limit leaves {sizes}.")


def _smaller_memory(plan: WorkPlan, seconds: float) -> WorkPlan:
    """Reduce the memory until the plan fits, or it is small."""
    smaller = plan
    while smaller.total() > seconds and smaller.train > _MIN_TRAIN:
        smaller = replace(smaller, train=max(_MIN_TRAIN, int(0.8 * smaller.train)))
    if smaller == plan:
        return plan
    return _noted(smaller, f"The time limit leaves {smaller.train:,} of {plan.train:,} pairs for the memory.")


def _noted(plan: WorkPlan, note: str) -> WorkPlan:
    return replace(plan, notes=(*plan.notes, note))


def _time_of(work: Callable[[Sequence[SentencePair]], object], pairs: Sequence[SentencePair]) -> float:
    """Return the seconds per pair of some work."""
    work(pairs[:_FIRST])
    seconds = 0.0
    for count in _SAMPLES:
        started = time.monotonic()
        work(pairs[:count])
        seconds = (time.monotonic() - started) / len(pairs[:count])
        if count >= len(pairs) or seconds * count >= _ENOUGH_SECONDS:
            break
    return seconds
