"""Inline markup of text formats, such as tags in HTML, as codes in a text.

A format works on decoded characters: it finds *spans* to translate, and :func:`cut` turns them into parts. Inline
markup is a list of *parts* in order, from which :func:`span_of` makes one text with codes. Knows no particular markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from lacuna.documents.base import DocumentSegment, Filled, InlineCodes
from lacuna.errors import DocumentError

WHITE_SPACE = " \t\n\f\r"  # what HTML and Markdown call white space; a no-break space is text

_WHITE_RUN = re.compile(f"[{WHITE_SPACE}]+")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a decoded document that is translated.

    :param start: Its first character.
    :param end: The character after its last.
    :param text: What to translate.
    :param render: Returns what to write for a translation.
    """

    start: int
    end: int
    text: str
    render: Callable[[str], str]


def cut(document: str, encoding: str, spans: Iterable[Span], line: int = 1) -> Iterator[bytes | DocumentSegment]:
    """Turn the spans of a document, in order, into parts; a translation equal to its source keeps the bytes.

    :param line: The number of the first line.
    """
    done = 0
    for span in spans:
        if span.start > done:
            yield document[done : span.start].encode(encoding)
        line += document.count("\n", done, span.start)
        yield _segment(span, document[span.start : span.end], encoding, line)
        line += document.count("\n", span.start, span.end)
        done = span.end
    if done < len(document):
        yield document[done:].encode(encoding)


def _segment(span: Span, source: str, encoding: str, line: int) -> DocumentSegment:
    raw = source.encode(encoding)

    def render(filled: Sequence[Filled]) -> bytes:
        text = filled[0].text
        # Only HTML may have an encoding that lacks characters, and it reads these references.
        return raw if text == span.text else span.render(text).encode(encoding, "xmlcharrefreplace")

    return DocumentSegment(raw, (span.text,), render, place=str(line))


class Kind(Enum):
    """What a piece of inline content is."""

    TEXT = auto()
    OPEN = auto()
    CLOSE = auto()
    ALONE = auto()
    WORD = auto()  # markup that stands alone and is a part of the sentence, such as program code


@dataclass(frozen=True, slots=True)
class InlinePart:
    """Text or markup in a run of inline content.

    :param start: Its first character in the document.
    :param end: The character after its last.
    :param text: The text as a reader sees it, or the markup to write.
    :param name: What the markup that opens and closes a pair has in common.
    """

    kind: Kind
    start: int
    end: int
    text: str
    name: str = ""


def text_pieces(raw: str, start: int = 0, unescape: Callable[[str], str] = str) -> list[InlinePart]:
    """Return the pieces of text without markup: white space, the text itself, white space.

    :param start: Where it starts in the document.
    :param unescape: Turns what is in the document into what a reader sees.
    """
    first = len(raw) - len(raw.lstrip(WHITE_SPACE))
    last = max(first, len(raw.rstrip(WHITE_SPACE)))
    core = unescape(raw[first:last])
    texts = ((0, first, " "), (first, last, core), (last, len(raw), " "))
    return [InlinePart(Kind.TEXT, start + left, start + right, text) for left, right, text in texts if left < right]


def span_of(pieces: Sequence[InlinePart], escape: Callable[[str], str]) -> Span | None:
    """Make a span of a run of inline content; None if there is nothing to translate, or more markup than codes.

    White space and markup at both ends stay outside, as long as no pair is torn apart.

    :param escape: Turns text between markup into what is written in the document.
    """
    partners = match_pairs(pieces)
    first, last = _ends(pieces, partners)
    codes = InlineCodes()
    texts: dict[int, str] = {}
    try:
        for number in range(first, last):
            if number not in texts:
                texts |= _coded(pieces, number, partners, codes)
    except DocumentError:  # too many codes
        return None
    if not any(letter.isalpha() for text in texts.values() for letter in text):
        return None
    text = "".join(texts[number] for number in range(first, last))
    return Span(pieces[first].start, pieces[last - 1].end, text, lambda filled: codes.restore(filled, escape))


def match_pairs(pieces: Sequence[InlinePart]) -> dict[int, int]:
    """Map the piece that opens each pair to the one that closes it; overlapping pairs are left out."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    waiting: dict[str, int] = {}  # how many of each name are open
    for number, piece in enumerate(pieces):
        if piece.kind is Kind.OPEN:
            opened.append(number)
            waiting[piece.name] = waiting.get(piece.name, 0) + 1
        elif piece.kind is Kind.CLOSE and waiting.get(piece.name):
            while pieces[opened[-1]].name != piece.name:
                waiting[pieces[opened.pop()].name] -= 1
            waiting[piece.name] -= 1
            partners[opened.pop()] = number
    return partners


def _ends(pieces: Sequence[InlinePart], partners: dict[int, int]) -> tuple[int, int]:
    """Return the pieces between which the content is, with the other half of every pair that starts or ends in it."""
    content = [
        number
        for number, piece in enumerate(pieces)
        if piece.kind is Kind.WORD or (piece.kind is Kind.TEXT and piece.text.strip())
    ]
    if not content:
        return 0, 0
    first, last = content[0], content[-1]
    left = min((opens for opens, closes in partners.items() if opens < first <= closes <= last), default=first)
    right = max((closes for opens, closes in partners.items() if first <= opens <= last < closes), default=last)
    return left, right + 1


def _coded(pieces: Sequence[InlinePart], number: int, partners: dict[int, int], codes: InlineCodes) -> dict[int, str]:
    piece = pieces[number]
    if piece.kind is Kind.TEXT:
        return {number: codes.protect(_WHITE_RUN.sub(" ", piece.text))}
    if number in partners:
        opening, closing = codes.pair(piece.text, pieces[partners[number]].text)
        return {number: opening, partners[number]: closing}
    return {number: codes.alone(piece.text)}
