"""Inline codes of XML formats: the text of an element, with the elements inside it as private-use characters.

Elements that open and close a span belong together and can be checked for nesting; those that overlap with others stand
alone. A translation that exists gets the codes of its source. Knows no format: which elements are inline is for it to
say. Elements that it does not name stand alone, with what is inside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto

from lacuna.documents.base import INLINE_CODE, InlineCodes
from lacuna.errors import DocumentError
from lacuna.formats.inline_elements import InlineElements
from lacuna.formats.xml_units import Node, XmlPart, escape

# What XML counts as white space; a no-break space, for one, is text.
BLANK = " \t\r\n"
# The attributes that tell which code an inline element is, in XLIFF 2, XLIFF 1 and TMX.
_LINKS = ("startRef", "rid", "id", "i", "x")


class _CodeKind(Enum):
    TEXT = auto()
    SPAN = auto()  # the start tag of an element with text inside
    SPAN_END = auto()
    OPENING = auto()  # an element that stands for the start of a span, such as <bpt>
    CLOSING = auto()
    ALONE = auto()


@dataclass(frozen=True, slots=True)
class _CodeToken:
    """Text, or markup that becomes one code.

    :param markup: The text or markup.
    :param link: What the element has in common with the one that closes it.
    """

    kind: _CodeKind
    markup: str
    link: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Coded:
    """The text of an element with inline codes, without the white space around it.

    :param codes: Its codes.
    :param before: White space before it.
    :param after: White space after it.
    :param letters: The characters of each code, to recognize it in a translation.
    """

    text: str
    codes: InlineCodes
    before: str
    after: str
    letters: dict[_CodeToken, list[str]]

    @property
    def has_words(self) -> bool:
        """Whether there is anything besides codes and white space."""
        return bool(INLINE_CODE.sub("", self.text).strip(BLANK))

    def markup(self, text: str) -> str:
        """Return the markup for a translation."""
        return self.codes.restore(self.before + text + self.after, escape)


def read_coded(inline: InlineElements, piece: XmlPart, node: Node) -> Coded:
    """Return the text of an element.

    :raises DocumentError: It has too many codes.
    """
    tokens = list(_tokens(inline, piece, node))
    partners = _partners(tokens)
    codes = InlineCodes()
    texts: dict[int, str] = {}
    letters: dict[_CodeToken, list[str]] = {}
    for number, token in enumerate(tokens):
        if token.kind is _CodeKind.TEXT:
            texts[number] = token.markup
            continue
        with _located(piece):
            if number in partners:
                last = partners[number]
                texts[number], texts[last] = codes.pair(token.markup, tokens[last].markup)
            elif number not in texts:
                texts[number] = codes.alone(token.markup)
        letters.setdefault(_identity(token), []).append(texts[number])
    text = "".join(texts[number] for number in range(len(tokens)))
    inner = text.strip(BLANK)
    start = text.find(inner)
    return Coded(inner, codes, text[:start], text[start + len(inner) :], letters)


def read_translation(inline: InlineElements, piece: XmlPart, node: Node, source: Coded) -> str:
    """Return the text of a translation, with the codes of its source.

    :raises DocumentError: It has too many codes that the source does not have.
    """
    parts = []
    letters = {token: iter(codes) for token, codes in source.letters.items()}
    for token in _tokens(inline, piece, node):
        if token.kind is _CodeKind.TEXT:
            parts.append(token.markup)
            continue
        with _located(piece):
            parts.append(next(letters.get(_identity(token), iter(())), None) or source.codes.alone(token.markup))
    return "".join(parts).strip(BLANK)


def _tokens(inline: InlineElements, piece: XmlPart, node: Node) -> Iterator[_CodeToken]:
    around, left = [node], [iter(node.items)]
    while left:
        item = next(left[-1], None)
        if item is None:
            left.pop()
            closed = around.pop()
            if left:
                yield _CodeToken(_CodeKind.SPAN_END, piece.read(closed.content_end, closed.end), _link(closed))
        elif isinstance(item, str):
            # Private-use characters of the document itself, such as icons, are codes as well.
            for text in filter(None, INLINE_CODE.split(item)):
                yield _CodeToken(_CodeKind.ALONE if INLINE_CODE.match(text) else _CodeKind.TEXT, text)
        elif _is_span(inline, item):
            yield _CodeToken(_CodeKind.SPAN, piece.read(item.start, item.content), _link(item))
            around.append(item)
            left.append(iter(item.items))
        else:
            yield _code(inline, piece, item)


def _is_span(inline: InlineElements, node: Node) -> bool:
    is_protected = node.attributes.get("mtype") == "protected" or node.attributes.get("translate") == "no"
    return node.name in inline.spans and bool(node.items) and not is_protected


def _code(inline: InlineElements, piece: XmlPart, node: Node) -> _CodeToken:
    markup = piece.read(node.start, node.end)
    name, link = _link(node)
    if name in inline.pairs:
        return _CodeToken(_CodeKind.OPENING, markup, (inline.pairs[name], link))
    return _CodeToken(_CodeKind.CLOSING if name in inline.pairs.values() else _CodeKind.ALONE, markup, (name, link))


def _link(node: Node) -> tuple[str, str]:
    return node.name, next((node.attributes[name] for name in _LINKS if name in node.attributes), "")


def _identity(token: _CodeToken) -> _CodeToken:
    """Return what the same code has in common in source and target: its link, or the markup if it has none."""
    return _CodeToken(token.kind, "", token.link) if token.link[1] else token


def _partners(tokens: Sequence[_CodeToken]) -> dict[int, int]:
    """Map each token that opens a span to the one that closes it, for spans that are well nested.

    Elements such as ``<bpt>`` may overlap with others. Those stand alone, so that the rest can be checked for nesting.
    """
    partners: dict[int, int] = {}
    spans: list[tuple[int, dict[tuple[str, str], int]]] = [(0, {})]
    for number, token in enumerate(tokens):
        opened = spans[-1][1]
        if token.kind is _CodeKind.SPAN:
            spans.append((number, {}))
        elif token.kind is _CodeKind.SPAN_END:
            partners[spans.pop()[0]] = number
        elif token.kind is _CodeKind.OPENING:
            opened.pop(token.link, None)  # or else the new one would not be the last
            opened[token.link] = number
        elif token.kind is _CodeKind.CLOSING and token.link in opened:
            partners[opened[token.link]] = number
            while opened.popitem()[0] != token.link:
                pass  # what was opened later overlaps
    return partners


@contextmanager
def _located(piece: XmlPart) -> Iterator[None]:
    try:
        yield
    except DocumentError as error:
        raise DocumentError(f"{piece.where}: {error}") from error
