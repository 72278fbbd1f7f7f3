"""Calibration: map margin and model probability to the probability that the model's prediction is right.

:mod:`lacuna.fitting.calibration` fits it. A score that increases with the model's probability and with the margin is
looked up in a monotonic table. A calibration is saved as a folder with a manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lacuna.artifacts.files import atomic_folder, check_unused
from lacuna.artifacts.manifests import Record, read_manifest, write_sealed
from lacuna.combiners.storage import MemoryRecord
from lacuna.datastore.manifest import ModelIdentity
from lacuna.errors import CalibrationError, SettingError
from lacuna.memory import Memory
from lacuna.version import __version__

FORMAT = 1
MANIFEST = "manifest.json"

_CLIP = 1e-6  # the log-odds of a probability of 1 would be infinite

_Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Score = Annotated[float, Field(allow_inf_nan=False)]
_Probability = Annotated[float, Field(ge=0, le=1)]


class Measured(Record):
    """Quality of one way to compute confidence, on held-out dev sentences.

    :param name: The features that it uses.
    :param ece: Expected calibration error over tokens.
    :param brier: Brier score over tokens.
    :param sentence_error: Mean absolute difference between a sentence's confidence and its share of right tokens.
    """

    name: str
    ece: float
    brier: float
    sentence_error: float


class CalibrationManifest(Record):
    """A saved calibration.

    :param weights: Weights of the log-odds of the model's largest probability and of log2(1 + margin).
    :param scores: Points of the table, increasing.
    :param probabilities: Probabilities at these points, with linear interpolation between them.
    :param most_margin: Margins are counted up to this bound.
    :param right: Share of dev tokens at which the model's prediction was right.
    :param measured: Quality of this calibration and of simpler ones on held-out dev sentences.
    """

    format: int = FORMAT
    kind: Literal["calibration"] = "calibration"
    lacuna: str = __version__
    weights: tuple[_Weight, _Weight]
    scores: tuple[_Score, ...] = Field(min_length=1)
    probabilities: tuple[_Probability, ...] = Field(min_length=1)
    most_margin: int = Field(ge=1)
    model: ModelIdentity
    memories: tuple[MemoryRecord, ...]
    sentences: int
    tokens: int
    right: float
    seed: int
    measured: tuple[Measured, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Gives the probability that the model's prediction is right.

    The other fields are those of :class:`CalibrationManifest`.

    :param model: Fingerprint of the model it was fitted to; empty for any model.
    :param path: Its folder, if it is saved.
    """

    weights: tuple[float, float]
    scores: tuple[float, ...]
    probabilities: tuple[float, ...]
    most_margin: int
    model: str = ""
    path: Path | None = field(default=None, compare=False)

    def probability(self, margins: NDArray[Any], max_probs: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability for each token.

        :param margins: Margins above ``most_margin`` count as ``most_margin``.
        :param max_probs: The largest probability in the model's distribution.
        """
        scores = features(margins, max_probs, self.most_margin) @ np.array(self.weights)
        return np.asarray(np.interp(scores, self.scores, self.probabilities), dtype=np.float64)

    def check(self, memories: Sequence[Memory], most_margin: int) -> None:
        """Raise if the calibration does not apply to these memories."""
        if not memories:
            raise SettingError("calibration: given without a memory, but it needs margins; give a memory as well")
        if most_margin < self.most_margin:
            raise SettingError(f"most_margin: got {most_margin}; the calibration needs {self.most_margin} or more")
        for memory in memories:
            fingerprint = memory.model.fingerprint
            if self.model and fingerprint != self.model:
                raise CalibrationError(
                    f"calibration: fitted to another model (fingerprint {self.model[:12]}) than {memory.name}'s "
                    f"({fingerprint[:12]}); fit one with this model: lacuna calibrate"
                )


def features(margins: NDArray[Any], max_probs: NDArray[Any], most_margin: int) -> NDArray[np.float64]:
    """Return the features of each token: log-odds of the model's largest probability, and log2(1 + margin)."""
    p = np.clip(max_probs.astype(np.float64), _CLIP, 1 - _CLIP)
    return np.column_stack([np.log(p / (1 - p)), np.log2(1 + np.minimum(margins, most_margin))])


def save_calibration(manifest: CalibrationManifest, folder: Path) -> None:
    """Save a calibration in a new or empty folder."""
    check_unused(folder, CalibrationError)
    try:
        with atomic_folder(folder) as temporary:
            write_sealed(temporary / MANIFEST, manifest)
    except OSError as error:
        raise CalibrationError(
            f"{folder}: cannot be written ({error.strerror}); free space, or name another"
        ) from error


def load_calibration(path: str | Path) -> Calibration:
    """Load a calibration. Call :meth:`Calibration.check` before using it."""
    return calibration_of(read_calibration_manifest(Path(path)), Path(path))


def read_calibration_manifest(folder: Path) -> CalibrationManifest:
    """Read the manifest, which also has the quality of the calibration."""
    return read_manifest(
        folder / MANIFEST,
        CalibrationManifest,
        CalibrationError,
        missing=f"{folder}: no calibration there, {MANIFEST} is missing; create one with: lacuna calibrate",
        again="copy or calibrate again",
    )


def calibration_of(manifest: CalibrationManifest, folder: Path) -> Calibration:
    """Create the calibration that a manifest describes."""
    scores, probabilities = manifest.scores, manifest.probabilities
    increasing = np.all(np.diff(scores) > 0) and np.all(np.diff(probabilities) >= 0)
    if len(scores) != len(probabilities) or not increasing:
        raise CalibrationError(f"{folder / MANIFEST}: its table is not increasing; copy or calibrate again")
    return Calibration(
        manifest.weights, scores, probabilities, manifest.most_margin, manifest.model.fingerprint, folder
    )
