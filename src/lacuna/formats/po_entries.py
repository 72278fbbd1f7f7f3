r"""PO: gettext catalogs and templates, entry by entry, each with its bytes.

An entry can be written with another translation and other comments; its other lines stay as they are. The header must
be the first message, as all gettext tools write it, because it names the charset of what follows. Knows one keyword per
line, the layout of all tools, and neither ``domain`` lines nor escapes of bytes that are not ASCII (``\303\274``).
Obsolete messages are not parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import BinaryIO

from lacuna.errors import DocumentError, FormatError
from lacuna.formats.input_files import MAX_LINE_BYTES, MAX_PART_BYTES, check_length, decode_line
from lacuna.formats.languages import base_language

SPACE = b" \t\r\n\f\v"

_BOM = b"\xef\xbb\xbf"
_TEXT_SPACE = SPACE.decode()
_LINE_COST = 64  # bytes of memory that a line takes beyond its own, so that many short lines are bounded, too
_REMEDY = "check that the file is a PO catalog"

_LINE = re.compile(r'(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d\])?)[ \t]*)?"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_KEYS = re.compile(r"(msgctxt )?msgid (msgstr |msgid_plural msgstr\[0\] (msgstr\[\d\] )*)")
_HEADER = re.compile(rb'^[ \t]*msgid[ \t]*""\s*msgstr[ \t]*"', re.MULTILINE)
_CHARSET = re.compile(rb"charset=\s*([^\s\"\\;]+)")
# Some headers say "German" or keep the words of the template; only a code can be compared.
_LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(?:[-_@].*)?", re.IGNORECASE)

_ESCAPES = {"\\": "\\", '"': '"', "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(r"\\((?P<octal>[0-7]{1,3})|(?P<hex>x[0-9A-Fa-f]{1,2})|.)")
_TO_ESCAPE = str.maketrans({character: f"\\{letter}" for letter, character in _ESCAPES.items()})


@dataclass(frozen=True, slots=True)
class Message:
    """A finished message of a catalog, PO or MO: neither fuzzy nor obsolete.

    :param context: Its ``msgctxt``, or an empty string.
    :param ids: ``msgid``, and ``msgid_plural`` if there is one.
    :param texts: The translation, or its plural forms in their order; empty strings where untranslated.
    :param comment: Extracted comments (``#.``), one per line.
    """

    context: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    comment: str = ""

    @property
    def place(self) -> str:
        """The key under which gettext finds the message, context and msgid, on one line."""
        name = f"{self.context}|{self.ids[0]}" if self.context else self.ids[0]
        return name.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


@dataclass(frozen=True, slots=True)
class Catalog:
    """The finished messages of a catalog, in the order of the file; those of a PO file are read as they are asked for.

    :param header: The fields of the header, such as ``Language``.
    """

    header: dict[str, str]
    messages: Iterable[Message]


@dataclass(frozen=True, slots=True)
class PoEntry:
    """A message with its comments, and the bytes of both.

    :param name: The name of the file, for errors.
    :param line: The line of the first keyword.
    :param raw: All its bytes.
    :param head: Comments, and blank lines among them.
    :param body: The lines from the first keyword up to ``msgstr``.
    :param strings: What each keyword holds, in the order of the file.
    """

    name: str
    line: int
    charset: str
    raw: bytes
    head: list[bytes]
    body: list[bytes]
    strings: dict[str, str]

    @property
    def is_header(self) -> bool:
        """Whether this is the header, not a message."""
        return not self.strings["msgid"] and "msgctxt" not in self.strings and "msgstr" in self.strings

    @property
    def is_fuzzy(self) -> bool:
        """Whether its translation is not finished."""
        return any(b"fuzzy" in flags_of(line) for line in self.head)

    @property
    def line_end(self) -> bytes:
        """How its lines end."""
        return b"\r\n" if self.body[0].endswith(b"\r\n") else b"\n"

    @property
    def message(self) -> Message:
        """What it translates."""
        strings = self.strings
        ids = tuple(strings[key] for key in ("msgid", "msgid_plural") if key in strings)
        texts = tuple(strings[key] for key in sorted(strings) if key.startswith("msgstr"))
        extracted = (line.strip(SPACE)[2:].strip(SPACE) for line in self.head if line.lstrip(SPACE).startswith(b"#."))
        comment = b"\n".join(filter(None, extracted)).decode(self.charset)
        return Message(strings.get("msgctxt", ""), ids, texts, comment)

    def encode(self, line: str) -> bytes:
        """Return a line in the charset of the file.

        :raises DocumentError: The charset lacks a character.
        """
        try:
            return line.encode(self.charset) + self.line_end
        except UnicodeEncodeError as error:
            raise DocumentError(
                f"{self.name}:{self.line}: the translation has {line[error.start]!r}, which {self.charset.upper()} "
                "does not have; convert the file with: msgconv -t UTF-8"
            ) from error

    def write(self, head: list[bytes], translations: dict[str, str]) -> bytes:
        """Return the entry with other comments and translations, ending in a line end only if it did before.

        :param translations: What ``msgstr``, or each of ``msgstr[0]``, ``msgstr[1]`` ..., holds.
        """
        lines = [self.encode(line) for key, text in translations.items() for line in quote(key, text)]
        written = b"".join([*head, *self.body, *lines])
        return written if self.raw.endswith(b"\n") else written.removesuffix(self.line_end)


def read_po(file: BinaryIO, name: str) -> Catalog:
    """Read the finished messages of a PO file.

    :param name: The name of the file, for errors.
    :raises FormatError: The file is malformed; the error names the line.
    """
    entries = (part for part in read_entries(file, name) if isinstance(part, PoEntry))
    first = next(entries, None)
    header = header_fields(first.strings["msgstr"]) if first is not None and first.is_header else {}
    every = chain([first] if first is not None else [], entries)
    return Catalog(header, (entry.message for entry in every if entry.strings["msgid"] and not entry.is_fuzzy))


def read_entries(file: BinaryIO, name: str) -> Iterator[bytes | PoEntry]:
    """Cut a PO file into entries and the bytes between them, in order; the concatenation of all bytes is the file.

    :param name: The name of the file, for errors.
    :raises FormatError: The file is malformed; the error names the line.
    """
    charset = ""
    for block in _blocks(file, name):
        if isinstance(block, bytes):
            yield block
            continue
        if not charset:
            raw = b"".join(block.lines)
            charset = check_charset(raw if _HEADER.search(raw) else b"", f"{name}:{block.first}")
        yield _parse(block, name, charset)


def malformed(name: str, line: int, what: str) -> FormatError:
    """Return the error for a PO file that is not well-formed."""
    return FormatError(f"{name}:{line}: malformed PO ({what}); check the file with: msgfmt --check")


def quote(key: str, text: str) -> Iterator[str]:
    """Yield the lines of a string as gettext writes them: one line, or one for each line of the text."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    yield f'{key} "{text.translate(_TO_ESCAPE)}"' if len(lines) < 2 else f'{key} ""'
    if len(lines) > 1:
        yield from (f'"{line.translate(_TO_ESCAPE)}"' for line in lines)


def flags_of(line: bytes) -> list[bytes]:
    """Return the flags of a comment such as ``#, fuzzy, c-format``; none if it is another kind of comment."""
    line = line.strip(SPACE)
    return [flag.strip() for flag in line[2:].split(b",") if flag.strip()] if line.startswith(b"#,") else []


# --- the header ------------------------------------------------------------------------------------------------------


def header_fields(text: str) -> dict[str, str]:
    """Return the fields of a header, which is the translation of the empty message."""
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.split("\n"))}


