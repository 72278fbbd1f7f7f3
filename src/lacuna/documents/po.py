r"""PO catalogs and templates: one segment for each message, and a header completed for the target language.

A file is read entry by entry, and only the ``msgstr`` lines, the flag ``fuzzy`` and two comments of an entry are
rewritten. The header must be the first message, as all gettext tools write it, because it names the charset and the
plural forms of what follows. Knows one keyword per line, the layout of all tools, and neither ``domain`` lines nor
escapes of bytes that are not ASCII (``\303\274``). Obsolete messages stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import BinaryIO

from lacuna.corpora.base import LONGEST_LINE, decode, language_matches
from lacuna.corpora.catalogs import LANGUAGE_CODE, find_charset
from lacuna.documents.base import LARGEST_PART, DocumentSegment, Filled, InlineCodes
from lacuna.documents.plurals import Plurals, plural_forms_of
from lacuna.errors import CorpusError, DocumentError
from lacuna.records import Languages

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n\f\v"
_LINE_COST = 64  # bytes of memory that a line takes beyond its own, so that many short lines are bounded, too

_LINE = re.compile(r'(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d\])?)[ \t]*)?"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_KEYS = re.compile(r"(msgctxt )?msgid (msgstr |msgid_plural msgstr\[0\] (msgstr\[\d\] )*)")
_HEADER = re.compile(rb'^[ \t]*msgid[ \t]*""\s*msgstr[ \t]*"', re.MULTILINE)
_OWN_COMMENT = re.compile(rb"#[ \t]+(?:confidence: [01]\.\d\d$|review: )")

_ESCAPES = {"\\": "\\", '"': '"', "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(r"\\((?P<octal>[0-7]{1,3})|(?P<hex>x[0-9A-Fa-f]{1,2})|.)")
_TO_ESCAPE = str.maketrans({character: f"\\{letter}" for letter, character in _ESCAPES.items()})


@dataclass(frozen=True, slots=True)
class _EntryBytes:
    """The lines of one entry, and the number of the first."""

    first: int
    lines: list[bytes]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A parsed entry.

    :param head: Comments, and blank lines among them.
    :param body: The lines from the first keyword up to ``msgstr``.
    :param strings: What each keyword holds, in the order of the file.
    :param place: The line of the first keyword.
    """

    name: str
    place: int
    charset: str
    raw: bytes
    head: list[bytes]
    body: list[bytes]
    strings: dict[str, str]

    @property
    def is_header(self) -> bool:
        return not self.strings["msgid"] and "msgctxt" not in self.strings

    @property
    def is_fuzzy(self) -> bool:
        return any(b"fuzzy" in _flags(line) for line in self.head)

    @property
    def line_end(self) -> bytes:
        return b"\r\n" if self.body[0].endswith(b"\r\n") else b"\n"

    def encode(self, line: str) -> bytes:
        try:
            return line.encode(self.charset) + self.line_end
        except UnicodeEncodeError as error:
            raise DocumentError(
                f"{self.name}:{self.place}: the translation has {line[error.start]!r}, which {self.charset.upper()} "
                "does not have; convert the file with: msgconv -t UTF-8"
            ) from error

    def write(self, head: list[bytes], strings: dict[str, str]) -> bytes:
        """Return the entry with other comments and translations, ending in a line end only if it did before."""
        lines = [self.encode(line) for key, text in strings.items() for line in _quoted(key, text)]
        written = b"".join([*head, *self.body, *lines])
        return written if self.raw.endswith(b"\n") else written.removesuffix(self.line_end)


