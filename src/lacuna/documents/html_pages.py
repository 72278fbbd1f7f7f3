"""HTML pages and snippets: text between block boundaries, and a few attributes.

Tags, comments and raw text are found as the HTML standard tokenizes them, in one pass, with exact positions. Python's
own ``html.parser`` takes quadratic time for ``<a<a<a...`` and gives up at some broken character references. Nothing
is nested here: a boundary ends a segment, whatever it opens or closes, so depth does not matter.

Attributes of inline tags inside a segment are not translated, nor is the content of elements for code, preformatted
text, drawings, formulas and forms' text areas. Knows no ``lang`` attribute and no end tags that are left out: an
element marked ``translate="no"`` without end tag reaches to the end of the page.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from lacuna.documents.base import DocumentSegment
from lacuna.documents.inline_markup import InlinePart, Kind, Span, cut, span_of, text_pieces
from lacuna.documents.plain_text import decode, detect_encoding, read_whole
from lacuna.errors import DocumentError
from lacuna.records import Languages


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_INLINE = _names(
    "a abbr acronym b bdi bdo big br cite data del dfn em font i img input ins label mark nobr q ruby s small span "
    "strike strong sub sup time tt u wbr"
)
_VOID = _names("area base br col embed hr img input link meta source track wbr")
# Elements that are one code with all their content: words of the sentence, and others.
_WORDS = _names("code kbd math samp var")
_OPAQUE_INLINE = _WORDS | _names("audio canvas object rp rt script style svg video")
_OPAQUE = _OPAQUE_INLINE | _names("iframe listing noembed noframes plaintext pre textarea xmp")
# Elements whose content has no tags; only the end tag of the same name ends them.
_RAW = _names("iframe noembed noframes script style textarea title xmp")
_FOREIGN = _names("math svg")  # in HTML, self-closing tags count only for these
_MAX_PIECES = 2_000  # a run of more is cut, because there are not many more codes

_ATTRIBUTES = _names("alt aria-label placeholder title")
_META = _names("description keywords og:description og:title twitter:description twitter:title")
_BUTTONS = _names("button reset submit")

_MARKUP = re.compile(r"<(?:(?P<tag>/?[A-Za-z][^\t\n\f\r />]*+)|(?P<other>[!?]|/(?=.)))", re.DOTALL)
_COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)", re.DOTALL)
_ATTRIBUTE = re.compile(
    r"""[\t\n\f\r /]*+
    (?: (?P<end>>)
      | (?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*+)
        (?: [\t\n\f\r ]*+ = [\t\n\f\r ]*+
            (?: "(?P<double>[^"]*+)" | '(?P<single>[^']*+)' | (?P<bare>[^\t\n\f\r >"'][^\t\n\f\r >]*+) | (?=>)
              | (?P<unclosed>["']) ) )?+ )""",
    re.VERBOSE,
)
_REFERENCE = re.compile(r"&(?:\#[0-9]++|\#[xX][0-9a-fA-F]++|[A-Za-z][A-Za-z0-9]{1,31}+);?")
_CLOSED_REFERENCE = re.compile(_REFERENCE.pattern.removesuffix("?"))
_MAX_REFERENCE = 4_000  # Python refuses to read numbers that are much longer
_TEMPLATE = re.compile(r"\{\{[^{}]*+\}\}|\{[%#][^{}]*+\}")  # {{ x }}, {% if %} and {# comment #}

_XML_CHARSET = re.compile(rb"""\A\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)""")
_META_CHARSET = re.compile(rb"""<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
# The encodings of pages that keep no state between characters; by the standard, some names mean a larger one.
_ENCODINGS = re.compile(r"utf-8|iso8859-\d+|cp125\d|cp8\d\d|cp932|cp949|koi8-\w|mac-\w+|tis-620|big5|euc_jp|gb18030")
_LARGER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-16": "utf-8",
    "utf-16-be": "utf-8",
    "utf-16-le": "utf-8",
}


class HtmlFormat:
    """HTML and XHTML, in the encoding that the page declares."""

    name = "HTML"
    suffixes = (".html", ".htm", ".xhtml")

    def parts(self, file: BinaryIO, name: str, languages: Languages) -> Iterator[bytes | DocumentSegment]:
        """Yield the text of blocks, and the attributes that are read to people, as segments."""
        content = read_whole(file, name)
        encoding, bom = detect_encoding(content)
        if bom:
            yield bom
        else:
            encoding = _declared_encoding(content, name)
        text = decode(content[len(bom) :], encoding, name)
        if bom + text.encode(encoding) != content:
            raise DocumentError(
                f"{name}: characters that {encoding.upper()} can write in several ways would change; "
                f"convert the page, and its charset, with: iconv -f {encoding.upper()} -t UTF-8"
            )
        yield from cut(text, encoding, _spans(text))


def html_fragment_parts(text: str) -> Iterator[bytes | DocumentSegment]:
    """Cut a snippet of HTML into parts, in UTF-8."""
    return cut(text, "utf-8", _spans(text))


def _declared_encoding(content: bytes, name: str) -> str:
    start = content[:4096]
    declaration = _XML_CHARSET.search(start) or _META_CHARSET.search(start)
    if not declaration:
        # Browsers do not take a whole page for UTF-8 unless it says so; references are safe.
        return "ascii" if content.isascii() and b"<html" in start.lower() else "utf-8"
    charset = declaration[1].decode("ascii", "replace")
    try:
        encoding = codecs.lookup(charset).name
    except LookupError:
        encoding = ""
    encoding = _LARGER.get(encoding, encoding)
    if not _ENCODINGS.fullmatch(encoding):
        raise DocumentError(
            f"{name}: charset {charset!r} is unknown or not allowed; convert the page, and its charset, to UTF-8 "
            "with: iconv -t UTF-8"
        )
    return encoding


# --- tokens ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _HtmlToken:
    """Text, a tag, or markup of another kind.

    :param name: The name of a tag, in lower case; empty for text and other markup.
    :param attributes: Where the value of each attribute is, with its quotes.
    :param is_empty: Whether a tag is a whole element.
    """

    kind: Kind
    start: int
    end: int
    name: str = ""
    attributes: dict[str, tuple[int, int]] = field(default_factory=dict)
    is_empty: bool = False


def _tokens(text: str) -> Iterator[_HtmlToken]:
    """Yield all text and markup in order, without gaps."""
    is_xml = text.startswith("<?xml")
    position = 0
    while markup := _MARKUP.search(text, position):
        if markup.start() > position:
            yield _HtmlToken(Kind.TEXT, position, markup.start())
        token = _tag(text, markup, is_xml) if markup["tag"] else _other(text, markup)
        yield token
        position = token.end
        if token.kind is Kind.OPEN and token.name in _RAW and not token.is_empty:
            ending = re.compile(rf"</{token.name}(?=[\t\n\f\r />])", re.IGNORECASE).search(text, position)
            end = ending.start() if ending else len(text)
            if end > position:
                yield _HtmlToken(Kind.TEXT if token.name == "title" else Kind.ALONE, position, end)
            position = end
    if position < len(text):
        yield _HtmlToken(Kind.TEXT, position, len(text))


def _tag(text: str, markup: re.Match[str], is_xml: bool) -> _HtmlToken:
    name = markup["tag"].lower().lstrip("/")
    attributes: dict[str, tuple[int, int]] = {}
    position = markup.end()
    while match := _ATTRIBUTE.match(text, position):
        if match["unclosed"]:
            break
        position = match.end()
        if match["end"]:
            kind = Kind.CLOSE if markup["tag"][0] == "/" else Kind.OPEN
            is_empty = name in _VOID or (text[position - 2] == "/" and (is_xml or name in _FOREIGN))
            return _HtmlToken(kind, markup.start(), position, name, attributes, is_empty)
        group = next((group for group in ("double", "single", "bare") if match[group] is not None), None)
        if group:
            quote = group != "bare"
            attributes.setdefault(match["name"].lower(), (match.start(group) - quote, match.end(group) + quote))
    # A tag that the file ends in is dropped, says the standard.
    return _HtmlToken(Kind.ALONE, markup.start(), len(text))


def _other(text: str, markup: re.Match[str]) -> _HtmlToken:
    """Return a comment, a declaration, or what browsers take for a comment."""
    if text.startswith("<!--", markup.start()):
        comment = _COMMENT.match(text, markup.start())
        end = comment.end() if comment else len(text)
    else:
        end = text.find(">", markup.end()) + 1 or len(text)
    return _HtmlToken(Kind.ALONE, markup.start(), end)


# --- spans -----------------------------------------------------------------------------------------------------------


def _spans(text: str) -> Iterator[Span]:
    """Yield all spans in order: runs of inline content, and the attributes of tags outside of them."""
    run = _Run(text)
    for token in _merge_opaque(text, _tokens(text)):
        if run.add(token):
            yield from run.flush()
    yield from run.flush()


def _merge_opaque(text: str, tokens: Iterator[_HtmlToken]) -> Iterator[_HtmlToken]:
    """Replace each element that is not translated by one token: a word, other markup, or a boundary."""
    for token in tokens:
        marked = _is_marked(text, token)
        if not marked and (token.kind is not Kind.OPEN or token.name not in _OPAQUE):
            yield token
            continue
        is_word = token.name in (_WORDS | _INLINE if marked else _WORDS)
        name = "" if is_word or token.name in _OPAQUE_INLINE else token.name
        end = token.end if token.is_empty else _end_of_element(tokens, token.name)
        # An element without end tag is at the end of the page, and no word: nothing may be written after it.
        kind = Kind.WORD if is_word and end else Kind.ALONE
        yield _HtmlToken(kind, token.start, end or len(text), name, {} if marked else token.attributes)


def _is_marked(text: str, token: _HtmlToken) -> bool:
    """Tell whether a tag says that its element is not translated."""
    if token.kind is not Kind.OPEN or not token.attributes:
        return False
    is_no = _value(text, token, "translate").lower() == "no"
    return is_no or "notranslate" in _value(text, token, "class").split()


def _end_of_element(tokens: Iterator[_HtmlToken], name: str) -> int | None:
    depth = 1
    for token in tokens:
        if token.name == name and not token.is_empty:
            depth += 1 if token.kind is Kind.OPEN else -1
        if depth == 0:
            return token.end
    return None


class _Run:
    """The tokens since the last boundary.

    :param text: The page.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces: list[InlinePart] = []
        self._tags: list[_HtmlToken] = []

    def add(self, token: _HtmlToken) -> bool:
        """Add a token; return whether the run ends with it."""
        if token.kind is Kind.TEXT:
            self._add_text(token)
            return False
        if token.attributes:
            self._tags.append(token)
        is_second_break = token.name == "br" and self._ends_with_break()
        self._add(Kind.ALONE if token.is_empty else token.kind, token.start, token.end, token.name)
        is_boundary = bool(token.name) and token.name not in _INLINE
        return is_boundary or is_second_break or len(self._pieces) > _MAX_PIECES

    def flush(self) -> Iterator[Span]:
        """Yield the span of the run, between the attributes of the tags before and after it."""
        span = span_of(self._pieces, _escape_text)
        for tag in self._tags:
            if span and tag.start >= span.end:
                yield span
                span = None
            if span is None or tag.start < span.start:
                yield from _attribute_spans(self._text, tag)
        if span:
            yield span
        self._pieces, self._tags = [], []

    def _add(self, kind: Kind, start: int, end: int, name: str = "") -> None:
        self._pieces.append(InlinePart(kind, start, end, self._text[start:end], name))

    def _add_text(self, token: _HtmlToken) -> None:
        position = token.start
        for match in _TEMPLATE.finditer(self._text, token.start, token.end):
            self._pieces += text_pieces(self._text[position : match.start()], position, _unescape)
            self._add(Kind.WORD, *match.span())
            position = match.end()
        self._pieces += text_pieces(self._text[position : token.end], position, _unescape)

    def _ends_with_break(self) -> bool:
        last = next((piece for piece in reversed(self._pieces) if piece.text != " "), None)
        return last is not None and last.name == "br"


def _attribute_spans(text: str, tag: _HtmlToken) -> Iterator[Span]:
    for name, (start, end) in sorted(tag.attributes.items(), key=lambda item: item[1]):
        if not _is_translated(text, tag, name):
            continue
        is_quoted = text[start] in "\"'"
        if is_quoted:
            start, end = start + 1, end - 1
        span = span_of(text_pieces(text[start:end], start, _unescape_attribute), html.escape)
        if span:
            yield span if is_quoted else _quoted(span)


def _quoted(span: Span) -> Span:
    """Return the span of a bare value, whose translation may need the quotes that it lacks."""
    return Span(span.start, span.end, span.text, lambda filled: f'"{span.render(filled)}"')


def _is_translated(text: str, tag: _HtmlToken, name: str) -> bool:
    if tag.kind is Kind.CLOSE:
        return False
    if name == "content":
        return tag.name == "meta" and bool({_value(text, tag, key).lower() for key in ("name", "property")} & _META)
    if name == "value":
        return tag.name == "input" and _value(text, tag, "type").lower() in _BUTTONS
    return name in _ATTRIBUTES


def _value(text: str, token: _HtmlToken, name: str) -> str:
    return text[slice(*token.attributes.get(name, (0, 0)))].strip("\"' ")


# --- characters ------------------------------------------------------------------------------------------------------


def _unescape(text: str) -> str:
    return _REFERENCE.sub(_character, text)


def _unescape_attribute(text: str) -> str:
    # In attributes, &copy=1 without semicolon is part of an address.
    return _CLOSED_REFERENCE.sub(_character, text)


def _character(reference: re.Match[str]) -> str:
    return html.unescape(reference[0]) if len(reference[0]) < _MAX_REFERENCE else "\ufffd"


def _escape_text(text: str) -> str:
    return html.escape(text, quote=False)