def header_language(fields: dict[str, str], key: str) -> str:
    """Return the language that a field names, without region; empty if there is none, or no code of a language."""
    value = fields.get(key, "")
    return base_language(value) if _LANGUAGE_CODE.fullmatch(value) else ""


def find_charset(header: bytes) -> str | None:
    """Return the charset that a header names; None without, or if it has the placeholder of a template."""
    match = _CHARSET.search(header)
    charset = match[1].decode("ascii", "replace") if match else None
    return None if charset == "CHARSET" else charset


def check_charset(header: bytes, where: str) -> str:
    """Return the charset that a header names, or else UTF-8, after a check that it can be used.

    :param where: The file, for the error.
    """
    charset = find_charset(header)
    if charset is None:
        return "utf-8"
    probe = 'msgid "\\n"\n'
    try:
        fits = probe.encode(charset) == probe.encode("ascii")
    except (LookupError, ValueError):
        fits = False
    if not fits:
        raise FormatError(
            f"{where}: the header names the charset {charset[:40]!r}, which is unknown or not a superset "
            "of ASCII; write the charset of the file, such as UTF-8"
        )
    return charset


# --- lines -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _EntryLines:
    """The lines of one entry, and the number of the first."""

    first: int
    lines: list[bytes]


def _blocks(file: BinaryIO, name: str) -> Iterator[bytes | _EntryLines]:
    """Group lines into entries; blank lines between entries, obsolete messages and a byte order mark are bytes."""
    block = _EntryLines(1, [])
    size, finished = 0, False
    for number, raw in _lines(file, name):
        if number == 1 and raw.startswith(_BOM):
            yield _BOM
            raw = raw.removeprefix(_BOM)
        line = raw.strip(SPACE)
        obsolete = line.startswith(b"#~")
        if obsolete or (finished and line and not line.startswith((b'"', b"msgstr"))):
            yield from _finish(block)
            block, size, finished = _EntryLines(number, []), 0, False
        if obsolete or not (line or block.lines):
            yield raw
            block = _EntryLines(number + 1, [])
            continue
        block.lines.append(raw)
        finished = finished or line.startswith(b"msgstr")
        size += len(raw) + _LINE_COST
        if size > MAX_PART_BYTES:
            raise FormatError(f"{name}:{block.first}: no end of the message within {MAX_PART_BYTES:,} bytes; {_REMEDY}")
    yield from _finish(block)


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    number = 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            check_length(f"{name}:{number}", "the line", len(raw), _REMEDY)
        yield number, raw