class PoFormat:
    """Gettext catalogs (``.po``) and templates (``.pot``)."""

    name = "PO"
    suffixes = (".po", ".pot")

    def parts(self, file: BinaryIO, name: str, languages: Languages) -> Iterator[bytes | DocumentSegment]:
        """Yield a segment for each message; the header is one without texts if a field must be added.

        ``existing`` has the current translation, or empty strings for a fuzzy message, which stays fuzzy if it is
        translated by a machine.
        """
        charset, plurals, started = "utf-8", None, False
        for block in _blocks(file, name):
            if isinstance(block, bytes):
                yield block
                continue
            if not started:
                charset = _charset(block, name)
            entry = _parse(block, name, charset)
            if not started:
                header, plurals = _complete(entry, languages)
                yield from header
            elif entry.is_header:
                raise _malformed(name, entry.place, "a header that is not the first message")
            started = True
            if entry.strings["msgid"]:
                yield _segment(entry, plurals, languages)
            elif not entry.is_header:  # a context without text
                yield entry.raw


# --- reading ---------------------------------------------------------------------------------------------------------


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    number = 0
    while raw := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(raw) > LONGEST_LINE:
            raise DocumentError(
                f"{name}:{number}: the line is longer than {LONGEST_LINE:,} bytes, the longest allowed; "
                "check that the file is a PO catalog"
            )
        yield number, raw


def _blocks(file: BinaryIO, name: str) -> Iterator[bytes | _EntryBytes]:
    """Group lines into entries; blank lines between entries, obsolete messages and a byte order mark are bytes."""
    block = _EntryBytes(1, [])
    size, finished = 0, False
    for number, raw in _lines(file, name):
        if number == 1 and raw.startswith(_BOM):
            yield _BOM
            raw = raw.removeprefix(_BOM)
        line = raw.strip(_SPACE)
        obsolete = line.startswith(b"#~")
        if obsolete or (finished and line and not line.startswith((b'"', b"msgstr"))):
            yield from _finish(block, name)
            block, size, finished = _EntryBytes(number, []), 0, False
        if obsolete or not (line or block.lines):
            yield raw
            block = _EntryBytes(number + 1, [])
            continue
        block.lines.append(raw)
        finished = finished or line.startswith(b"msgstr")
        size += len(raw) + _LINE_COST
        if size > LARGEST_PART:
            raise DocumentError(
                f"{name}:{block.first}: no end of the message within {LARGEST_PART:,} bytes; "
                "check that the file is a PO catalog"
            )
    yield from _finish(block, name)


def _finish(block: _EntryBytes, name: str) -> Iterator[bytes | _EntryBytes]:
    """Yield an entry and the blank lines after it, or comments without an entry."""
    blank = sum(1 for _ in takewhile(lambda line: not line.strip(_SPACE), reversed(block.lines)))
    lines = block.lines[: len(block.lines) - blank]
    if any(not line.strip(_SPACE).startswith(b"#") for line in lines if line.strip(_SPACE)):
        yield _EntryBytes(block.first, lines)
        yield from block.lines[len(lines) :]
    else:
        yield from block.lines


def _parse(block: _EntryBytes, name: str, charset: str) -> _Entry:
    head: list[bytes] = []
    body: list[bytes] = []
    pieces: dict[str, list[str]] = {}
    key, place = "", block.first
    for number, raw in enumerate(block.lines, start=block.first):
        line = _decode(name, number, raw, charset).strip(_SPACE.decode())
        if not pieces and (not line or line.startswith("#")):
            head.append(raw)
            continue
        found = _LINE.fullmatch(line)
        if line and (not found or not (found[1] or key) or found[1] in pieces):
            raise _malformed(name, number, f"unexpected {line[:40]!r}")
        place = place if pieces else number
        if found:
            key = found[1] or key
            pieces.setdefault(key, []).append(_unescape(found[2], name, number))
        if not key.startswith("msgstr"):
            body.append(raw)
    if not _KEYS.fullmatch("".join(f"{key} " for key in pieces)):
        raise _malformed(name, place, f"a message with {', '.join(pieces)}")
    strings = {key: "".join(texts) for key, texts in pieces.items()}
    return _Entry(name, place, charset, b"".join(block.lines), head, body, strings)


def _charset(block: _EntryBytes, name: str) -> str:
    raw = b"".join(block.lines)
    charset = find_charset(raw) if _HEADER.search(raw) else None
    if charset is None:
        return "utf-8"
    probe = 'msgid "\\n"\n'
    try:
        fits = probe.encode(charset) == probe.encode("ascii")
    except (LookupError, ValueError):
        fits = False
    if not fits:
        raise DocumentError(
            f"{name}:{block.first}: the header names the charset {charset[:40]!r}, which is unknown or not a superset "
            "of ASCII; write the charset of the file, such as UTF-8"
        )
    return charset


