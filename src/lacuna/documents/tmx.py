"""TMX: add what a translation memory lacks in the target language.

A unit that has the source language and no text in the target language gets a ``<tuv>``. All other units stay. A new
``<tuv>`` names the target language as the units before it do. What units further down call it is not known, because
the file is read once and in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from lacuna.corpora.base import language_matches, normalize_language
from lacuna.documents.base import DocumentSegment, Filled
from lacuna.documents.xml_codes import Coded, InlineElements
from lacuna.documents.xml_units import Edit, Node, XmlPart, cut, escape, with_attributes
from lacuna.errors import DocumentError
from lacuna.records import Languages

_INLINE = InlineElements(spans=frozenset({"hi"}), pairs={"bpt": "ept"})
# Languages that an error lists; a file with more is unlikely to have a use for the rest.
_MOST_NAMED = 20
_CONFIDENCE, _REVIEW = "x-lacuna-confidence", "x-lacuna-review"


class TmxFormat:
    """Translation memories in TMX 1.1 to 1.4b."""

    name = "TMX"
    suffixes = (".tmx",)

    def parts(self, file: BinaryIO, name: str, languages: Languages) -> Iterator[bytes | DocumentSegment]:
        """Cut a memory into bytes and units that have the source language.

        :raises DocumentError: The file is malformed, or none of its units has the source language.
        """
        seen: dict[str, None] = {}  # an ordered set
        code = found = ""
        for part in cut(file, name, "tmx", units={"tu"}):
            if isinstance(part, bytes):
                yield part
                continue
            variants = _variants(part)
            if len(seen) < _MOST_NAMED:
                seen.update(dict.fromkeys(variants))
            code = code or _find(list(variants), languages.target) or ""
            found = found or _find(list(variants), languages.source) or ""
            yield _unit(part, variants, languages, code)
        if seen and not found:
            raise DocumentError(
                f"{name}: no unit has {languages.source}; choose from the languages in the file: {', '.join(seen)}"
            )


@dataclass(frozen=True, slots=True)
class _Unit:
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
            if prop.attributes.get("type") in (_CONFIDENCE, _REVIEW):
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
            written.append(f'<{prop} type="{_CONFIDENCE}">{translation.confidence:.2f}</{prop}>')
        if translation.review:
            written.append(f'<{prop} type="{_REVIEW}">{escape(translation.reason)}</{prop}>')
        return separator.join([*written, f"<{segment}>{self.text.markup(translation.text)}</{segment}>"])


def _unit(piece: XmlPart, variants: dict[str, Node], languages: Languages, code: str) -> bytes | DocumentSegment:
    wanted, present = _find(list(variants), languages.source), _find(list(variants), languages.target)
    source = variants[wanted].child("seg") if wanted is not None else None
    if source is None or wanted == present:
        return piece.raw
    text = _INLINE.read(piece, source)
    if not text.has_words:
        return piece.raw
    target = variants[present] if present is not None else None
    segment = target.child("seg") if target is not None else None
    existing = _INLINE.read_like(piece, segment, text) if segment is not None else ""
    unit = _Unit(piece, source, target, code or languages.target.replace("_", "-"), text, existing)
    place = piece.node.attributes.get("tuid") or str(piece.node.line)
    in_review = target is not None and any(prop.attributes.get("type") == _REVIEW for prop in target.children("prop"))
    return DocumentSegment(piece.raw, (text.text,), unit.render, (existing,), place, (in_review,))


def _variants(piece: XmlPart) -> dict[str, Node]:
    """Map each language of a unit, as written, to its ``<tuv>``; the first of several counts."""
    variants: dict[str, Node] = {}
    for variant in piece.node.children("tuv"):
        language = variant.attributes.get("xml:lang") or variant.attributes.get("lang")
        if not language:
            raise DocumentError(
                f"{piece.file}:{variant.line}: malformed TMX (a <tuv> without xml:lang); "
                "name the language of each <tuv>"
            )
        variants.setdefault(" ".join(language.split()), variant)
    return variants


def _find(languages: Sequence[str], wanted: str) -> str | None:
    """Return the language as written that is the one wanted, or else the first regional form of it."""
    exact = (language for language in languages if normalize_language(language) == normalize_language(wanted))
    return next(exact, None) or next((language for language in languages if language_matches(wanted, language)), None)
