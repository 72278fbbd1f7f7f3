"""Fitting a combiner to a model and its memories: collect what it learns from, learn, save.

A way to fit is a frozen dataclass whose fields are its settings, found by name in one dict. Knows nothing of how a
combiner learns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch

from lacuna.combiners import Adaptive, Kster, Vanilla, save_combiner
from lacuna.combiners.storage import CombinerManifest, MemoryRecord, ModelIdentity
from lacuna.corpora import draw_pairs
from lacuna.errors import CombinerError, SettingError
from lacuna.files import check_unused
from lacuna.fitting.adaptive import fit_adaptive
from lacuna.fitting.dev_pass import collect_dev, collect_entries
from lacuna.fitting.kster import fit_kster
from lacuna.fitting.objective import perplexity
from lacuna.fitting.vanilla import KS, TEMPERATURES, collect_retrievals, tune_vanilla
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator.memory import Memory

# KSTER learns from the memories; so many dev pairs, drawn, say when to stop.
_STOPPING_PAIRS = 250


@dataclass(frozen=True, eq=False, slots=True)
class Fitted:
    """A combiner, and how good it is.

    :param perplexity: Of the dev tokens that it was chosen by; adaptive has learned from others.
    :param model_perplexity: Of the model alone, on the same tokens.
    :param collecting: Seconds that decoding and searching took.
    :param learning: Seconds that the rest took.
    """

    combiner: Vanilla | Adaptive | Kster
    perplexity: float
    model_perplexity: float
    collecting: float
    learning: float


class Fitter(Protocol):
    """A way to fit one kind of combiner: a frozen dataclass, whose fields are its settings."""

    name: ClassVar[str]

    def fit(
        self, model: Model, memories: Sequence[Memory], pairs: Sequence[SentencePair], *, seed: int, progress: Progress
    ) -> Fitted:
        """Fit a combiner, with dev pairs that are not in the memories."""


@dataclass(frozen=True, slots=True)
class FitVanilla:
    """Tries a grid of settings on the whole dev set.

    :param k: The only one to try; without it, powers of 2.
    :param temperature: The only one to try.
    """

    name: ClassVar[str] = "vanilla"
    k: int | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        Vanilla(**_given(self))  # made for its checks alone

    def fit(
        self,
        model: Model,
        memories: Sequence[Memory],
        pairs: Sequence[SentencePair],
        *,
        seed: int = 1,
        progress: Progress = SILENT,
    ) -> Fitted:
        """Fit vanilla; nothing is left to chance, so the seed does not matter."""
        started = time.monotonic()
        ks = KS if self.k is None else (self.k,)
        dev = collect_retrievals(model, memories, pairs, max(ks), progress=progress)
        collected = time.monotonic()
        best = tune_vanilla(dev, ks, TEMPERATURES if self.temperature is None else (self.temperature,))[0]
        alone = math.exp(-float(dev.log_p_gold.mean(dtype=np.float64)))
        return Fitted(best.combiner, best.perplexity, alone, collected - started, time.monotonic() - collected)


@dataclass(frozen=True, slots=True)
class FitAdaptive:
    """Learns from the dev set, part of which is held out.

    :param k: Neighbors per query, a power of 2.
    :param temperature: Without one, a few are tried.
    """

    name: ClassVar[str] = "adaptive"
    k: int = Adaptive.k
    temperature: float | None = None

    def __post_init__(self) -> None:
        with torch.random.fork_rng(devices=()):  # made for its checks alone
            Adaptive(**_given(self))

    def fit(
        self,
        model: Model,
        memories: Sequence[Memory],
        pairs: Sequence[SentencePair],
        *,
        seed: int = 1,
        progress: Progress = SILENT,
    ) -> Fitted:
        """Fit adaptive."""
        started = time.monotonic()
        dev = collect_dev(model, memories, pairs, self.k, progress=progress)
        collected = time.monotonic()
        fit = fit_adaptive(dev, temperature=self.temperature, seed=seed, progress=progress)
        learning = time.monotonic() - collected
        alone = perplexity(dev, fit.held_out)
        return Fitted(fit.combiner, math.exp(fit.run.loss), alone, collected - started, learning)


@dataclass(frozen=True, slots=True)
class FitKster:
    """Learns from entries of the memories.

    :param k: Neighbors per query.
    :param kernel: ``laplacian`` or ``gaussian``.
    :param entries: Entries to learn from, drawn where there are more.
    """

    name: ClassVar[str] = "kster"
    k: int = Kster.k
    kernel: str = Kster.kernel
    entries: int = 50_000

    def __post_init__(self) -> None:
        with torch.random.fork_rng(devices=()):  # made for its checks alone
            Kster(1, self.k, self.kernel)
        if self.entries < 1:
            raise SettingError(f"entries: got {self.entries}; allowed is 1 or more")

    def fit(
        self,
        model: Model,
        memories: Sequence[Memory],
        pairs: Sequence[SentencePair],
        *,
        seed: int = 1,
        progress: Progress = SILENT,
    ) -> Fitted:
        """Fit KSTER."""
        started = time.monotonic()
        stopping = draw_pairs(pairs, _STOPPING_PAIRS, seed)
        dev = collect_dev(model, memories, stopping, self.k, keep_queries=True, progress=progress)
        entries = collect_entries(model, memories, self.k, most=self.entries, seed=seed, progress=progress)
        collected = time.monotonic()
        fit = fit_kster(entries, dev, model.dimension, kernel=self.kernel, seed=seed, progress=progress)
        learning = time.monotonic() - collected
        alone = perplexity(dev, torch.arange(dev.tokens))
        return Fitted(fit.combiner, math.exp(fit.run.loss), alone, collected - started, learning)


FITTERS: dict[str, type[FitVanilla | FitAdaptive | FitKster]] = {
    fitter.name: fitter for fitter in (FitVanilla, FitAdaptive, FitKster)
}


def make_fitter(kind: str, **settings: Any) -> Fitter:  # noqa: ANN401 - each kind has its own
    """Make the fitter of this name; settings not given are its own."""
    if kind not in FITTERS:
        raise SettingError(f"combiner: got {kind!r}; allowed: {', '.join(FITTERS)}")
    allowed = [field.name for field in fields(FITTERS[kind])]
    for name in settings:
        if name not in allowed:
            raise SettingError(
                f"{name}: got {settings[name]}, but {kind} takes only {', '.join(allowed)}; leave it out"
            )
    return FITTERS[kind](**settings)


@dataclass(frozen=True, slots=True)
class FitReport:
    """What was saved, and what came before it."""

    into: Path
    manifest: CombinerManifest
    fitted: Fitted

    def as_json(self) -> dict[str, Any]:
        """Give the report as JSON has it."""
        return {
            "combiner": self.manifest.combiner,
            "settings": self.manifest.settings,
            "into": str(self.into),
            "seed": self.manifest.seed,
            "perplexity": round(self.fitted.perplexity, 4),
            "model_perplexity": round(self.fitted.model_perplexity, 4),
            "seconds": {"collecting": round(self.fitted.collecting, 3), "learning": round(self.fitted.learning, 3)},
        }


def fit_combiner(
    fitter: Fitter,
    model: Model,
    memories: Sequence[Memory],
    pairs: Sequence[SentencePair],
    into: str | Path,
    *,
    seed: int = 1,
    progress: Progress = SILENT,
) -> FitReport:
    """Fit a combiner and save it.

    :param fitter: What and how, as ``FitAdaptive(k=8)``.
    :param pairs: A dev set that is not in the memories.
    :param into: A folder that does not exist or is empty. It appears when all is done.
    :param seed: Decides everything that is left to chance.
    """
    folder = Path(into)
    check_unused(folder, CombinerError)
    if not memories:
        raise SettingError("no memory to fit a combiner to; give at least one store")
    fitted = fitter.fit(model, memories, pairs, seed=seed, progress=progress)
    manifest = save_combiner(
        fitted.combiner,
        folder,
        model=ModelIdentity(name=model.name, fingerprint=model.fingerprint),
        memories=tuple(
            MemoryRecord(name=memory.name, fingerprint=memory.store.fingerprint, entries=memory.store.entries)
            for memory in memories
        ),
        dev_loss=math.log(fitted.perplexity),
        seed=seed,
    )
    return FitReport(folder, manifest, fitted)


def _given(settings: FitVanilla | FitAdaptive) -> dict[str, Any]:
    return {name: value for name, value in asdict(settings).items() if value is not None}