def _decode(name: str, number: int, raw: bytes, charset: str) -> str:
    try:
        return decode(name, number, raw, charset)
    except CorpusError as error:
        raise DocumentError(str(error)) from error


def _unescape(text: str, name: str, number: int) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        code = int(escape[1:], 16) if match["hex"] else int(escape, 8) if match["octal"] else None
        if code is None or code >= 128:
            raise _malformed(name, number, f"the escape {match[0]}: write the character itself")
        return chr(code)

    return _ESCAPE.sub(character, text)


def _malformed(name: str, number: int, what: str) -> DocumentError:
    return DocumentError(f"{name}:{number}: malformed PO ({what}); check the file with: msgfmt --check")


# --- the header ------------------------------------------------------------------------------------------------------


def _complete(entry: _Entry, languages: Languages) -> tuple[list[bytes | DocumentSegment], Plurals | None]:
    """Return the header with what it lacks for the target language, and the plural forms.

    :param entry: The first entry. If it is not the header, there is none, and one is put before it.
    """
    text = entry.strings["msgstr"] if entry.is_header else ""
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.split("\n"))}
    _check_language(entry, fields.get("X-Source-Language", ""), languages.source, "X-Source-Language")
    _check_language(entry, fields.get("Language", ""), languages.target, "Language")
    missing: dict[str, str] = {}
    if find_charset(fields.get("Content-Type", "").encode()) is None:
        missing |= {"MIME-Version": "1.0", "Content-Type": "text/plain; charset=UTF-8"}
        missing |= {"Content-Transfer-Encoding": "8bit"}
    if not fields.get("Language"):
        missing["Language"] = languages.target.replace("-", "_")
    plurals, formula = Plurals.parse(fields.get("Plural-Forms", "")), plural_forms_of(languages.target)
    if plurals is None and formula:
        missing["Plural-Forms"] = formula
        plurals = Plurals.parse(formula)
    text = _with_fields(text, missing)
    if not entry.is_header:
        lines = [*_quoted("msgid", ""), *_quoted("msgstr", text), ""]
        return [DocumentSegment(b"", (), lambda _: b"".join(map(entry.encode, lines)))], plurals
    if not missing:
        return [entry.raw], plurals
    # A template marks its header as fuzzy, and some tools skip a catalog with such a header.
    head = _with_fuzzy(entry, entry.head, False)
    return [
        DocumentSegment(entry.raw, (), lambda _: entry.write(head, {"msgstr": text}), place=str(entry.place))
    ], plurals


def _check_language(entry: _Entry, found: str, wanted: str, key: str) -> None:
    base = re.split("[-_@]", wanted)[0]
    if LANGUAGE_CODE.fullmatch(found) and not language_matches(base, found.replace("@", "-")):
        raise DocumentError(
            f"{entry.name}:{entry.place}: the header says {key}: {found[:40]}, but the language asked for is {wanted}; "
            "give the languages of the catalog, or correct its header"
        )


def _with_fields(text: str, fields: dict[str, str]) -> str:
    lines = text.removesuffix("\n").split("\n") if text else []
    for key, value in fields.items():
        numbers = [number for number, line in enumerate(lines) if line.startswith(f"{key}:")] or [len(lines)]
        lines[numbers[0] : numbers[0] + 1] = [f"{key}: {value}"]
    return "".join(f"{line}\n" for line in lines)


# --- messages --------------------------------------------------------------------------------------------------------


