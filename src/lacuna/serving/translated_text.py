"""A translated text of a request: one paragraph, or an HTML page with many. Knows nothing of HTTP and queues."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from lacuna.documents import Paragraph
from lacuna.documents.base import DocumentSegment, Filled
from lacuna.records import TranslatedTerm
from lacuna.serving.alternatives import Alternatives

_CODES = re.compile("[\ue000-\uf8ff]")  # private-use characters that stand for the tags of a page


class TranslatedText(NamedTuple):
    """A translated text.

    :param paragraph: Its sentences; those of all segments for HTML.
    :param terms: The terms of the glossary in it; in HTML, without places.
    :param without_glossary: The text without the glossary, if that differs; otherwise empty.
    """

    text: str
    paragraph: Paragraph
    flag: str
    terms: tuple[TranslatedTerm, ...] = ()
    without_glossary: str = ""

    @classmethod
    def of(cls, paragraph: Paragraph) -> TranslatedText:
        """Return the text of one paragraph."""
        return cls(paragraph.text, paragraph, paragraph.flag, paragraph.terms, paragraph.without_glossary)


def fill_page(text: str, parts: Iterable[bytes | DocumentSegment], translated: Iterator[Paragraph]) -> TranslatedText:
    """Put translations into a page of HTML; its tags stay.

    :param translated: Gives the translation of each text of each segment.
    """
    filled: list[tuple[bytes | DocumentSegment, list[Paragraph]]] = []
    for part in parts:
        new = [next(translated) for _ in part.texts] if isinstance(part, DocumentSegment) else []
        filled.append((part, new))
    paragraphs = [paragraph for _, new in filled for paragraph in new]
    page = _page((part, [paragraph.text for paragraph in new]) for part, new in filled)
    without = ""
    if any(paragraph.without_glossary for paragraph in paragraphs):
        without = _page(
            (part, [paragraph.without_glossary or paragraph.text for paragraph in new]) for part, new in filled
        )
    sentences = tuple(sentence for paragraph in paragraphs for sentence in paragraph.sentences)
    terms = tuple(_without_places(term) for paragraph in paragraphs for term in paragraph.terms)
    return TranslatedText(page, Paragraph(text, sentences), flag_of(paragraphs), terms, without)


def flag_of(paragraphs: Sequence[Paragraph]) -> str:
    """Return why a person should look at a translation; empty without reason."""
    return next((flag for paragraph in paragraphs if (flag := paragraph.flag)), "")


def other_texts(text: TranslatedText, alternatives: Alternatives, most: int) -> Alternatives:
    """Return what differs from the translation of a text.

    :param alternatives: Of its one sentence.
    """
    return alternatives._replace(
        texts=tuple(translation for translation in _with(text, alternatives.texts) if translation != text.text)[:most]
    )


def _with(text: TranslatedText, translations: Iterable[str]) -> Iterator[str]:
    """Yield a text with other translations of its one sentence."""
    for translation in translations:
        parts = (
            (translation, sentence.written.gap) if sentence.translation else sentence.written
            for sentence in text.paragraph.sentences
        )
        yield "".join(part for written in parts for part in written)


def _page(filled: Iterable[tuple[bytes | DocumentSegment, Sequence[str]]]) -> str:
    """Return a page.

    :param filled: Its parts, each with its new texts.
    """
    return b"".join(
        part
        if isinstance(part, bytes)
        else part.raw
        if list(part.texts) == texts
        else part.render([Filled(text) for text in texts])
        for part, texts in filled
    ).decode()


def _without_places(term: TranslatedTerm) -> TranslatedTerm:
    """Return a term without its places, which would be those in a segment and not in the page."""
    return replace(term, start=-1, end=-1, target=_CODES.sub("", term.target), target_start=-1)
