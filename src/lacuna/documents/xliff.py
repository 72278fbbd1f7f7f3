"""XLIFF 1.x and 2.x: write translations next to their sources.

How sure a translation is goes to its state and to a note from Lacuna. Existing translations stay, unless their state
says that they are to be made. Extensions of single tools, such as the segment status of Trados, stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from lacuna.documents.base import DocumentSegment, Filled
from lacuna.documents.xml_codes import Coded, read_coded, read_translation
from lacuna.errors import DocumentError
from lacuna.formats.languages import base_language
from lacuna.formats.xliff_segments import (
    REVIEW,
    ROOT,
    TAGS,
    UNITS,
    XliffSegment,
    XliffUnit,
    language_attributes,
    languages_named,
)
from lacuna.formats.xml_units import Edit, Node, XmlPart, cut, escape, with_attributes
from lacuna.records import Languages


class XliffFormat:
    """XLIFF, also as written by Trados, Phrase and memoQ."""

    name = "XLIFF"
    suffixes = (".xlf", ".xliff", ".xlf2", ".xliff2", ".sdlxliff", ".mxliff", ".mqxliff")

    def parts(self, file: BinaryIO, name: str, languages: Languages) -> Iterator[bytes | DocumentSegment]:
        """Cut a file into bytes, units, and the tags that name the languages.

        :raises DocumentError: The file is malformed, or its languages are others.
        """
        for part in cut(file, name, ROOT, UNITS, TAGS):
            if isinstance(part, bytes):
                yield part
            elif part.node.name in TAGS:
                yield _tag(part, languages)
            elif part.node.inherited("translate") == "no":
                yield part.raw
            else:
                yield _unit(part)


# --- languages -------------------------------------------------------------------------------------------------------


def _tag(piece: XmlPart, languages: Languages) -> bytes | DocumentSegment:
    """Check the languages that a tag names, and have the target language added if it is missing."""
    names, named = language_attributes(piece.node), languages_named(piece.node)
    if names is None or named is None:
        return piece.raw
    source, target = named
    if not (_agree(source, languages.source) and _agree(target, languages.target)):
        raise DocumentError(
            f"{piece.where}: the file is {source or '(not named)'}-{target or '(not named)'}, "
            f"but the languages asked for are {languages}; give the languages of the file"
        )
    if target:
        return piece.raw
    added = with_attributes(piece.read(0, len(piece.raw)), {names[1]: languages.target.replace("_", "-")})
    return DocumentSegment(piece.raw, (), lambda _: piece.splice([(0, len(piece.raw), added)]))


def _agree(given: str, wanted: str) -> bool:
    return not given or base_language(given) == base_language(wanted)


# --- both versions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Slot:
    """A text to translate.

    :param source: The element with the text.
    :param target: The element with its translation, if there is one.
    :param text: The text.
    :param existing: The translation that is kept, or an empty string.
    :param unfinished: Whether there is a translation that is not finished; a copy of the source is none.
    :param label: What tells it from others in the unit.
    """

    source: Node
    target: Node | None
    text: Coded
    existing: str
    unfinished: bool
    label: str

    def keeps(self, filled: Filled) -> bool:
        """Whether this is the translation that the file already has."""
        return filled.text == self.existing


def _unit(piece: XmlPart) -> bytes | DocumentSegment:
    unit = XliffUnit.parse(piece.node)
    all_slots = [_slot(piece, unit, segment) for segment in unit.segments]
    slots = [slot for slot in all_slots if slot is not None]
    if not slots:
        return piece.raw
    render = _Unit1.of(piece, slots).render if unit.is_1 else partial(_render_2, piece, slots)
    place = piece.node.attributes.get("id") or str(piece.node.line)
    texts, existing = tuple(slot.text.text for slot in slots), tuple(slot.existing for slot in slots)
    unfinished = tuple(slot.unfinished for slot in slots)
    return DocumentSegment(piece.raw, texts, render, existing, place, unfinished)


def _slot(piece: XmlPart, unit: XliffUnit, segment: XliffSegment) -> _Slot | None:
    """Return the slot for a text, or None if there is nothing to translate."""
    target, state = segment.target, segment.state
    text = read_coded(unit.inline, piece, segment.source)
    if not text.has_words:
        return None
    translation = "" if target is None else read_translation(unit.inline, piece, target, text)
    unfinished = state.unfinished and bool(translation.strip()) and translation != text.text
    return _Slot(segment.source, target, text, "" if state.is_draft else translation, unfinished, segment.label)


def _remark(new: Sequence[tuple[_Slot, Filled]]) -> str:
    """Return what a note says of new translations: how sure they are, and why a person should look at them."""
    remarks = []
    for slot, filled in new:
        said = [f"confidence {filled.confidence:.2f}"] if filled.confidence is not None else []
        if filled.review:
            said.append(f"review: {filled.reason}" if filled.reason else "review")
        if said:
            label = f"segment {slot.label}: " if slot.label else ""
            remarks.append(label + "; ".join(said))
    return escape(" | ".join(remarks))


def _target_tag(piece: XmlPart, target: Node | None, source: Node, values: dict[str, str | None]) -> str:
    """Return the start tag of a target; a new one treats white space as its source does."""
    if target is not None:
        return piece.start_tag(target, values)
    space = {"xml:space": source.attributes.get("xml:space")}
    return with_attributes(f"<{piece.node.sibling_tag('target')}>", space | values)


# --- XLIFF 1 ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Unit1:
    """A ``<trans-unit>``.

    :param before: The element after which the target belongs.
    :param around: The element that has all texts inside; the target gets the same structure.
    :param target: The target, if there is one.
    :param slots: The texts to translate.
    """

    piece: XmlPart
    before: Node
    around: Node
    target: Node | None
    slots: Sequence[_Slot]

    @classmethod
    def of(cls, piece: XmlPart, slots: Sequence[_Slot]) -> _Unit1:
        """Return a unit that has at least one text to translate."""
        source, first = piece.node.child("source"), slots[0].source
        before = piece.node.child("seg-source") or first
        return cls(piece, before, first if first is source else before, piece.node.child("target"), slots)

    def render(self, filled: Sequence[Filled]) -> bytes:
        new = [(slot, given) for slot, given in zip(self.slots, filled, strict=True) if not slot.keeps(given)]
        return self.piece.splice(self._edits(filled, new)) if new else self.piece.raw

    def _edits(self, filled: Sequence[Filled], new: Sequence[tuple[_Slot, Filled]]) -> Iterator[Edit]:
        piece, unit, target = self.piece, self.piece.node, self.target
        if unit.attributes.get("approved") == "yes":  # the new text has not been approved
            yield unit.start, unit.content, piece.start_tag(unit, {"approved": "no"})
        is_review, is_match = any(given.review for _, given in new), all(given.match for _, given in new)
        values: dict[str, str | None] = {
            "state": "needs-review-translation" if is_review else "translated",
            "state-qualifier": "exact-match" if is_match else "mt-suggestion",
        }
        tag = unit.sibling_tag("target")
        written = f"{_target_tag(piece, target, self.around, values)}{self._inside(filled)}</{tag}>"
        if target is None:
            yield self.before.end, self.before.end, piece.indent(self.before) + written
        else:
            yield target.start, target.end, written
        yield from self._note_edits(_remark(new))

    def _note_edits(self, remark: str) -> Iterator[Edit]:
        """Yield what replaces an earlier note of Lacuna, in the order that also XLIFF 1.1 allows."""
        piece, unit = self.piece, self.piece.node
        ours = {note for note in unit.children("note") if note.attributes.get("from") == "lacuna"}
        yield from (piece.removal(note) for note in ours)
        if remark:
            last = self.target or self.before
            for each in unit.children("context-group", "count-group", "prop-group", "note"):
                if each not in ours and each.start > last.start:
                    last = each
            tag = unit.sibling_tag("note")
            yield last.end, last.end, f'{piece.indent(self.before)}<{tag} from="lacuna">{remark}</{tag}>'

    def _inside(self, filled: Sequence[Filled]) -> str:
        parts, last = [], self.around.content
        for slot, given in zip(self.slots, filled, strict=True):
            kept = slot.target if slot.keeps(given) else None
            written = slot.text.markup(given.text) if kept is None else self.piece.inside(kept)
            parts += [self.piece.read(last, slot.source.content), written]
            last = slot.source.content_end
        return "".join([*parts, self.piece.read(last, self.around.content_end)])


# --- XLIFF 2 ---------------------------------------------------------------------------------------------------------


def _render_2(piece: XmlPart, slots: Sequence[_Slot], filled: Sequence[Filled]) -> bytes:
    new = [(slot, given) for slot, given in zip(slots, filled, strict=True) if not slot.keeps(given)]
    edits = [edit for slot, given in new for edit in _edits_2(piece, slot, given)]
    return piece.splice([*edits, *_note_edits_2(piece, _remark(new))]) if new else piece.raw


def _edits_2(piece: XmlPart, slot: _Slot, filled: Filled) -> Iterator[Edit]:
    segment, target = slot.source.parent, slot.target
    if segment is not None:
        state, detail = ("initial", REVIEW) if filled.review else ("translated", None)
        yield segment.start, segment.content, piece.start_tag(segment, {"state": state, "subState": detail})
    tag = piece.node.sibling_tag("target")
    written = f"{_target_tag(piece, target, slot.source, {})}{slot.text.markup(filled.text)}</{tag}>"
    if target is None:
        yield slot.source.end, slot.source.end, piece.indent(slot.source) + written
    else:
        yield target.start, target.end, written


def _note_edits_2(piece: XmlPart, remark: str) -> Iterator[Edit]:
    """Yield what replaces earlier notes of Lacuna. ``<notes>`` may not be empty, and comes before the segments."""
    unit = piece.node
    tag, around, notes = unit.sibling_tag("note"), unit.sibling_tag("notes"), unit.child("notes")
    note = f'<{tag} category="lacuna">{remark}</{tag}>' if remark else ""
    existing = notes.children("note") if notes is not None else []
    others = [each for each in existing if each.attributes.get("category") != "lacuna"]
    if notes is None:
        if note:
            first = unit.children("originalData", "segment", "ignorable")[0]
            yield first.start, first.start, f"<{around}>{note}</{around}>{piece.indent(first)}"
    elif not others:
        yield (notes.start, notes.end, f"<{around}>{note}</{around}>") if note else piece.removal(notes)
    else:
        yield from (piece.removal(each) for each in existing if each.attributes.get("category") == "lacuna")
        if note:
            yield others[-1].end, others[-1].end, piece.indent(others[-1]) + note
