"""From what is known at a token to the probability that the model's own choice is right there.

A score that rises with the model's own probability and with the margin is read off a table that never falls. Saved as
a folder with one manifest. Knows nothing of how it was fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lacuna.combiners.storage import MemoryRecord, ModelIdentity
from lacuna.errors import CalibrationError, SettingError
from lacuna.files import atomic_folder, check_unused, write_json
from lacuna.manifests import Record, read_manifest
from lacuna.translator import Memory
from lacuna.version import __version__

FORMAT = 1
MANIFEST = "manifest.json"

_LEAST_DOUBT = 1e-6  # log-odds of a probability of 1 would be infinite

_Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Score = Annotated[float, Field(allow_inf_nan=False)]
_Probability = Annotated[float, Field(ge=0, le=1)]


class Measured(Record):
    """How well a way to tell confidence did on dev sentences that it was not fitted to.

    :param name: What it looks at.
    :param ece: Expected calibration error over tokens.
    :param brier: Brier score over tokens.
    :param sentence_error: Mean difference of a sentence's confidence from the share of its tokens that were right.
    """

    name: str
    ece: float
    brier: float
    sentence_error: float


class CalibrationManifest(Record):
    """A saved calibration.

    :param weights: Of the log-odds of the model's largest probability, and of log2(1 + margin).
    :param scores: Points of the table, rising.
    :param probabilities: What is read there; between points, on a straight line.
    :param most_margin: Where counting a margin stopped.
    :param right: Share of dev tokens at which the model was right.
    :param measured: What calibrations like this one did on held-out dev sentences, beside simpler ones.
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
    """Tells how probable it is that the model's own choice is right.

    :param weights: See :class:`CalibrationManifest`; so are the others.
    :param model: The fingerprint of the model it was fitted to; empty for any.
    """

    weights: tuple[float, float]
    scores: tuple[float, ...]
    probabilities: tuple[float, ...]
    most_margin: int
    model: str = ""

    def probability(self, margins: NDArray[Any], max_probs: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability for each of some tokens.

        :param margins: Larger ones than ``most_margin`` count as that.
        :param max_probs: The largest probability in the model's distribution.
        """
        found = features(margins, max_probs, self.most_margin) @ np.array(self.weights)
        return np.asarray(np.interp(found, self.scores, self.probabilities), dtype=np.float64)

    def check(self, memories: Sequence[Memory], most_margin: int) -> None:
        """Refuse memories whose margins it cannot read."""
        if not memories:
            raise SettingError("calibration: given without a memory, but it looks at margins; give a memory, too")
        if most_margin < self.most_margin:
            raise SettingError(f"most_margin: got {most_margin}; the calibration needs {self.most_margin} or more")
        for memory in memories:
            fingerprint = memory.store.manifest.model.fingerprint
            if self.model and fingerprint != self.model:
                raise CalibrationError(
                    f"calibration: fitted to another model (fingerprint {self.model[:12]}) than {memory.name}'s "
                    f"({fingerprint[:12]}); fit one with this model: lacuna calibrate"
                )


def features(margins: NDArray[Any], max_probs: NDArray[Any], most_margin: int) -> NDArray[np.float64]:
    """Return what a score is made of, one row per token: log-odds of the model, and log2(1 + margin)."""
    p = np.clip(max_probs.astype(np.float64), _LEAST_DOUBT, 1 - _LEAST_DOUBT)
    return np.column_stack([np.log(p / (1 - p)), np.log2(1 + np.minimum(margins, most_margin))])


def save_calibration(manifest: CalibrationManifest, folder: Path) -> None:
    """Write a calibration into a folder that does not exist or is empty."""
    check_unused(folder, CalibrationError)
    try:
        with atomic_folder(folder) as temporary:
            write_json(temporary / MANIFEST, manifest.model_dump(mode="json"))
    except OSError as error:
        raise CalibrationError(
            f"{folder}: cannot be written ({error.strerror}); free space, or name another"
        ) from error


def load_calibration(path: str | Path) -> Calibration:
    """Read a calibration; whoever uses it asks :meth:`Calibration.check`."""
    folder = Path(path)
    manifest = read_manifest(
        folder / MANIFEST,
        CalibrationManifest,
        CalibrationError,
        missing=f"{folder}: no calibration there, {MANIFEST} is missing; make one with: lacuna calibrate",
        again="copy or calibrate again",
    )
    return calibration_of(manifest, folder)


def calibration_of(manifest: CalibrationManifest, folder: Path) -> Calibration:
    """Take the calibration out of its manifest."""
    scores, probabilities = manifest.scores, manifest.probabilities
    rising = np.all(np.diff(scores) > 0) and np.all(np.diff(probabilities) >= 0)
    if len(scores) != len(probabilities) or not rising:
        raise CalibrationError(f"{folder / MANIFEST}: its table is no rising one; copy or calibrate again")
    return Calibration(manifest.weights, scores, probabilities, manifest.most_margin, manifest.model.fingerprint)
