"""Markdown: the text of paragraphs, headings, list items, quotes and table cells.

markdown-it-py finds the blocks and parses inline content; its inline rules are wrapped so that they also record where
each token is. A translation is written with as few escapes as possible: it is tried without, then with, and each try is
parsed again. What is written must give the same markup and the text of the translation, otherwise the source stays.

Code, HTML blocks, front matter, link definitions and formulas are not translated, nor are image descriptions, link
titles, and table rows with an escaped ``|``. Of the many extensions, only those named at ``_EXTENSION`` and
``_FOREIGN`` are known: their markup is kept.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Any, BinaryIO, NamedTuple

from markdown_it import MarkdownIt, rules_inline
from markdown_it.parser_inline import RuleFuncInlineType
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from lacuna.documents.base import DocumentSegment
from lacuna.documents.inline_markup import InlinePart, Kind, Span, cut, span_of, text_pieces
from lacuna.documents.plain_text import decode, detect_encoding, read_whole
from lacuna.records import Languages

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n(?:(?!\1[ \t]*\r?$).*\n)*+\1[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
# Paragraphs that are the markup of extensions: formulas, admonitions, containers, tabs, attributes, tables of contents.
_FOREIGN = re.compile(r"(?:\$\$|\\begin\{|!!! |\?\?\?\+? |:::|=== \"|\{:|\[TOC\]).*|.*\$\$|\\\[.*\\\]", re.DOTALL)
# Inline markup of extensions: formulas, templates, attributes, footnotes; at the start also task lists and alerts.
_EXTENSION = re.compile(
    r"\$\$[^$]+\$\$|\$(?![\s$])[^$]*(?<!\s)\$(?!\d)|\\\((?:[^\\]|\\[^()])*+\\\)|\{\{[^{}]*\}\}|\{[%#:][^{}]*\}"
    r"|\[\^[^\[\]\s]+\]:?|(?<!.)\[(?:[ xX]\](?= )|!\w+\]\n)",
    re.DOTALL,
)
_URL = re.compile(r"(?:https?|ftp)://[^\s<>\"'(){}\[\]]*[^\s<>\"'(){}\[\].,;:!?*_~]")
_CODE_AND_SPACE = re.compile("([\uf000-\uf8ff]) ")
_LINE_BREAK = re.compile(r" *\\?\n")
_WHITE_SPACE = re.compile(r"[ \t\r\n]+")
_SPACES = re.compile(r"[ \t]+")
_MARKUP = re.compile(r"[\\`*_<>\[\]~&$|{]")
_LINE_START = re.compile(r"\A\d{0,9}(?=[-#+=>*_~!?:|`<\[.)(\"'])")
_HEADING_END = re.compile(r"(?<![\\#])#+\Z")  # a heading may end with number signs that do not count


class MarkdownFormat:
    """CommonMark with tables and strikethrough, in UTF-8, or UTF-16 with a byte order mark."""

    name = "Markdown"
    suffixes = (".md", ".markdown", ".mdown")

    def parts(self, file: BinaryIO, name: str, languages: Languages) -> Iterator[bytes | DocumentSegment]:
        """Yield the text of every block as a segment; its line breaks are spaces."""
        content = read_whole(file, name)
        encoding, bom = detect_encoding(content)
        if bom:
            yield bom
        text = decode(content[len(bom) :], encoding, name)
        yield from cut(text, encoding, _spans(text))


# --- blocks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _InlineBlock:
    r"""Inline content and where it is.

    :param content: The content as markdown-it sees it: without prefixes, and with ``\n`` between its lines.
    :param starts: Where each of its lines is in the document.
    :param frame: A document with one such block, where the content is ``{}``.
    """

    content: str
    starts: list[int]
    frame: str

    def position(self, offset: int) -> int:
        """Return where a character of the content is in the document."""
        return self.starts[self.content.count("\n", 0, offset)] + offset - (self.content.rfind("\n", 0, offset) + 1)


def _spans(text: str) -> Iterator[Span]:
    front = _FRONT_MATTER.match(text)
    start = front.end() if front else 0
    lines = [(match.start(), match[0].rstrip("\r\n")) for match in _LINE.finditer(text, start)]
    env: dict[str, Any] = {"references": {}}
    for block in _blocks(_parser().parse(text[start:], env), lines):
        span = _block_span(text, block, env)
        if span:
            yield span


def _blocks(tokens: list[Token], lines: list[tuple[int, str]]) -> Iterator[_InlineBlock]:
    """Yield the content of all blocks, except for what is not in the document as it is in its token."""
    row: list[Token] = []
    for parent, token in pairwise(tokens):
        if parent.tag in ("th", "td") and token.type == "inline":
            row.append(token)
        elif token.type == "inline":
            yield from _paragraph(parent, token, lines)
        elif token.type == "tr_close" and row:
            yield from _cells([cell.content for cell in row], *lines[_first_line(row[0])])
            row = []


def _first_line(token: Token) -> int:
    return token.map[0] if token.map else 0


def _paragraph(parent: Token, token: Token, lines: list[tuple[int, str]]) -> Iterator[_InlineBlock]:
    first = _first_line(token)
    has_signs = parent.markup.startswith("#")
    starts: list[int] = []
    for number, content in enumerate(token.content.split("\n"), start=first):
        start, line = lines[number]
        # What precedes a heading has no letters, so if the heading has some, it cannot be found too early.
        position = line.find(content) if has_signs else len(line.rstrip(" \t")) - len(content.rstrip(" \t"))
        if position < 0 or not line.startswith(content, position):
            return
        starts.append(start + position)
    # Right after a link definition, what starts with a quote could become its title.
    frame = "[x]: /x\n{}" if first and lines[first - 1][1].strip() else "{}"
    if parent.type == "heading_open":
        frame = f"{parent.markup} {{}}" if has_signs else f"{frame}\n{parent.markup * 3}"
    yield _InlineBlock(token.content, starts, frame)


def _cells(contents: list[str], start: int, line: str) -> Iterator[_InlineBlock]:
    if "\\|" in line:
        return
    fields: list[tuple[int, str]] = []
    for part in line.split("|"):
        fields.append((start, part))
        start += len(part) + 1
    # Before the first | is the prefix of the block, such as "> ", or it and the first cell.
    is_first = bool(contents[0]) and fields[0][1].rstrip().endswith(contents[0])
    for content, (begin, part) in zip(contents, fields if is_first else fields[1:], strict=False):
        if content and (part.strip() == content or (begin == fields[0][0] and is_first)):
            yield _InlineBlock(content, [begin + part.rindex(content)], "|{}|\n|---|")


def _block_span(text: str, block: _InlineBlock, env: dict[str, Any]) -> Span | None:
    pieces = [] if _FOREIGN.fullmatch(block.content) else _read(block.content, env)
    inner = span_of(pieces, str)
    if not inner:
        return None
    start, end = block.position(inner.start), block.position(inner.end)
    source = text[start:end]
    before, after = block.content[: inner.start], block.content[inner.end :]
    left = [piece for piece in pieces if piece.start < inner.start]
    right = [piece for piece in pieces if piece.start >= inner.end]

    # Markup that spans lines has the prefix of the block on each.
    in_place = [
        replace(piece, text=text[block.position(piece.start) : block.position(piece.end)])
        if "\n" in piece.text
        else piece
        for piece in pieces
    ]
    signed = [piece if piece.kind is Kind.TEXT else replace(piece, text=_sign(piece)) for piece in pieces]

    def render(translation: str) -> str:
        """Write a translation in the first way that reads as itself, or else the source."""
        translation = _WHITE_SPACE.sub(" ", translation).strip(" ")
        # A line cannot start with a space; sentences before and after a line break are joined by one.
        translation = _CODE_AND_SPACE.sub(
            lambda match: match[1] if _LINE_BREAK.fullmatch(inner.render(match[1])) else match[0], translation
        )
        expected = _merge(_signs(left) + _write(signed, translation, _mark) + _signs(right))
        for escape in (str, _escape_ends, _escape, _escape_all):
            written = _write(pieces, translation, escape)
            if translation and _read_block(block.frame, before + written + after, env) == expected:
                return _write(in_place, translation, escape)
        return source

    return Span(start, end, inner.text, render)


def _write(pieces: list[InlinePart], translation: str, escape: Callable[[str], str]) -> str:
    span = span_of(pieces, escape)
    return span.render(translation) if span else ""


def _read_block(frame: str, content: str, env: dict[str, Any]) -> str:
    """Return the markup and marked text of a block that is written like this; empty if it is another block."""
    own = {"references": ChainMap({}, env["references"])}
    tokens = _parser().parse(frame.replace("{}", content), own)
    if _FOREIGN.fullmatch(content) or [token.type for token in tokens] != _shape(frame):
        return ""
    return _merge(_signs(_read(next(token.content for token in tokens if token.type == "inline"), own)))


@lru_cache
def _shape(frame: str) -> list[str]:
    return [token.type for token in _parser().parse(frame)]


def _mark(text: str) -> str:
    return f"\0{text}\1"


def _sign(piece: InlinePart) -> str:
    """Return a piece such that text, markup that opens, and markup that closes are told apart."""
    if _is_text(piece):
        return _mark(piece.text)
    return {Kind.OPEN: "\2", Kind.CLOSE: "\3"}.get(piece.kind, "") + piece.text


def _is_text(piece: InlinePart) -> bool:
    """Tell whether a piece is text to markdown-it; addresses are, and a translation may have one of its own."""
    return piece.kind is Kind.TEXT or piece.name == "url"


def _signs(pieces: list[InlinePart]) -> str:
    return "".join(map(_sign, pieces))


def _merge(marked: str) -> str:
    return _SPACES.sub(" ", marked.replace("\1\0", "").replace("\0\1", ""))


# --- inline content --------------------------------------------------------------------------------------------------


class _Event(NamedTuple):
    """What an inline rule found.

    :param token: The token of a delimiter, which gets its type when the end of the content is known.
    """

    kind: Kind
    start: int
    end: int
    text: str
    name: str = ""
    token: Token | None = None


class _InlineState(StateInline):
    """The state of the inline parser, with the events so far."""

    def __init__(self, content: str, env: dict[str, Any]) -> None:
        super().__init__(content, _parser(), env, [])
        self.events: list[_Event] = []


def _read(content: str, env: dict[str, Any]) -> list[InlinePart]:
    """Return the pieces of inline content; none if they do not agree with the tokens of markdown-it."""
    state = _InlineState(content, env)
    state.md.inline.tokenize(state)
    for rule in state.md.inline.ruler2.getRules(""):
        rule(state)
    pieces: list[InlinePart] = []
    position = 0
    for event in sorted(_resolved(state.events), key=attrgetter("start")):
        start = event.start
        if event.name == "br":  # the spaces before a line break belong to it
            start = position + len(content[position:start].rstrip(" "))
        pieces += _literal_pieces(content[position:start], position)
        pieces.append(InlinePart(event.kind, start, event.end, event.text or content[start : event.end], event.name))
        position = event.end
    pieces += _literal_pieces(content[position:], position)
    return pieces if _outline(pieces) == _token_outline(state.tokens) else []


def _resolved(events: list[_Event]) -> Iterator[_Event]:
    """Yield the events, with delimiters as what they turned out to be."""
    for event in events:
        token = event.token
        if token is None:
            yield event
        elif token.nesting:
            # The outer half of ** has a token of its own, which stays empty.
            first = event.start - (token.type == "strong_open")
            last = event.end + (token.type == "strong_close")
            kind = Kind.OPEN if token.nesting > 0 else Kind.CLOSE
            yield _Event(kind, first, last, token.markup, token.tag)


def _literal_pieces(raw: str, start: int) -> Iterator[InlinePart]:
    position = 0
    for url in _URL.finditer(raw):
        yield from text_pieces(raw[position : url.start()], start + position)
        yield InlinePart(Kind.WORD, start + url.start(), start + url.end(), url[0], "url")
        position = url.end()
    yield from text_pieces(raw[position:], start + position)


def _outline(pieces: list[InlinePart]) -> str:
    signs = {Kind.OPEN: "\1", Kind.CLOSE: "\2"}
    texts = (piece.text if _is_text(piece) else signs.get(piece.kind, "\3") for piece in pieces)
    return _SPACES.sub(" ", "".join(texts))


def _token_outline(tokens: list[Token]) -> str:
    texts: list[str] = []
    for token in tokens:
        if token.type in ("text", "text_special"):
            texts.append(token.content)
        elif token.info == "auto":  # an autolink is three tokens: its text in between is no text of the document
            texts[-1:] = ["\3"] if token.nesting < 0 else texts[-1:]
        else:
            texts.append(" " if token.type == "softbreak" else {1: "\1", -1: "\2"}.get(token.nesting, "\3"))
    return _SPACES.sub(" ", "".join(texts))


_RULES: dict[str, RuleFuncInlineType] = {
    "autolink": rules_inline.autolink,
    "backticks": rules_inline.backtick,
    "emphasis": rules_inline.emphasis.tokenize,
    "entity": rules_inline.entity,
    "escape": rules_inline.escape,
    "html_inline": rules_inline.html_inline,
    "image": rules_inline.image,
    "link": rules_inline.link,
    "newline": rules_inline.newline,
    "strikethrough": rules_inline.strikethrough.tokenize,
}


@lru_cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable(["inline", "text_join"])
    ruler = parser.inline.ruler
    ruler.before("escape", "extension", _recorded(_extension))
    for name, rule in _RULES.items():
        ruler.at(name, _recorded(rule))
    return parser


def _extension(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\{[":
        return False
    match = _EXTENSION.match(state.src, state.pos, state.posMax)
    if not match:
        return False
    if not silent:
        state.push("extension", "", 0)
    state.pos = match.end()
    return True


def _recorded(rule: RuleFuncInlineType) -> RuleFuncInlineType:
    """Wrap an inline rule so that it records what it found and where."""

    def record(state: StateInline, silent: bool) -> bool:
        start, tokens, delimiters = state.pos, len(state.tokens), len(state.delimiters)
        matched = rule(state, silent)
        if matched and not silent and isinstance(state, _InlineState):  # not the description of an image
            token = next((token for token in state.tokens[tokens:] if token.type != "text"), None)
            if token:
                state.events += _events(state, start, token)
            state.events += _delimiter_events(state, delimiters)
        return matched

    return record


def _events(state: StateInline, start: int, token: Token) -> list[_Event]:
    if token.type == "link_open" and token.info != "auto":
        label_end = state.md.helpers.parseLinkLabel(state, start, True)
        closing = state.src[label_end : state.pos]
        if closing in ("]", "][]"):  # the text is also the name of the link, and must stay that
            closing = f"][{_WHITE_SPACE.sub(' ', state.src[start + 1 : label_end])}]"
        return [
            _Event(Kind.OPEN, start, start + 1, "[", "a"),
            _Event(Kind.CLOSE, label_end, state.pos, closing, "a"),
        ]
    if token.type in ("text_special", "softbreak"):
        return [_Event(Kind.TEXT, start, state.pos, token.content or " ", token.tag)]
    is_word = token.type == "code_inline" or (token.type == "extension" and state.src[start] != "[")
    kind = Kind.WORD if is_word else Kind.ALONE
    return [_Event(kind, start, state.pos, "", token.tag)]


def _delimiter_events(state: StateInline, known: int) -> list[_Event]:
    """Return the delimiters of the run that was just read; each has its own token."""
    tokens = [state.tokens[delimiter.token] for delimiter in state.delimiters[known:]]
    end = state.pos
    events: list[_Event] = []
    for token in reversed(tokens):
        events.append(_Event(Kind.TEXT, end - len(token.content), end, token.content, token=token))
        end -= len(token.content)
    return events


# --- escapes ---------------------------------------------------------------------------------------------------------


def _escape_ends(text: str) -> str:
    return _HEADING_END.sub(r"\\\g<0>", _LINE_START.sub(r"\g<0>\\", text))


def _escape(text: str) -> str:
    return _escape_ends(_MARKUP.sub(r"\\\g<0>", text))


def _escape_all(text: str) -> str:
    """Also write the characters next to markup as references, because ``**`` depends on what is next to it."""
    if len(text) < 2:
        return "".join(f"&#{ord(letter)};" for letter in text)
    return f"&#{ord(text[0])};{_escape(text[1:-1])}&#{ord(text[-1])};"
