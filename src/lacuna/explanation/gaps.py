"""Find gaps: sentences that neither the model nor the memory covers, to be translated by people next.

Two numbers indicate that a token may be wrong: its final probability and the confidence of the model. The gap of a
sentence is the mean of 1 minus each, over all tokens; docs/explain.md lists the alternatives that were tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lacuna.progress import SILENT, Progress
from lacuna.records import Translation
from lacuna.translator import Translator
from lacuna.translator.calibration import Calibration
from lacuna.translator.knowledge import MAX_MARGIN, Knowledge, know


@dataclass(frozen=True, slots=True)
class Gap:
    """A sentence and the size of its gap. All numbers are means over the tokens of its translation.

    :param line: Number of the sentence, from 1: in plain text, its line.
    :param place: Where it is in the file: a line number, or the id of a unit.
    :param gap: The mean of ``1 - p`` and ``1 - confidence``; without a calibration, the model's largest probability
        stands in for the confidence.
    :param p: The final probability of the tokens.
    :param margin: The knowledge margin.
    :param distance: Squared L2 distance of the nearest entry.
    :param confidence: The probability that the model's prediction is right; None without a calibration.
    """

    line: int
    source: str
    translation: str
    gap: float
    p: float
    margin: float
    distance: float
    confidence: float | None
    place: str

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


def find_gaps(
    translator: Translator,
    texts: Sequence[str],
    *,
    places: Sequence[str] | None = None,
    progress: Progress = SILENT,
) -> list[Gap]:
    """Translate sentences and rank them by gap, largest first; blank ones and repetitions are left out.

    The calibration of the translator's system, if it has one, gives the confidence.

    :param places: Where each sentence is in its file; by default, its number.
    """
    lines = {text: line for line, text in reversed(list(enumerate(texts, 1))) if text.strip()}
    chosen = sorted(lines, key=lambda text: lines[text])
    translations = translator.translate(chosen, evidence=True, progress=progress)
    targets = [translation.ids for translation in translations]
    known = know(translator.model, translator.memories, translator.encode(chosen), targets, MAX_MARGIN)
    gaps = []
    for translation, knowledge in zip(translations, known, strict=True):
        line = lines[translation.source]
        place = str(line) if places is None else places[line - 1]
        gaps.append(_gap(line, place, translation, knowledge, translator.system.calibration))
    return sorted(gaps, key=lambda gap: (-gap.gap, gap.line))


def _gap(line: int, place: str, translation: Translation, known: Knowledge, calibration: Calibration | None) -> Gap:
    p = np.array([step.p for step in translation.steps])
    sure = known.max_probs if calibration is None else calibration.probability(known.margins, known.max_probs)
    return Gap(
        line=line,
        source=translation.source,
        translation=translation.text,
        gap=float(np.mean((1 - p) + (1 - sure)) / 2),
        p=float(p.mean()),
        margin=float(known.margins.mean()),
        distance=float(known.nearest.mean()),
        confidence=None if calibration is None else float(sure.mean()),
        place=place,
    )
