"""PO catalogs and templates: one segment for each message, and a header completed for the target language.

Only the ``msgstr`` lines, the flag ``fuzzy`` and two comments of an entry are rewritten. Obsolete messages stay as they
are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import BinaryIO

from lacuna.documents.base import DocumentSegment, Filled, InlineCodes
from lacuna.documents.plurals import Plurals, plural_forms_of
from lacuna.errors import DocumentError
from lacuna.formats.languages import base_language
from lacuna.formats.po_entries import (
    SPACE,
    PoEntry,
    find_charset,
    flags_of,
    header_fields,
    header_language,
    malformed,
    quote,
    read_entries,
)
from lacuna.records import Languages

_OWN_COMMENT = re.compile(rb"#[ \t]+(?:confidence: [01]\.\d\d$|review: )")


class PoFormat:
    """Gettext catalogs (``.po``) and templates (``.pot``)."""

    name = "PO"
    suffixes = (".po", ".pot")

    def parts(self, file: BinaryIO, name: str, languages: Languages) -> Iterator[bytes | DocumentSegment]:
        """Yield a segment for each message; the header is one without texts if a field must be added.

        ``existing`` has the current translation, or empty strings for a fuzzy message, which stays fuzzy if it is
        translated by a machine.
        """
        plurals, started = None, False
        for entry in read_entries(file, name):
            if isinstance(entry, bytes):
                yield entry
                continue
            if not started:
                header, plurals = _complete(entry, languages)
                yield from header
            elif entry.is_header:
                raise malformed(name, entry.line, "a header that is not the first message")
            started = True
            if entry.strings["msgid"]:
                yield _segment(entry, plurals, languages)
            elif not entry.is_header:  # a context without text
                yield entry.raw


# --- the header ------------------------------------------------------------------------------------------------------


def _complete(entry: PoEntry, languages: Languages) -> tuple[list[bytes | DocumentSegment], Plurals | None]:
    """Return the header with what it lacks for the target language, and the plural forms.

    :param entry: The first entry. If it is not the header, there is none, and one is put before it.
    """
    text = entry.strings["msgstr"] if entry.is_header else ""
    fields = header_fields(text)
    _check_language(entry, fields, "X-Source-Language", languages.source)
    _check_language(entry, fields, "Language", languages.target)
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
        lines = [*quote("msgid", ""), *quote("msgstr", text), ""]
        return [DocumentSegment(b"", (), lambda _: b"".join(map(entry.encode, lines)))], plurals
    if not missing:
        return [entry.raw], plurals
    # A template marks its header as fuzzy, and some tools skip a catalog with such a header.
    head = _with_fuzzy(entry, entry.head, False)
    return [
        DocumentSegment(entry.raw, (), lambda _: entry.write(head, {"msgstr": text}), place=str(entry.line))
    ], plurals


def _check_language(entry: PoEntry, fields: dict[str, str], key: str, wanted: str) -> None:
    if header_language(fields, key) not in ("", base_language(wanted)):
        raise DocumentError(
            f"{entry.name}:{entry.line}: the header says {key}: {fields[key][:40]}, but the language asked for is "
            f"{wanted}; give the languages of the catalog, or correct its header"
        )


def _with_fields(text: str, fields: dict[str, str]) -> str:
    lines = text.removesuffix("\n").split("\n") if text else []
    for key, value in fields.items():
        numbers = [number for number, line in enumerate(lines) if line.startswith(f"{key}:")] or [len(lines)]
        lines[numbers[0] : numbers[0] + 1] = [f"{key}: {value}"]
    return "".join(f"{line}\n" for line in lines)


# --- messages --------------------------------------------------------------------------------------------------------


def _segment(entry: PoEntry, plurals: Plurals | None, languages: Languages) -> DocumentSegment:
    strings = entry.strings
    keys, texts = ["msgstr"], [strings["msgid"]]
    if "msgid_plural" in strings:
        if plurals is None:
            raise DocumentError(
                f"{entry.name}:{entry.line}: the plural forms of {languages.target} are not known; "
                "add a valid line Plural-Forms: nplurals=...; plural=...; to the header"
            )
        keys = [f"msgstr[{form}]" for form in range(plurals.forms)]
        texts = plurals.sources(strings["msgid"], strings["msgid_plural"])
    existing = ["" if entry.is_fuzzy else strings.get(key, "") for key in keys]
    codes = InlineCodes()
    try:
        protected = [tuple(map(codes.protect, side)) for side in (texts, existing)]
    except DocumentError as error:
        raise DocumentError(f"{entry.name}:{entry.line}: {error}") from error
    unfinished = (entry.is_fuzzy,) * len(keys)
    render = partial(_render, entry, keys, codes)
    return DocumentSegment(entry.raw, protected[0], render, protected[1], str(entry.line), unfinished)


def _render(entry: PoEntry, keys: Sequence[str], codes: InlineCodes, filled: Sequence[Filled]) -> bytes:
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


def _commented(entry: PoEntry, filled: Sequence[Filled]) -> list[bytes]:
    """Return the comments of an entry with those on its new translation, after the translator's own."""
    review = any(translation.review for translation in filled)
    head = [line for line in entry.head if not _OWN_COMMENT.match(line.strip(SPACE))]
    if entry.is_fuzzy and not review:
        head = [line for line in head if not line.lstrip(SPACE).startswith(b"#|")]
    head = _with_fuzzy(entry, head, review)
    confidences = [translation.confidence for translation in filled if translation.confidence is not None]
    notes = [f"# confidence: {min(confidences):.2f}"] if confidences else []
    reasons = dict.fromkeys(" ".join(each.reason.split()) for each in filled if each.review and each.reason)
    notes += [f"# review: {'; '.join(reasons)}"] if reasons else []
    own = sum(1 for _ in takewhile(lambda line: line.strip(SPACE)[:2] in (b"", b"#", b"# ", b"#\t"), head))
    return [*head[:own], *map(entry.encode, notes), *head[own:]]


def _with_fuzzy(entry: PoEntry, head: list[bytes], fuzzy: bool) -> list[bytes]:
    """Add the flag or remove it; lines for which nothing changes stay as they are."""
    lines: list[bytes] = []
    for line in head:
        flags = flags_of(line)
        wanted = [b"fuzzy"] * fuzzy + [flag for flag in flags if flag != b"fuzzy"]
        if flags and wanted != flags:
            line = b"#, " + b", ".join(wanted) + entry.line_end if wanted else b""
        fuzzy = fuzzy and not flags
        lines.append(line)
    if fuzzy:
        before = (number for number, line in enumerate(lines) if line.lstrip(SPACE).startswith(b"#|"))
        lines.insert(next(before, len(lines)), b"#, fuzzy" + entry.line_end)
    return lines
