r"""TMX and XLIFF, streamed unit by unit.

Files are not trusted: entities are not expanded, no DTD is loaded, nothing is downloaded, and the size of a unit is
bounded. The text inside ``<hi>``, ``<g>``, ``<pc>`` and ``<mrk>`` is kept. Elements for native codes (``<bpt>``,
``<ph>`` ...) are dropped with their content, because a code such as ``{\b`` is not part of the sentence. Knows nothing
of origins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from lxml import etree

from lacuna.corpora.base import LONGEST_LINE, Unit, check_length, language_matches, normalize_language, open_bytes
from lacuna.errors import CorpusError
from lacuna.records import Languages

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = frozenset({"bpt", "ept", "it", "ph", "ut", "x", "bx", "ex", "sc", "ec", "sm", "em", "cp"})
# Bytes that may precede the end of a unit. XML files need no line breaks, so lines are not bounded.
_LARGEST_UNIT = 16 * LONGEST_LINE
# The states of XLIFF that correspond to fuzzy and untranslated messages in PO.
_UNFINISHED = re.compile(r"new|initial|needs-.*")


def read_tmx(path: Path, languages: Languages | None) -> Iterator[Unit]:
    """Yield the units that have both languages, chosen by ``xml:lang`` (``de`` takes ``de-DE``).

    Without ``languages`` the file must have exactly two. The source is the header's ``srclang``, or else the first
    language in the file.
    """
    chosen: tuple[str, str] | None = None
    preferred = ""
    seen: dict[str, None] = {}  # an ordered set
    found = ordinal = 0
    for _, element in _walk(path, "tmx", ends=("header", "tu")):
        if _name(element) == "header":
            preferred = element.get("srclang", "")
            continue
        ordinal += 1
        segments = _segments(path, element)
        seen.update(dict.fromkeys(segments))
        if languages is None:
            chosen = chosen or _only_two(list(seen), preferred)
            sides = _pick_known(path, element, segments, chosen, seen)
        else:
            sides = (_find(segments, languages.source), _find(segments, languages.target))
        source, target = (_text(path, side) if side is not None else "" for side in sides)
        if source.strip() and target.strip():
            found += 1
            own = element.get("tuid")
            yield Unit(source, target, own or str(ordinal), id=own)
    if languages is not None and seen and not found:
        raise CorpusError(
            f"{path}: no unit has both {languages.source} and {languages.target}; "
            f"choose from the languages in the file: {', '.join(seen)}"
        )


def read_xliff(path: Path, languages: Languages | None) -> Iterator[Unit]:
    """Yield the translated units of XLIFF 1.x and the translated segments of XLIFF 2.x."""
    swap = False
    files = ordinal = 0
    prefix = ""
    for event, element in _walk(path, "xliff", starts=("xliff", "file"), ends=("trans-unit", "unit")):
        if event == "start":
            if _names_languages(element):
                swap = _is_reversed(path, element, languages)
            if _name(element) == "file":
                # Ids are unique within one <file> only, so ids of further files are prefixed with its name.
                files += 1
                name = element.get("original") or element.get("id") or str(files)
                prefix = f"{name}/" if files > 1 else ""
            continue
        ordinal += 1
        for part, segment in _segments_of(element):
            source, target = (_child_text(path, segment, side) for side in ("source", "target"))
            if source.strip() and target.strip() and not _unfinished(segment):
                place = f"{prefix}{element.get('id') or ordinal}{part}"
                yield Unit(target, source, place) if swap else Unit(source, target, place)


def _walk(
    path: Path, root: str, starts: Sequence[str] = (), ends: Sequence[str] = ()
) -> Iterator[tuple[str, etree._Element]]:
    """Yield elements while parsing, and free each ``ends`` element after use, so that memory does not grow."""
    events = ("start", "end") if starts else ("end",)
    with open_bytes(path) as file:
        bounded = _BoundedFile(path, file)
        parser = etree.iterparse(
            bounded,
            events=events,
            tag=[f"{{*}}{name}" for name in (*starts, *ends)],
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
        )
        try:
            for event, element in parser:
                if (_name(element) in starts) == (event == "start"):
                    yield event, element
                if event == "end" and _name(element) in ends:
                    _release(element)
                    bounded.since_unit = 0
        except etree.XMLSyntaxError as error:
            raise _malformed(path, root, error) from error
        _check_root(path, root, parser)


class _BoundedFile:
    """A file that refuses to be read further if no unit has ended for :data:`_LARGEST_UNIT` bytes.

    The parser keeps everything since the last unit in memory, and a small compressed file can unpack to any size.

    :param since_unit: Bytes read since the last unit ended.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.since_unit = 0
        self._path, self._file = path, file

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes."""
        data = self._file.read(size)
        self.since_unit += len(data)
        if self.since_unit > _LARGEST_UNIT:
            raise CorpusError(
                f"{self._path}: more than {_LARGEST_UNIT:,} bytes without the end of a unit; "
                "check that the file is a translation memory or XLIFF"
            )
        return data


def _release(element: etree._Element) -> None:
    """Free an element and everything before it, except for its ancestors."""
    element.clear()
    kept: etree._Element | None = element
    while kept is not None:
        parent = kept.getparent()
        while parent is not None and kept.getprevious() is not None:
            del parent[0]
        kept = parent


def _check_root(path: Path, root: str, parser: Any) -> None:  # noqa: ANN401 - the stubs lack iterparse.root
    name = _name(parser.root)
    if name != root:
        raise CorpusError(f"{path}: not {root.upper()}, its root element is <{name}>; check the suffix of the file")


def _malformed(path: Path, root: str, error: etree.XMLSyntaxError) -> CorpusError:
    line = error.lineno or 1
    # lxml repeats line and column at the end of the message.
    reason = re.sub(r"(, line \d+, column \d+)?( \([^)]*, line \d+\))?$", "", str(error.msg or "no content"))
    return CorpusError(
        f"{path}:{line}: malformed {root.upper()} ({reason}); export the file again, or correct that line"
    )


def _name(element: etree._Element) -> str:
    # Not etree.QName, which raises its own error at a broken namespace before the parser does.
    return str(element.tag).rpartition("}")[2]


def _text(path: Path, element: etree._Element) -> str:
    parts = [element.text or ""]
    for child in element:
        if not isinstance(child.tag, str):
            raise CorpusError(
                f"{path}:{element.sourceline}: the text uses the entity {child.text}, and entities are not expanded "
                "for safety; write the characters themselves"
            )
        if _name(child) not in _CODES:
            parts.append(_text(path, child))
        parts.append(child.tail or "")
    text = "".join(parts)
    check_length(f"{path}:{element.sourceline}", f"the text of <{_name(element)}>", len(text))
    return text


def _segments(path: Path, unit: etree._Element) -> dict[str, etree._Element]:
    """Map each language of a TMX unit, normalized, to its segment; the first of several variants counts."""
    segments: dict[str, etree._Element] = {}
    for variant in unit.iterchildren("{*}tuv"):
        # TMX before 1.4 has a plain lang attribute.
        language = variant.get(_LANG) or variant.get("lang")
        if not language:
            raise CorpusError(
                f"{path}:{variant.sourceline}: malformed TMX (a <tuv> without xml:lang); "
                "name the language of each <tuv>"
            )
        segment = next(variant.iterchildren("{*}seg"), None)
        if segment is not None:
            segments.setdefault(normalize_language(language), segment)
    return segments


def _find(segments: dict[str, etree._Element], wanted: str) -> etree._Element | None:
    exact = segments.get(normalize_language(wanted))
    if exact is not None:
        return exact
    return next((segment for found, segment in segments.items() if language_matches(wanted, found)), None)


def _only_two(seen: list[str], preferred: str) -> tuple[str, str] | None:
    if len(seen) < 2:
        return None
    first, second = seen[:2]
    is_second = bool(preferred) and not language_matches(preferred, first) and language_matches(preferred, second)
    return (second, first) if is_second else (first, second)


def _pick_known(
    path: Path,
    unit: etree._Element,
    segments: dict[str, etree._Element],
    chosen: tuple[str, str] | None,
    seen: dict[str, None],
) -> tuple[etree._Element | None, etree._Element | None]:
    if len(seen) > 2:
        raise CorpusError(
            f"{path}:{unit.sourceline}: languages are missing; the file has {', '.join(seen)}: choose two, as in de-en"
        )
    return (segments.get(chosen[0]), segments.get(chosen[1])) if chosen else (None, None)


def _names_languages(element: etree._Element) -> bool:
    """Tell whether this element names the languages: <file> in XLIFF 1, <xliff> in XLIFF 2."""
    if _name(element) == "file":
        root = element.getroottree().getroot()
        return root.get("srcLang") is None
    return element.get("srcLang") is not None


def _is_reversed(path: Path, element: etree._Element, languages: Languages | None) -> bool:
    if languages is None:
        return False
    source = element.get("source-language") or element.get("srcLang")
    target = element.get("target-language") or element.get("trgLang")
    if source:
        for left, right, swap in (
            (languages.source, languages.target, False),
            (languages.target, languages.source, True),
        ):
            if language_matches(left, source) and (not target or language_matches(right, target)):
                return swap
    raise CorpusError(
        f"{path}:{element.sourceline}: the file is {source or '(not named)'}-{target or '(not named)'}, "
        f"but the languages asked for are {languages}; give the languages of the file, in either direction"
    )


def _segments_of(unit: etree._Element) -> Iterator[tuple[str, etree._Element]]:
    """Yield an id suffix and the parent of <source> and <target>: the unit in XLIFF 1, each segment in XLIFF 2."""
    if _name(unit) == "trans-unit":
        yield "", unit
        return
    segments = list(unit.iterchildren("{*}segment"))
    for number, segment in enumerate(segments, start=1):
        yield "" if len(segments) == 1 else f"/{segment.get('id') or number}", segment


def _child_text(path: Path, parent: etree._Element, name: str) -> str:
    child = next(parent.iterchildren(f"{{*}}{name}"), None)
    return "" if child is None else _text(path, child)


def _unfinished(segment: etree._Element) -> bool:
    target = next(segment.iterchildren("{*}target"), None)
    state = segment.get("state") or (target.get("state") if target is not None else None) or ""
    return _UNFINISHED.fullmatch(state) is not None
