"""The calibrated confidence of whole translations, without their evidence. Does not know how it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from lacuna.errors import UnavailableError
from lacuna.explanation.calibration import Calibration
from lacuna.explanation.knowledge import MOST_MARGIN, know
from lacuna.records import Translation
from lacuna.translator import Translator

_SCORED_AT_ONCE = 64


class Scored(NamedTuple):
    """A translation and its confidence.

    :param confidence: The mean calibrated confidence of its tokens; None without a calibration or without tokens.
    """

    translation: Translation
    confidence: float | None


def check_calibration(calibration: Calibration, translator: Translator) -> None:
    """Refuse a calibration of other memories, before slow work."""
    calibration.check(translator.memories, MOST_MARGIN)


def score_translations(
    translator: Translator, translations: Iterable[Translation], calibration: Calibration | None
) -> Iterator[Scored]:
    """Add a confidence to each translation, in order, a few at a time."""
    stream = iter(translations)
    while some := list(islice(stream, 1 if calibration is None else _SCORED_AT_ONCE)):
        yield from zip_scored(some, confidences(translator, some, calibration))


def confidences(
    translator: Translator, translations: Sequence[Translation], calibration: Calibration | None
) -> list[float | None]:
    """Return the mean calibrated confidence of the tokens of each translation.

    It needs margins, so it is None for translations that were made without memory, and for all if a memory does not
    answer now and the translator may do without.
    """
    if calibration is None:
        return [None] * len(translations)
    sources, targets = (
        [one.source for one in translations],
        [() if one.without_memory else one.ids for one in translations],
    )
    try:
        known = know(translator, sources, targets, MOST_MARGIN)
    except UnavailableError:
        if not translator.fallback:
            raise
        return [None] * len(translations)
    return [
        float(np.mean(calibration.probability(one.margins, one.max_probs))) if len(one.margins) else None
        for one in known
    ]


def zip_scored(translations: Sequence[Translation], found: Sequence[float | None]) -> list[Scored]:
    """Pair translations with their confidence."""
    return [Scored(translation, confidence) for translation, confidence in zip(translations, found, strict=True)]