def _segment(entry: _Entry, plurals: Plurals | None, languages: Languages) -> DocumentSegment:
    strings = entry.strings
    keys, texts = ["msgstr"], [strings["msgid"]]
    if "msgid_plural" in strings:
        if plurals is None:
            raise DocumentError(
                f"{entry.name}:{entry.place}: the plural forms of {languages.target} are not known; "
                "add a valid line Plural-Forms: nplurals=...; plural=...; to the header"
            )
        keys = [f"msgstr[{form}]" for form in range(plurals.forms)]
        texts = plurals.sources(strings["msgid"], strings["msgid_plural"])
    existing = ["" if entry.is_fuzzy else strings.get(key, "") for key in keys]
    codes = InlineCodes()
    try:
        protected = [tuple(map(codes.protect, side)) for side in (texts, existing)]
    except DocumentError as error:
        raise DocumentError(f"{entry.name}:{entry.place}: {error}") from error
    unfinished = (entry.is_fuzzy,) * len(keys)
    render = partial(_render, entry, keys, codes)
    return DocumentSegment(entry.raw, protected[0], render, protected[1], str(entry.place), unfinished)


def _render(entry: _Entry, keys: Sequence[str], codes: InlineCodes, filled: Sequence[Filled]) -> bytes:
    texts = [_same_newlines(entry.strings["msgid"], codes.restore(translation.text)) for translation in filled]
    return entry.write(_commented(entry, filled), dict(zip(keys, texts, strict=True)))


def _same_newlines(source: str, text: str) -> str:
    """Begin and end a translation with a newline exactly if the source does; msgfmt insists."""
    if not text.strip("\n"):
        return ""
    if source.startswith("\n") != text.startswith("\n"):
        text = "\n" + text if source.startswith("\n") else text.lstrip("\n")
    if source.endswith("\n") != text.endswith("\n"):
        text = text + "\n" if source.endswith("\n") else text.rstrip("\n")
    return text


def _commented(entry: _Entry, filled: Sequence[Filled]) -> list[bytes]:
    """Return the comments of an entry with those on its new translation, after the translator's own."""
    review = any(translation.review for translation in filled)
    head = [line for line in entry.head if not _OWN_COMMENT.match(line.strip(_SPACE))]
    if entry.is_fuzzy and not review:
        head = [line for line in head if not line.lstrip(_SPACE).startswith(b"#|")]
    head = _with_fuzzy(entry, head, review)
    confidences = [translation.confidence for translation in filled if translation.confidence is not None]
    notes = [f"# confidence: {min(confidences):.2f}"] if confidences else []
    reasons = dict.fromkeys(" ".join(each.reason.split()) for each in filled if each.review and each.reason)
    notes += [f"# review: {'; '.join(reasons)}"] if reasons else []
    own = sum(1 for _ in takewhile(lambda line: line.strip(_SPACE)[:2] in (b"", b"#", b"# ", b"#\t"), head))
    return [*head[:own], *map(entry.encode, notes), *head[own:]]


def _with_fuzzy(entry: _Entry, head: list[bytes], fuzzy: bool) -> list[bytes]:
    """Add the flag or remove it; lines for which nothing changes stay as they are."""
    lines: list[bytes] = []
    for line in head:
        flags = _flags(line)
        wanted = [b"fuzzy"] * fuzzy + [flag for flag in flags if flag != b"fuzzy"]
        if flags and wanted != flags:
            line = b"#, " + b", ".join(wanted) + entry.line_end if wanted else b""
        fuzzy = fuzzy and not flags
        lines.append(line)
    if fuzzy:
        before = (number for number, line in enumerate(lines) if line.lstrip(_SPACE).startswith(b"#|"))
        lines.insert(next(before, len(lines)), b"#, fuzzy" + entry.line_end)
    return lines


def _flags(line: bytes) -> list[bytes]:
    line = line.strip(_SPACE)
    return [flag.strip() for flag in line[2:].split(b",") if flag.strip()] if line.startswith(b"#,") else []


def _quoted(key: str, text: str) -> Iterator[str]:
    """Yield the lines of a string as gettext writes them: one line, or one for each line of the text."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    yield f'{key} "{text.translate(_TO_ESCAPE)}"' if len(lines) < 2 else f'{key} ""'
    if len(lines) > 1:
        yield from (f'"{line.translate(_TO_ESCAPE)}"' for line in lines)
