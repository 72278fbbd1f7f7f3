"""Gettext catalogs, PO and MO, parsed by translate-toolkit.

Knows nothing of origins. Decodes the bytes itself: the toolkit reads a PO file that is not what its header says as
Latin-1 without a word, and takes a cut-off MO file for one with shorter strings.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lacuna.corpora.base import Unit, decode, normalize_language, open_bytes
from lacuna.errors import CorpusError
from lacuna.records import Languages

MSGID_LANGUAGE = "en"  # what gettext expects of a msgid, unless the header says otherwise

_CHARSET = re.compile(rb"charset=\s*([^\s\"\\]+)")
_LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(?:[-_@].*)?", re.IGNORECASE)


def read_po(path: Path, languages: Languages | None) -> Iterator[Unit]:
    """Yield the translated messages of a PO file; fuzzy, obsolete and untranslated ones are no translations."""
    from translate.storage import pypo  # only here: the toolkit takes a while to import

    with open_bytes(path) as file:
        content = _as_utf8(path, file.read())
    try:
        store = pypo.pofile.parsestring(content)  # type: ignore[no-untyped-call]
    except (ValueError, LookupError) as error:
        raise CorpusError(f"{path}: malformed PO ({error}); check the file with: msgfmt --check") from error
    yield from _messages(path, store, languages)


def read_mo(path: Path, languages: Languages | None) -> Iterator[Unit]:
    """Yield the messages of a compiled catalog."""
    from translate.storage import base, mo

    with open_bytes(path) as file:
        content = file.read()
    try:
        _check_bounds(content, mo.mofile.parse_header(content))
        store = mo.mofile.parsestring(content)  # type: ignore[no-untyped-call]
    except (ValueError, LookupError, struct.error, base.ParseError) as error:
        raise CorpusError(f"{path}: malformed MO ({error}); compile the catalog again with: msgfmt") from error
    yield from _messages(path, store, languages)


def _as_utf8(path: Path, content: bytes) -> bytes:
    """Transcode a PO file, header and all, so that the toolkit has nothing to guess."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    found = _CHARSET.search(content)
    charset = found[1].decode("ascii", "replace") if found else "utf-8"
    if charset == "CHARSET":  # the template's blank, left unfilled
        charset = "utf-8"
    try:
        text = "\n".join(decode(path, number, raw, charset) for number, raw in enumerate(content.split(b"\n"), start=1))
    except LookupError as error:
        raise CorpusError(
            f"{path}: unknown charset {charset!r} in the header; write the one the file is in, such as UTF-8"
        ) from error
    # The parser trips over a comment sign that ends the file, hence the last newline.
    return _CHARSET.sub(b"charset=UTF-8", text.encode() + b"\n", count=1)


def _check_bounds(content: bytes, header: tuple[str, int, int, int, int, int, int, int]) -> None:
    """See that every string of an MO file lies inside the file; slicing would shorten it silently."""
    endian, _, _, count, *tables = header
    for table in tables[:2]:
        for length, offset in struct.iter_unpack(f"{endian}ii", content[table : table + 8 * count]):
            if length < 0 or offset < 0 or offset + length > len(content):
                raise ValueError(f"a string ends beyond the file's {len(content):,} bytes")


def _messages(path: Path, store: Any, languages: Languages | None) -> Iterator[Unit]:  # noqa: ANN401 - untyped library
    swap = _is_reversed(path, store.parseheader(), languages)
    for message in store.units:
        ids, texts = _forms(message.source), _forms(message.target)
        if not ids[0] or not message.istranslated():
            continue
        place = _place(message.getcontext(), ids[0])
        if len(ids) == 1:
            forms = [(ids[0], texts[0], place)]
        else:
            # One and many: the forms between have no msgid of their own that they translate.
            forms = [(ids[0], texts[0], f"{place}[0]"), (ids[-1], texts[-1], f"{place}[{len(texts) - 1}]")]
            if len(texts) == 1:
                forms[1] = (ids[-1], texts[0], f"{place}[plural]")
        for msgid, msgstr, where in forms:
            if msgstr.strip():
                yield Unit(msgstr, msgid, where) if swap else Unit(msgid, msgstr, where)


def _forms(text: Any) -> list[str]:  # noqa: ANN401 - str, or the toolkit's multistring for plurals
    forms = getattr(text, "strings", None) or [text]
    return [str.__str__(form) if form is not None else "" for form in forms]


def _place(context: str | None, msgid: str) -> str:
    """Name a message by what gettext looks it up by: its context, if any, and its msgid, on one line."""
    name = f"{context}|{msgid}" if context else msgid
    return name.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def _is_reversed(path: Path, header: dict[str, str], languages: Languages | None) -> bool:
    """Tell whether the msgid is the target side, and refuse a catalog of other languages than asked for."""
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
        "name the catalog's languages, or correct Language and X-Source-Language in its header"
    )


def _header_language(header: dict[str, str], key: str) -> str | None:
    value = header.get(key, "").strip()
    # Hand-written headers say "German" or keep the template's words; only a code can be compared.
    return _base(value) if _LANGUAGE_CODE.fullmatch(value) else None


def _base(code: str) -> str:
    return re.split("[-@]", normalize_language(code))[0]
