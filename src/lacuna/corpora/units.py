"""The translated segments of PO, MO, TMX and XLIFF files, streamed; what a format calls unfinished is left out.

Inline codes are left out as well; the text that they enclose stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lacuna.errors import CorpusError
from lacuna.formats import tmx_variants, xliff_segments
from lacuna.formats.inline_elements import InlineElements
from lacuna.formats.input_files import MAX_LINE_BYTES, check_length, open_bytes
from lacuna.formats.languages import is_reversed, language_matches
from lacuna.formats.mo import MAX_CATALOG_BYTES, parse_mo
from lacuna.formats.po_entries import Catalog, Message, header_language, read_po
from lacuna.formats.tmx_variants import TmxUnit
from lacuna.formats.xliff_segments import XliffSegment, XliffUnit
from lacuna.formats.xml_units import Node, read_units
from lacuna.records import Languages

MSGID_LANGUAGE = "en"  # the gettext convention, unless the header names another language


class Unit(NamedTuple):
    """One translation as read from a file, before its origin is attached.

    :param source: Text in the source language.
    :param target: Its translation.
    :param place: Line number, or the unit's own id.
    :param tag: The label in the file, if there is one.
    :param id: The unit's own id in the file, if there is one.
    """

    source: str
    target: str
    place: str
    tag: str | None = None
    id: str | None = None


# --- PO and MO -------------------------------------------------------------------------------------------------------


def po_units(path: Path, languages: Languages | None) -> Iterator[Unit]:
    """Yield the translated messages of a PO file; fuzzy, obsolete and untranslated messages are skipped."""
    with open_bytes(path) as file:
        yield from _catalog_units(path, read_po(file, str(path)), languages)


def mo_units(path: Path, languages: Languages | None) -> Iterator[Unit]:
    """Yield the messages of a compiled catalog."""
    with open_bytes(path) as file:
        content = file.read(MAX_CATALOG_BYTES + 1)
    if len(content) > MAX_CATALOG_BYTES:
        raise CorpusError(
            f"{path}: larger than {MAX_CATALOG_BYTES:,} bytes, the largest catalog allowed; split it into several"
        )
    yield from _catalog_units(path, parse_mo(content, str(path)), languages)


def _catalog_units(path: Path, catalog: Catalog, languages: Languages | None) -> Iterator[Unit]:
    swap = _is_reversed_catalog(path, catalog.header, languages)
    for message in catalog.messages:
        for msgid, msgstr, place in _forms(message) if message.texts[0] else ():
            if msgstr.strip():
                yield Unit(msgstr, msgid, place) if swap else Unit(msgid, msgstr, place)


def _forms(message: Message) -> list[tuple[str, str, str]]:
    """Return what is translated, its translation and its place."""
    ids, texts, place = message.ids, message.texts, message.place
    if len(ids) == 1:
        return [(ids[0], texts[0], place)]
    # Singular and plural: the forms between them translate no msgid of their own.
    last = f"{place}[{len(texts) - 1}]" if len(texts) > 1 else f"{place}[plural]"
    return [(ids[0], texts[0], f"{place}[0]"), (ids[-1], texts[-1], last)]


def _is_reversed_catalog(path: Path, header: dict[str, str], languages: Languages | None) -> bool:
    """Tell whether the msgid is the target side, and refuse a catalog of other languages."""
    if languages is None:
        return False
    msgid = header_language(header, "X-Source-Language") or MSGID_LANGUAGE
    msgstr = header_language(header, "Language")
    swap = is_reversed(msgid, msgstr, languages)
    if swap is None:
        raise CorpusError(
            f"{path}: msgid is {msgid} and msgstr is {msgstr or 'not named'}, but the languages asked for are "
            f"{languages}; give the languages of the catalog, or correct Language and X-Source-Language in its header"
        )
    return swap


# --- TMX -------------------------------------------------------------------------------------------------------------


def tmx_units(path: Path, languages: Languages | None) -> Iterator[Unit]:
    """Yield the units that have both languages, chosen by ``xml:lang`` (``de`` takes ``de-DE``).

    Without ``languages`` the file must have exactly two. The source is the header's ``srclang``, or else the first
    language in the file.
    """
    chosen, srclang = languages, ""
    seen: dict[str, None] = {}  # an ordered set
    pairs = ordinal = 0
    with open_bytes(path) as file:
        for node in read_units(file, str(path), tmx_variants.ROOT, tmx_variants.UNITS, tags={"header"}):
            if node.name == "header":
                srclang = node.attributes.get("srclang", "")
                continue
            ordinal += 1
            unit = TmxUnit.parse(node, str(path))
            if not seen.keys() >= unit.variants.keys() and len(seen) < tmx_variants.MAX_NAMED_LANGUAGES:
                seen.update(dict.fromkeys(unit.variants))
                chosen = languages or _only_languages(path, node, list(seen), srclang)
            texts = _tmx_texts(path, unit, chosen) if chosen else None
            if texts is not None:
                pairs += 1
                own = node.attributes.get("tuid")
                yield Unit(*texts, own or str(ordinal), id=own)
    if languages is not None and seen and not pairs:
        raise CorpusError(
            f"{path}: no unit has both {languages.source} and {languages.target}; "
            f"choose from the languages in the file: {', '.join(seen)}"
        )


def _only_languages(path: Path, node: Node, seen: list[str], srclang: str) -> Languages | None:
    if len(seen) > 2:
        raise CorpusError(
            f"{path}:{node.line}: languages are missing; the file has {', '.join(seen)}: choose two, as in de-en"
        )
    if len(seen) < 2:
        return None
    first, second = seen
    is_second = bool(srclang) and not language_matches(srclang, first) and language_matches(srclang, second)
    return Languages(second, first) if is_second else Languages(first, second)


def _tmx_texts(path: Path, unit: TmxUnit, languages: Languages) -> tuple[str, str] | None:
    source, target = unit.sides(languages)
    if source is None or target is None or tmx_variants.needs_review(target):
        return None
    return _texts(path, tmx_variants.INLINE, source.child("seg"), target.child("seg"))


# --- XLIFF -----------------------------------------------------------------------------------------------------------


def xliff_units(path: Path, languages: Languages | None) -> Iterator[Unit]:
    """Yield the translated segments of XLIFF 1.x and 2.x."""
    swap = False
    files = ordinal = 0
    prefix = ""
    with open_bytes(path) as file:
        for node in read_units(file, str(path), xliff_segments.ROOT, xliff_segments.UNITS, xliff_segments.TAGS):
            if node.name in xliff_segments.TAGS:
                swap = _is_reversed_xliff(path, node, languages, swap)
                if node.name == "file":
                    # Ids are unique within one <file> only, so ids of further files are prefixed with its name.
                    files += 1
                    name = node.attributes.get("original") or node.attributes.get("id") or str(files)
                    prefix = f"{name}/" if files > 1 else ""
                continue
            ordinal += 1
            unit = XliffUnit.parse(node)
            for segment in unit.segments:
                texts = _xliff_texts(path, unit.inline, segment)
                if texts is not None:
                    place = f"{prefix}{node.attributes.get('id') or ordinal}"
                    place += f"/{segment.label}" if segment.label else ""
                    yield Unit(texts[1], texts[0], place) if swap else Unit(*texts, place)


def _xliff_texts(path: Path, inline: InlineElements, segment: XliffSegment) -> tuple[str, str] | None:
    return None if segment.state.unfinished else _texts(path, inline, segment.source, segment.target)


def _is_reversed_xliff(path: Path, tag: Node, languages: Languages | None, before: bool) -> bool:
    """Tell whether the target is the source side from here on, and refuse a file of other languages.

    :param before: What tags before said, for a tag that does not name languages.
    """
    named = xliff_segments.languages_named(tag)
    if named is None or languages is None:
        return before
    source, target = named
    swap = is_reversed(source, target, languages) if source else None
    if swap is None:
        raise CorpusError(
            f"{path}:{tag.line}: the file is {source or '(not named)'}-{target or '(not named)'}, "
            f"but the languages asked for are {languages}; give the languages of the file, in either direction"
        )
    return swap


def _texts(path: Path, inline: InlineElements, source: Node | None, target: Node | None) -> tuple[str, str] | None:
    """Return the text of both sides; None if one has no text."""
    if source is None or target is None:
        return None
    texts = inline.plain_text(source), inline.plain_text(target)
    if not (texts[0].strip() and texts[1].strip()):
        return None
    if max(map(len, texts)) > MAX_LINE_BYTES:
        for node, text in zip((source, target), texts, strict=True):
            check_length(f"{path}:{node.line}", f"the text of <{node.tag}>", len(text))
    return texts
