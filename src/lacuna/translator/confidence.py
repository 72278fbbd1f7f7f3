"""The calibrated confidence of whole translations: how sure it is that the model's predictions are right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.translator.calibration import Calibration
from lacuna.translator.knowledge import MAX_MARGIN, know


def confidences(
    model: Model,
    memories: Sequence[Memory],
    calibration: Calibration,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
) -> list[float | None]:
    """Return the mean calibrated confidence of the tokens of each translation; None for one without tokens."""
    return [
        float(np.mean(calibration.probability(known.margins, known.max_probs))) if len(known.margins) else None
        for known in know(model, memories, sources, targets, MAX_MARGIN)
    ]
