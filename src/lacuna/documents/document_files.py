"""Translate text and files with a translator: the functions that most callers need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lacuna.documents.paragraphs import Paragraph, Splitter, fitting, translate_paragraphs
from lacuna.documents.translation import DocumentReport, DocumentSettings, DocumentTranslator
from lacuna.errors import SettingError
from lacuna.explanation.calibration import Calibration
from lacuna.explanation.confidence import Scored, check_calibration, score_translations
from lacuna.memory import SegmentMatches
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, Translation
from lacuna.translator import Translator
from lacuna.workers import Pool


def translate_texts(
    translator: Translator,
    texts: Iterable[str],
    *,
    lines: bool = False,
    evidence: bool = False,
    batch_size: int = 32,
    progress: Progress = SILENT,
    pool: Pool | None = None,
) -> Iterator[Paragraph]:
    """Translate paragraphs sentence by sentence, and yield them in order as they become ready.

    :param lines: Each line is one sentence.
    :param evidence: Also return the evidence behind every token.
    :param pool: As in :meth:`Translator.stream <lacuna.translator.Translator.stream>`.
    """

    def stream(some: Iterable[str]) -> Iterator[Translation]:
        return translator.stream(some, evidence=evidence, batch_size=batch_size, progress=progress, pool=pool)

    # A model that does not name its languages can still translate text: the rules of English are a good default.
    languages = translator.model.languages or Languages("en", "en")
    splitter = Splitter(languages, fitting(translator.model), lines)
    return translate_paragraphs(texts, splitter, _scored(translator, stream, None))


def translate_file(
    translator: Translator,
    path: str | Path,
    into: str | Path,
    *,
    calibration: Calibration | None = None,
    settings: DocumentSettings | None = None,
    tag: str | None = None,
    batch_size: int = 32,
    progress: Progress = SILENT,
    pool: Pool | None = None,
) -> DocumentReport:
    """Translate a file; its suffix says the format.

    :param into: The translated file, with the same suffix. It appears when it is complete.
    :param calibration: Gives the confidence.
    :param tag: Take exact matches only from pairs with this label.
    :param pool: As in :meth:`Translator.stream <lacuna.translator.Translator.stream>`.
    :raises DocumentError: The file is malformed or of an unknown format.
    :raises SettingError: The languages are not known, or confidence is needed and there is no calibration.
    """

    def stream(some: Iterable[str]) -> Iterator[Translation]:
        return translator.stream(some, batch_size=batch_size, progress=progress, pool=pool)

    check_review(translator, calibration, settings)
    languages = translator.model.languages
    if languages is None:
        raise SettingError("languages: the model does not say which it translates; name them when it is loaded")
    splitter = Splitter(languages, fitting(translator.model))
    matches = SegmentMatches(translator.memories, tag, fallback=translator.fallback)
    documents = DocumentTranslator(_scored(translator, stream, calibration), splitter, matches, settings)
    return documents.translate_file(Path(path), Path(into))


def check_review(translator: Translator, calibration: Calibration | None, settings: DocumentSettings | None) -> None:
    """Refuse a review by confidence without a calibration, and a calibration of other memories."""
    if calibration is not None:
        check_calibration(calibration, translator)
    elif settings is not None and settings.review_below is not None:
        raise SettingError(
            "review_below: needs a calibration, which gives the confidence; use `calibration` or a domain with one"
        )


def _scored(
    translator: Translator,
    stream: Callable[[Iterable[str]], Iterator[Translation]],
    calibration: Calibration | None,
) -> Callable[[Iterable[str]], Iterator[Scored]]:
    return lambda texts: score_translations(translator, stream(texts), calibration)
