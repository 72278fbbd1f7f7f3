"""Translate text and files with a translator: the functions that most callers need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from lacuna.documents.paragraphs import Paragraph, Splitter, checking, fitting, translate_paragraphs
from lacuna.documents.translation import DocumentReport, DocumentSettings, DocumentTranslator
from lacuna.errors import SettingError
from lacuna.memory import SegmentMatches
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages
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
    # A model that does not name its languages can still translate text: the rules of English are a good default.
    languages = translator.model.languages or Languages("en", "en")
    splitter = Splitter(languages, fitting(translator.model), lines)
    translate = partial(
        translator.stream_groups, evidence=evidence, batch_size=batch_size, progress=progress, pool=pool
    )
    for [paragraph] in translate_paragraphs(([text] for text in texts), splitter, translate):
        yield paragraph


def translate_file(
    translator: Translator,
    path: str | Path,
    into: str | Path,
    *,
    settings: DocumentSettings | None = None,
    tag: str | None = None,
    batch_size: int = 32,
    progress: Progress = SILENT,
    pool: Pool | None = None,
) -> DocumentReport:
    """Translate a file; its suffix says the format.

    :param into: The translated file, with the same suffix. It appears when it is complete.
    :param tag: Take exact matches only from pairs with this label.
    :param pool: As in :meth:`Translator.stream <lacuna.translator.Translator.stream>`.
    :raises DocumentError: The file is malformed or of an unknown format.
    :raises SettingError: The languages are not known, or confidence is needed and there is no calibration.
    """
    check_review(translator, settings)
    languages = translator.model.languages
    if languages is None:
        raise SettingError("languages: the model does not say which it translates; name them when it is loaded")
    splitter = Splitter(languages, fitting(translator.model))
    matches = SegmentMatches(translator.memories, tag, fallback=translator.system.fallback)
    translate = partial(translator.stream_groups, confidence=True, batch_size=batch_size, progress=progress, pool=pool)
    check = checking(translator.system.glossary, languages, translator.memories)
    documents = DocumentTranslator(translate, splitter, matches, settings, check=check)
    return documents.translate_file(Path(path), Path(into))


def check_review(translator: Translator, settings: DocumentSettings | None) -> None:
    """Refuse a review by confidence without a calibration."""
    if translator.system.calibration is None and settings is not None and settings.review_below is not None:
        raise SettingError(
            "review_below: needs a calibration, which gives the confidence; use `calibration` or a domain with one"
        )
