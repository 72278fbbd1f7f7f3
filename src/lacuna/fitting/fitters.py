"""Fit a combiner to a model, its memories and a dev set, and save it.

A fitter is a frozen dataclass whose fields are its settings; :data:`FITTERS` finds it by name. Each method has a module
here and one of the same name in :mod:`lacuna.combiners`, which is all that translating needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from lacuna.artifacts.files import check_unused
from lacuna.artifacts.locks import alone
from lacuna.combiners import SavedCombiner, save_combiner
from lacuna.combiners.storage import CombinerManifest, MemoryRecord
from lacuna.datastore.manifest import ModelIdentity
from lacuna.errors import CombinerError, SettingError
from lacuna.fitting.adaptive import FitAdaptive
from lacuna.fitting.dev_pass import DevSet
from lacuna.fitting.kster import FitKster
from lacuna.fitting.objective import Fitted
from lacuna.fitting.vanilla import FitVanilla
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.strategies import make_strategy


class Fitter(Protocol):
    """Fits one kind of combiner."""

    name: ClassVar[str]

    def fit(self, model: Model, memories: Sequence[Memory], dev: DevSet, *, seed: int, progress: Progress) -> Fitted:
        """Fit a combiner, with a dev set that is not in the memories."""


FITTERS: dict[str, type[Fitter]] = {fitter.name: fitter for fitter in (FitVanilla, FitAdaptive, FitKster)}


def make_fitter(kind: str, **settings: Any) -> Fitter:  # noqa: ANN401 - each kind has its own
    """Make the fitter of this name; settings that are not given have their defaults."""
    return make_strategy(FITTERS, "combiner", kind, settings)


@dataclass(frozen=True, slots=True)
class FitReport:
    """A fitted and saved combiner.

    :param combiner: The saved combiner, ready for a translator.
    :param fitted: Its dev perplexity and the time it took.
    """

    combiner: SavedCombiner
    fitted: Fitted

    @property
    def into(self) -> Path:
        """Folder of the combiner."""
        return self.combiner.path

    @property
    def manifest(self) -> CombinerManifest:
        """Manifest of the combiner."""
        return self.combiner.manifest

    def as_json(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "combiner": self.manifest.combiner,
            "settings": self.manifest.settings,
            "into": str(self.into),
            "seed": self.manifest.seed,
            "perplexity": round(self.fitted.perplexity, 4),
            "model_perplexity": round(self.fitted.model_perplexity, 4),
            "skipped": self.fitted.skipped,
            "at_edge": [edge.setting for edge in self.fitted.at_edge],
            "seconds": {"collecting": round(self.fitted.collecting, 3), "learning": round(self.fitted.learning, 3)},
        }


@alone("into")
def fit_combiner(
    fitter: Fitter,
    model: Model,
    memories: Sequence[Memory],
    dev: DevSet | Iterable[SentencePair],
    into: str | Path,
    *,
    seed: int = 1,
    progress: Progress = SILENT,
) -> FitReport:
    """Fit a combiner and save it.

    :param fitter: Kind and settings, e.g. ``FitAdaptive(k=8)``.
    :param dev: Held-out pairs that are not in the memories; a :class:`DevSet` reuses its pass over the model.
    :param into: A folder that does not exist or is empty. It appears when everything is done.
    :param seed: Seed of everything random.
    """
    folder = Path(into)
    check_unused(folder, CombinerError)
    if not memories:
        raise SettingError("no memory to fit a combiner to; give at least one store")
    fitted = fitter.fit(model, memories, DevSet.of(dev), seed=seed, progress=progress)
    combiner = save_combiner(
        fitted.combiner,
        folder,
        model=ModelIdentity.of(model),
        memories=tuple(MemoryRecord.of(memory) for memory in memories),
        dev_loss=math.log(fitted.perplexity),
        seed=seed,
    )
    return FitReport(combiner, fitted)
