"""Gettext catalogs, PO and MO: parsed with polib, after checks that polib does not make.

polib drops the last character of a string without closing quote, splits lines at U+2028, and follows any offset of an
MO file. This module therefore decodes PO files itself and hands polib only well-formed lines, and it checks all offsets
of an MO file first. Knows nothing of origins and wheels.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from polib import MOEntry, MOFile, POEntry, POFile, mofile, pofile

from lacuna.corpora.base import Unit, check_length, decode, normalize_language, open_bytes
from lacuna.errors import CorpusError
from lacuna.records import Languages

MSGID_LANGUAGE = "en"  # the gettext convention, unless the header names another language
LARGEST_CATALOG = 64_000_000  # bytes after decompression; catalogs are read whole, and real ones are far smaller

# Some headers say "German" or keep the words of the template; only a code can be compared.
LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(?:[-_@].*)?", re.IGNORECASE)

_CHARSET = re.compile(rb"charset=\s*([^\s\"\\;]+)")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[\d\])?)\s*(?=\")")


@dataclass(frozen=True, slots=True)
class Message:
    """A finished message of a catalog: neither fuzzy nor obsolete.

    :param context: Its ``msgctxt``, or an empty string.
    :param ids: ``msgid``, and ``msgid_plural`` if there is one.
    :param texts: The translation, or its plural forms in their order; empty strings where untranslated.
    :param comment: Extracted comments (``#.``), one per line.
    """

    context: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    comment: str

    @property
    def place(self) -> str:
        """The key under which gettext finds the message, context and msgid, on one line."""
        name = f"{self.context}|{self.ids[0]}" if self.context else self.ids[0]
        return name.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


@dataclass(frozen=True, slots=True)
class Catalog:
    """A parsed catalog.

    :param header: The fields of the header, such as ``Language``.
    :param messages: All finished messages, in the order of the file.
    """

    header: dict[str, str]
    messages: tuple[Message, ...]


def read_po(path: Path, languages: Languages | None) -> Iterator[Unit]:
    """Yield the translated messages of a PO file; fuzzy, obsolete and untranslated messages are skipped."""
    yield from _units(path, _read(path, parse_po), languages)


def read_mo(path: Path, languages: Languages | None) -> Iterator[Unit]:
    """Yield the messages of a compiled catalog."""
    yield from _units(path, _read(path, parse_mo), languages)


def parse_po(content: bytes, name: str) -> Catalog:
    """Parse a PO file.

    :param content: The file, in the charset that its header names; UTF-8 if it names none.
    :param name: The name of the file, for errors.
    :raises CorpusError: The file is malformed; the error names the line.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    lines = _decode_lines(content, name, _charset(content, name))
    try:
        parsed = pofile(_Lines("\n".join(_well_formed(lines, name)) + "\n"), encoding="utf-8")
    except OSError as error:  # polib's error for everything
        line = re.search(r"\(line (\d+)\)", str(error))
        where = f"{name}:{line[1]}" if line else name
        raise CorpusError(f"{where}: malformed PO (unexpected line); check the file with: msgfmt --check") from error
    return _catalog(parsed)


def parse_mo(content: bytes, name: str) -> Catalog:
    """Parse a compiled catalog.

    :param content: The file.
    :param name: The name of the file, for errors.
    :raises CorpusError: The file is malformed.
    """
    try:
        charset = _charset(_check_offsets(content, name), name)
        parsed = mofile(cast(str, content), encoding=charset)  # the stubs do not know that bytes are allowed
    except CorpusError:
        raise
    except (OSError, ValueError, struct.error) as error:
        raise CorpusError(f"{name}: malformed MO ({error}); compile the catalog again with: msgfmt") from error
    return _catalog(parsed)


def find_charset(header: bytes) -> str | None:
    """Return the charset that a header names; None without, or if it has the placeholder of a template."""
    found = _CHARSET.search(header)
    charset = found[1].decode("ascii", "replace") if found else None
    return None if charset == "CHARSET" else charset


class _Lines(str):
    """Text that polib splits at newlines only; its own ``splitlines`` also splits at U+2028, U+0085 and others."""

    __slots__ = ()

    def splitlines(self, keepends: bool = False) -> list[str]:
        return self.split("\n")


def _read(path: Path, parse: Callable[[bytes, str], Catalog]) -> Catalog:
    with open_bytes(path) as file:
        content = file.read(LARGEST_CATALOG + 1)
    if len(content) > LARGEST_CATALOG:
        raise CorpusError(
            f"{path}: larger than {LARGEST_CATALOG:,} bytes, the largest catalog allowed; split it into several"
        )
    return parse(content, str(path))


def _charset(content: bytes, name: str) -> str:
    charset = find_charset(content) or "utf-8"
    try:
        "".encode(charset)
    except (LookupError, ValueError) as error:
        raise CorpusError(
            f"{name}: unknown charset {charset!r} in the header; write the charset of the file, such as UTF-8"
        ) from error
    return charset


# --- PO --------------------------------------------------------------------------------------------------------------


def _decode_lines(content: bytes, name: str, charset: str) -> Iterator[str]:
    start = number = 0
    while start < len(content):
        end = content.find(b"\n", start)
        end = len(content) if end < 0 else end
        number += 1
        check_length(f"{name}:{number}", "the line", end - start)  # before the slice copies it
        yield decode(name, number, content[start:end], charset)
        start = end + 1


def _well_formed(lines: Iterator[str], name: str) -> Iterator[str]:
    """Yield one line for each line, written as polib expects it; comments that no reader needs become empty."""
    size = 0
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        obsolete = "#~ " if line.startswith("#~") else ""
        body = line[2:].lstrip() if obsolete else line
        if body.startswith("#") or (obsolete and body.startswith("|")):
            yield _comment(body)
            continue
        keyword = _KEYWORD.match(body)
        string = body[keyword.end() :] if keyword else body
        if body and not _STRING.fullmatch(string):
            raise CorpusError(
                f"{name}:{number}: malformed PO (no string in double quotes); check the file with: msgfmt --check"
            )
        size = len(string) if keyword else size + len(string)
        check_length(f"{name}:{number}", "the message", size)
        yield f"{obsolete}{keyword[1]} {string}" if keyword else f"{obsolete}{string}" if string else ""


def _comment(line: str) -> str:
    """Keep flags and extracted comments, with the space that polib insists on."""
    marker, text = line[:2], line[2:].strip()
    return f"{marker} {text}" if marker in ("#,", "#.") and text else ""


# --- MO --------------------------------------------------------------------------------------------------------------


def _check_offsets(content: bytes, name: str) -> bytes:
    """Check that all strings are inside the file and do not overlap; return the header, which is the first string.

    Slicing would shorten a string silently, and strings that overlap could unpack a small file to any size.
    """
    order = {MOFile.MAGIC: "<", MOFile.MAGIC_SWAPPED: ">"}.get(int.from_bytes(content[:4], "little"))
    if order is None:
        raise ValueError("not an MO file")
    # Magic number, revision, number of strings, where the tables of msgid and msgstr start.
    _, _, count, *starts = struct.unpack_from(f"{order}5I", content)
    total = 0
    for start in starts:
        if start + 8 * count > len(content):
            raise ValueError(f"a table ends beyond the file's {len(content):,} bytes")
        for number, (length, offset) in enumerate(struct.iter_unpack(f"{order}2I", content[start : start + 8 * count])):
            check_length(f"{name}: message {number}", "the message", length)
            if offset + length > len(content):
                raise ValueError(f"message {number} ends beyond the file's {len(content):,} bytes")
            total += length
    if total > len(content):
        raise ValueError(f"messages overlap: {total:,} bytes of text in a file of {len(content):,}")
    if not count:
        return b""
    length, offset = struct.unpack_from(f"{order}2I", content, starts[1])
    return content[offset : offset + length]


# --- both ------------------------------------------------------------------------------------------------------------


def _catalog(parsed: POFile | MOFile) -> Catalog:
    return Catalog(dict(parsed.metadata), tuple(_message(entry) for entry in parsed if _finished(entry)))


def _finished(entry: POEntry | MOEntry) -> bool:
    return bool(entry.msgid) and not entry.obsolete and "fuzzy" not in entry.flags


def _message(entry: POEntry | MOEntry) -> Message:
    ids = (entry.msgid, entry.msgid_plural) if entry.msgid_plural else (entry.msgid,)
    forms = entry.msgstr_plural
    texts = tuple(forms[number] for number in sorted(forms)) if forms else (entry.msgstr,)
    return Message(entry.msgctxt or "", ids, texts, entry.comment)


def _units(path: Path, catalog: Catalog, languages: Languages | None) -> Iterator[Unit]:
    swap = _is_reversed(path, catalog.header, languages)
    for message in catalog.messages:
        ids, texts, place = message.ids, message.texts, message.place
        if not texts[0]:
            continue
        if len(ids) == 1:
            forms = [(ids[0], texts[0], place)]
        else:
            # Singular and plural: the forms between them translate no msgid of their own.
            last = f"{place}[{len(texts) - 1}]" if len(texts) > 1 else f"{place}[plural]"
            forms = [(ids[0], texts[0], f"{place}[0]"), (ids[-1], texts[-1], last)]
        for msgid, msgstr, where in forms:
            if msgstr.strip():
                yield Unit(msgstr, msgid, where) if swap else Unit(msgid, msgstr, where)


def _is_reversed(path: Path, header: dict[str, str], languages: Languages | None) -> bool:
    """Tell whether the msgid is the target side, and refuse a catalog of other languages."""
    if languages is None:
        return False
    msgid = _header_language(header, "X-Source-Language") or MSGID_LANGUAGE
    msgstr = _header_language(header, "Language")
    source, target = _base(languages.source), _base(languages.target)
    for left, right, swap in ((msgid, msgstr, False), (msgstr, msgid, True)):
        if left in (source, None) and right in (target, None):
            return swap
    raise CorpusError(
        f"{path}: msgid is {msgid} and msgstr is {msgstr or 'not named'}, but the languages asked for are {languages}; "
        "give the languages of the catalog, or correct Language and X-Source-Language in its header"
    )


def _header_language(header: dict[str, str], key: str) -> str | None:
    value = header.get(key, "").strip()
    return _base(value) if LANGUAGE_CODE.fullmatch(value) else None


def _base(code: str) -> str:
    return re.split("[-@]", normalize_language(code))[0]
