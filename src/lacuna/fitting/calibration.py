"""Fitting a calibration to a dev set, and comparing it with simpler ways to tell how sure one may be.

Every way is judged on sentences that it was not fitted to: the dev set is parted into folds, and each fold is judged by
what was fitted to the others. What is saved is fitted to all. Knows nothing of how the result is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.combiners.storage import MemoryRecord, ModelIdentity
from lacuna.errors import CalibrationError, CorpusError, SettingError
from lacuna.explanation.calibration import (
    Calibration,
    CalibrationManifest,
    Measured,
    features,
    save_calibration,
)
from lacuna.explanation.knowledge import MOST_MARGIN, knowledge_of
from lacuna.files import check_unused
from lacuna.fitting.dev_pass import read_dev
from lacuna.fitting.regression import brier_score, calibration_error, fit_logistic, fit_table
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import SentencePair
from lacuna.translator import Memory

FOLDS = 5


@dataclass(frozen=True, eq=False, slots=True)
class DevTokens:
    """What is known at the tokens of a dev set, and whether the model was right: (tokens,) each."""

    sentences: NDArray[np.int64]
    margins: NDArray[np.int64]
    max_probs: NDArray[np.float64]
    right: NDArray[np.bool_]

    def part(self, rows: NDArray[np.bool_]) -> DevTokens:
        """Return some of the tokens."""
        return DevTokens(self.sentences[rows], self.margins[rows], self.max_probs[rows], self.right[rows])


# Fits to some tokens; what it gives tells the probability that the model is right at others.
Way = Callable[[DevTokens], Callable[[DevTokens], NDArray[np.float64]]]


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What was saved, and where."""

    into: Path
    manifest: CalibrationManifest

    def as_json(self) -> dict[str, Any]:
        """Give the report as JSON has it."""
        content = self.manifest.model_dump(mode="json", include={"sentences", "tokens", "right", "seed", "measured"})
        return {"into": str(self.into), **content}


def calibrate(
    model: Model,
    memories: Sequence[Memory],
    pairs: Iterable[SentencePair],
    into: str | Path,
    *,
    most_margin: int = MOST_MARGIN,
    seed: int = 1,
    progress: Progress = SILENT,
) -> CalibrationReport:
    """Fit a calibration to a dev set that is not in the memories, judge it on held-out sentences, and save it.

    :param into: A folder that does not exist or is empty. It appears when all is done.
    :param most_margin: Where counting a margin stops.
    :param seed: Parts the dev set into folds.
    """
    folder = Path(into)
    check_unused(folder, CalibrationError)
    if not memories:
        raise SettingError("no memory to calibrate with; give at least one store")
    tokens = collect_tokens(model, memories, pairs, most_margin, progress=progress)
    fitted = fit_calibration(tokens, most_margin)
    manifest = CalibrationManifest(
        weights=fitted.weights,
        scores=fitted.scores,
        probabilities=fitted.probabilities,
        most_margin=most_margin,
        model=ModelIdentity(name=model.name, fingerprint=model.fingerprint),
        memories=tuple(
            MemoryRecord(name=memory.name, fingerprint=memory.store.fingerprint, entries=memory.store.entries)
            for memory in memories
        ),
        sentences=len(np.unique(tokens.sentences)),
        tokens=len(tokens.right),
        right=float(tokens.right.mean()),
        seed=seed,
        measured=compare(tokens, most_margin, seed),
    )
    save_calibration(manifest, folder)
    return CalibrationReport(folder, manifest)


def collect_tokens(
    model: Model,
    memories: Sequence[Memory],
    pairs: Iterable[SentencePair],
    most_margin: int,
    *,
    progress: Progress = SILENT,
) -> DevTokens:
    """Read a dev set through the model, each token after the right ones, and look every token up."""
    parts = []
    for batch in read_dev(model, memories, pairs, most_margin, progress=progress):
        known = knowledge_of(model, memories, batch.forced, batch.found)
        right = (batch.forced.predictions == batch.gold).numpy()
        parts.append((batch.sentences.numpy(), known.margins, known.max_probs, right))
    return DevTokens(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def fit_calibration(tokens: DevTokens, most_margin: int, used: tuple[bool, bool] = (True, True)) -> Calibration:
    """Fit a score by logistic regression, then the table by isotonic regression.

    :param used: Whether the score looks at the model's probability, and at the margin.
    """
    columns = features(tokens.margins, tokens.max_probs, most_margin)
    weights = np.array(used, np.float64)
    if all(used):
        # Both are signs that the model is right: where dev says otherwise, it is chance, and the table must not fall.
        weights = np.maximum(fit_logistic(columns, tokens.right)[:2], 0.0)
    scores, probabilities = fit_table(columns @ weights, tokens.right)
    probability, margin = weights.tolist()
    return Calibration((probability, margin), tuple(scores.tolist()), tuple(probabilities.tolist()), most_margin)


def compare(tokens: DevTokens, most_margin: int, seed: int) -> tuple[Measured, ...]:
    """Judge several ways to tell confidence on held-out sentences."""
    calibrated = {
        "margin": (False, True),
        "max probability, calibrated": (True, False),
        "both": (True, True),
    }
    ways: dict[str, Way] = {"max probability": lambda _: lambda some: some.max_probs}
    ways |= {name: _calibrated(most_margin, used) for name, used in calibrated.items()}
    folds = _folds(tokens.sentences, seed)
    results = []
    for name, way in ways.items():
        told = np.empty(len(tokens.right))
        for fold in range(folds.max() + 1):
            here = folds == fold
            told[here] = way(tokens.part(~here))(tokens.part(here))
        results.append(_measure(name, told, tokens))
    return tuple(results)


def _calibrated(most_margin: int, used: tuple[bool, bool]) -> Way:
    def fit(tokens: DevTokens) -> Callable[[DevTokens], NDArray[np.float64]]:
        calibration = fit_calibration(tokens, most_margin, used)
        return lambda some: calibration.probability(some.margins, some.max_probs)

    return fit


def _folds(sentences: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Give each token the fold of its sentence."""
    names, place = np.unique(sentences, return_inverse=True)
    if len(names) < 2:
        raise CorpusError(f"the dev set has {len(names)} sentence that fits the model; calibrating needs 2 or more")
    order = np.random.default_rng(seed).permutation(len(names))
    return np.asarray((order % min(FOLDS, len(names)))[place], dtype=np.int64)


def _measure(name: str, told: NDArray[np.float64], tokens: DevTokens) -> Measured:
    _, place, lengths = np.unique(tokens.sentences, return_inverse=True, return_counts=True)
    gaps = np.bincount(place, weights=told - tokens.right) / lengths
    return Measured(
        name=name,
        ece=calibration_error(told, tokens.right),
        brier=brier_score(told, tokens.right),
        sentence_error=float(np.abs(gaps).mean()),
    )
