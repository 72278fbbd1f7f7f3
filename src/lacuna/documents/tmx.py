"""TMX: add what a translation memory lacks in the target language.

A unit that has the source language and no text in the target language gets a ``<tuv>``. All other units stay. A new
``<tuv>`` names the target language as the units before it do. What units further down call it is not known, because
the file is read once and in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from lacuna.documents.base import DocumentSegment, Filled
from lacuna.documents.xml_codes import Coded, read_coded, read_translation
from lacuna.errors import DocumentError
from lacuna.formats.tmx_variants import (
    CONFIDENCE,
    INLINE,
    MAX_NAMED_LANGUAGES,
    REVIEW,
    ROOT,
    UNITS,
    TmxUnit,
    language_of,
    needs_review,
)
from lacuna.formats.xml_units import Edit, Node, XmlPart, cut, escape, with_attributes
from lacuna.records import Languages


class TmxFormat:
    """Translation memories in TMX 1.1 to 1.4b."""

    name = "TMX"
    suffixes = (".tmx",)

    def parts(self, file: BinaryIO, name: str, languages: Languages) -> Iterator[bytes | DocumentSegment]:
        """Cut a memory into bytes and units that have the source language.

        :raises DocumentError: The file is malformed, or none of its units has the source language.
        """
        seen: dict[str, None] = {}  # an ordered set
        code, has_source = "", False
        for part in cut(file, name, ROOT, UNITS):
            if isinstance(part, bytes):
                yield part
                continue
            unit = TmxUnit.parse(part.node, name)
            if len(seen) < MAX_NAMED_LANGUAGES:
                seen.update(dict.fromkeys(unit.variants))
            source, target = unit.sides(languages)
            code = code or (language_of(target) if target is not None else "")
            has_source = has_source or source is not None
            yield _segment(part, source, target, code or languages.target.replace("_", "-"))
        if seen and not has_source:
            raise DocumentError(
                f"{name}: no unit has {languages.source}; choose from the languages in the file: {', '.join(seen)}"
            )


@dataclass(frozen=True, slots=True)
class _Variants:
    """A unit with text in the source language.

    :param piece: The ``<tu>``.
    :param source: Its ``<seg>`` in the source language.
    :param target: Its ``<tuv>`` in the target language, if there is one.
    :param code: What to call the target language.
    :param text: The text to translate.
    :param existing: The translation that it already has, or an empty string.
    """

    piece: XmlPart
    source: Node
    target: Node | None
    code: str
    text: Coded
    existing: str

    def render(self, filled: Sequence[Filled]) -> bytes:
        (translation,) = filled
        if translation.text == self.existing:
            return self.piece.raw
        if self.target is None:
            return self.piece.splice([self._added(translation)])
        return self.piece.splice(self._changed(self.target, translation))

    def _added(self, translation: Filled) -> Edit:
        tag, last = self.piece.node.sibling_tag("tuv"), self.piece.node.children("tuv")[-1]
        before, after = self._around_source()
        inside = self._segment(translation, before)
        name = "lang" if "lang" in last.attributes else "xml:lang"  # the former in TMX before 1.4
        start = with_attributes(f"<{tag}>", {name: self.code})
        return last.end, last.end, f"{self.piece.indent(last)}{start}{before}{inside}{after}</{tag}>"

    def _changed(self, target: Node, translation: Filled) -> Iterator[Edit]:
        for prop in target.children("prop"):
            if prop.attributes.get("type") in (CONFIDENCE, REVIEW):
                yield self.piece.removal(prop)
        segment = target.child("seg")
        if segment is not None:
            yield segment.start, segment.end, self._segment(translation, self.piece.indent(segment))
        else:
            before, after = self._around_source()
            inside = self._segment(translation, before)
            tag = self.piece.start_tag(target, {})
            kept = self.piece.inside(target).rstrip()
            yield target.start, target.end, f"{tag}{kept}{before}{inside}{after}</{target.tag}>"

    def _around_source(self) -> tuple[str, str]:
        """Return the white space before and after the segment of the source language."""
        variant = self.source.parent
        after = self.piece.read(self.source.end, variant.content_end) if variant is not None else ""
        return self.piece.indent(self.source), "" if after.strip() else after

    def _segment(self, translation: Filled, separator: str) -> str:
        prop, segment = self.piece.node.sibling_tag("prop"), self.piece.node.sibling_tag("seg")
        written = []
        if translation.confidence is not None:
            written.append(f'<{prop} type="{CONFIDENCE}">{translation.confidence:.2f}</{prop}>')
        if translation.review:
            written.append(f'<{prop} type="{REVIEW}">{escape(translation.reason)}</{prop}>')
        return separator.join([*written, f"<{segment}>{self.text.markup(translation.text)}</{segment}>"])


def _segment(piece: XmlPart, source: Node | None, target: Node | None, code: str) -> bytes | DocumentSegment:
    text_node = source.child("seg") if source is not None else None
    if text_node is None:
        return piece.raw
    text = read_coded(INLINE, piece, text_node)
    if not text.has_words:
        return piece.raw
    translated = target.child("seg") if target is not None else None
    existing = read_translation(INLINE, piece, translated, text) if translated is not None else ""
    unit = _Variants(piece, text_node, target, code, text, existing)
    place = piece.node.attributes.get("tuid") or str(piece.node.line)
    unfinished = target is not None and needs_review(target)
    return DocumentSegment(piece.raw, (text.text,), unit.render, (existing,), place, (unfinished,))
