"""Fit a calibration, :mod:`lacuna.translator.calibration`, to dev, and compare it with simpler estimates.

Estimates of confidence are compared by cross-validation over dev sentences. The saved calibration is fitted to all of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.files import check_unused
from lacuna.artifacts.locks import alone
from lacuna.combiners.storage import MemoryRecord
from lacuna.datastore.manifest import ModelIdentity
from lacuna.errors import CalibrationError, CorpusError, SettingError
from lacuna.fitting.dev_pass import DevBatch, DevSet
from lacuna.fitting.regression import brier_score, calibration_error, fit_logistic, fit_table
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator.calibration import (
    Calibration,
    CalibrationManifest,
    Measured,
    calibration_of,
    features,
    save_calibration,
)
from lacuna.translator.knowledge import MAX_MARGIN, knowledge_of

FOLDS = 5


@dataclass(frozen=True, eq=False, slots=True)
class DevTokens:
    """Features of the dev tokens, and whether the model's prediction is right: (tokens,) each."""

    sentences: NDArray[np.int64]
    margins: NDArray[np.int64]
    max_probs: NDArray[np.float64]
    right: NDArray[np.bool_]

    def part(self, rows: NDArray[np.bool_]) -> DevTokens:
        """Return the tokens of some rows."""
        return DevTokens(self.sentences[rows], self.margins[rows], self.max_probs[rows], self.right[rows])


# Fits an estimate to some tokens; the estimate gives the probability that the model is right at others.
Estimator = Callable[[DevTokens], Callable[[DevTokens], NDArray[np.float64]]]


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """A fitted and saved calibration.

    :param calibration: The calibration, ready for an explainer.
    :param into: Its folder.
    :param manifest: Its manifest.
    :param skipped: Dev pairs that were too long for the model and were left out.
    """

    calibration: Calibration
    into: Path
    manifest: CalibrationManifest
    skipped: int

    def as_json(self) -> dict[str, Any]:
        """Return the report for JSON."""
        content = self.manifest.model_dump(mode="json", include={"sentences", "tokens", "right", "seed", "measured"})
        return {"into": str(self.into), "skipped": self.skipped, **content}


@alone("into")
def calibrate(
    model: Model,
    memories: Sequence[Memory],
    dev: DevSet | Iterable[SentencePair],
    into: str | Path,
    *,
    most_margin: int = MAX_MARGIN,
    seed: int = 1,
    progress: Progress = SILENT,
) -> CalibrationReport:
    """Fit a calibration, measure it by cross-validation, and save it.

    :param dev: Held-out pairs that are not in the memories; a :class:`DevSet` reuses its pass over the model.
    :param into: A folder that does not exist or is empty. It appears when everything is done.
    :param most_margin: Margins are counted up to this bound.
    :param seed: Seed of the folds.
    """
    dev, folder = DevSet.of(dev), Path(into)
    check_unused(folder, CalibrationError)
    if not memories:
        raise SettingError("no memory to calibrate with; give at least one store")
    tokens = collect_tokens(model, memories, dev, most_margin, progress=progress)
    fitted = fit_calibration(tokens, most_margin)
    manifest = CalibrationManifest(
        weights=fitted.weights,
        scores=fitted.scores,
        probabilities=fitted.probabilities,
        most_margin=most_margin,
        model=ModelIdentity.of(model),
        memories=tuple(MemoryRecord.of(memory) for memory in memories),
        sentences=len(np.unique(tokens.sentences)),
        tokens=len(tokens.right),
        right=float(tokens.right.mean()),
        seed=seed,
        measured=compare(tokens, most_margin, seed),
    )
    save_calibration(manifest, folder)
    return CalibrationReport(calibration_of(manifest, folder), folder, manifest, dev.skipped(model))


def collect_tokens(
    model: Model,
    memories: Sequence[Memory],
    dev: DevSet,
    most_margin: int,
    *,
    progress: Progress = SILENT,
) -> DevTokens:
    """Run the dev pass and collect margin, confidence and correctness of every token."""

    def columns_of(batch: DevBatch) -> tuple[NDArray[Any], ...]:
        known = knowledge_of(model, memories, batch.outputs, batch.retrieval)
        right = (batch.outputs.predictions == batch.gold).numpy()
        return batch.sentences.numpy(), known.margins, known.max_probs, right

    parts = dev.retrieve(model, memories, most_margin, columns_of, progress=progress)
    return DevTokens(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def fit_calibration(tokens: DevTokens, most_margin: int, used: tuple[bool, bool] = (True, True)) -> Calibration:
    """Fit the score by logistic regression, then the table from score to probability by isotonic regression.

    :param used: Whether the score uses the model's probability, and whether it uses the margin.
    """
    columns = features(tokens.margins, tokens.max_probs, most_margin)
    weights = np.array(used, np.float64)
    if all(used):
        # Both features speak for the model. A negative weight would be noise, and the score must not fall with either.
        weights = np.maximum(fit_logistic(columns, tokens.right)[:2], 0.0)
    scores, probabilities = fit_table(columns @ weights, tokens.right)
    probability, margin = weights.tolist()
    return Calibration((probability, margin), tuple(scores.tolist()), tuple(probabilities.tolist()), most_margin)


def compare(tokens: DevTokens, most_margin: int, seed: int) -> tuple[Measured, ...]:
    """Measure several estimates of confidence by cross-validation."""
    calibrated = {
        "margin": (False, True),
        "max probability, calibrated": (True, False),
        "both": (True, True),
    }
    estimators: dict[str, Estimator] = {"max probability": lambda _: lambda tokens: tokens.max_probs}
    estimators |= {name: _calibrated(most_margin, used) for name, used in calibrated.items()}
    folds = _folds(tokens.sentences, seed)
    results = []
    for name, fit in estimators.items():
        estimates = np.empty(len(tokens.right))
        for fold in range(folds.max() + 1):
            here = folds == fold
            estimates[here] = fit(tokens.part(~here))(tokens.part(here))
        results.append(_measure(name, estimates, tokens))
    return tuple(results)


def _calibrated(most_margin: int, used: tuple[bool, bool]) -> Estimator:
    def fit(tokens: DevTokens) -> Callable[[DevTokens], NDArray[np.float64]]:
        calibration = fit_calibration(tokens, most_margin, used)
        return lambda others: calibration.probability(others.margins, others.max_probs)

    return fit


def _folds(sentences: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return the fold of each token; a sentence is in one fold."""
    distinct, number = np.unique(sentences, return_inverse=True)
    if len(distinct) < 2:
        raise CorpusError(f"the dev set has {len(distinct)} sentence that fits the model; calibrating needs 2 or more")
    order = np.random.default_rng(seed).permutation(len(distinct))
    return np.asarray((order % min(FOLDS, len(distinct)))[number], dtype=np.int64)


def _measure(name: str, estimates: NDArray[np.float64], tokens: DevTokens) -> Measured:
    _, number, lengths = np.unique(tokens.sentences, return_inverse=True, return_counts=True)
    differences = np.bincount(number, weights=estimates - tokens.right) / lengths
    return Measured(
        name=name,
        ece=calibration_error(estimates, tokens.right),
        brier=brier_score(estimates, tokens.right),
        sentence_error=float(np.abs(differences).mean()),
    )