def _finish(block: _EntryLines) -> Iterator[bytes | _EntryLines]:
    """Yield an entry and the blank lines after it, or comments without an entry."""
    blank = sum(1 for _ in takewhile(lambda line: not line.strip(SPACE), reversed(block.lines)))
    lines = block.lines[: len(block.lines) - blank]
    if any(not line.strip(SPACE).startswith(b"#") for line in lines if line.strip(SPACE)):
        yield _EntryLines(block.first, lines)
        yield from block.lines[len(lines) :]
    else:
        yield from block.lines


def _parse(block: _EntryLines, name: str, charset: str) -> PoEntry:
    head: list[bytes] = []
    body: list[bytes] = []
    pieces: dict[str, list[str]] = {}
    key, first, size = "", block.first, 0
    for number, raw in enumerate(block.lines, start=block.first):
        line = decode_line(name, number, raw, charset).strip(_TEXT_SPACE)
        if not pieces and (not line or line.startswith("#")):
            head.append(raw)
            continue
        match = _LINE.fullmatch(line)
        if line and (not match or not (match[1] or key) or match[1] in pieces):
            raise malformed(name, number, f"unexpected {line[:40]!r}")
        first = first if pieces else number
        if match:
            key, size = (match[1], 0) if match[1] else (key, size)
            size += len(match[2])
            check_length(f"{name}:{number}", "the message", size, _REMEDY)
            pieces.setdefault(key, []).append(_unescape(match[2], name, number))
        if not key.startswith("msgstr"):
            body.append(raw)
    if not _KEYS.fullmatch("".join(f"{key} " for key in pieces)):
        raise malformed(name, first, f"a message with {', '.join(pieces)}")
    strings = {key: "".join(texts) for key, texts in pieces.items()}
    return PoEntry(name, first, charset, b"".join(block.lines), head, body, strings)


def _unescape(text: str, name: str, number: int) -> str:
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        code = int(escape[1:], 16) if match["hex"] else int(escape, 8) if match["octal"] else None
        if code is None or code >= 128:
            raise malformed(name, number, f"the escape {match[0]}: write the character itself")
        return chr(code)

    return _ESCAPE.sub(character, text)
