"""XLIFF 1.x and 2.x: the segments of a unit, their states, and the languages of a file.

Extensions of single tools, such as the segment status of Trados, are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lacuna.formats.inline_elements import InlineElements
from lacuna.formats.xml_units import Node

ROOT = "xliff"
UNITS = frozenset({"trans-unit", "unit"})
#: Elements outside of units that name languages and files.
TAGS = frozenset({"xliff", "file"})
#: The detail of the state ``initial`` of XLIFF 2 by which Lacuna recognizes its own translations.
REVIEW = "lacuna:needs-review"

INLINE_1 = InlineElements(
    spans=frozenset({"g", "mrk"}), pairs={"bpt": "ept", "bx": "ex"}, codes=frozenset({"it", "ph", "x"})
)
INLINE_2 = InlineElements(spans=frozenset({"pc", "mrk"}), pairs={"sc": "ec", "sm": "em"}, codes=frozenset({"ph", "cp"}))
# The states of XLIFF 1 in which a target is a draft at most, such as a copy of the source.
_DRAFTS = frozenset({"new", "needs-translation", "needs-l10n", "needs-adaptation"})


class TargetState(NamedTuple):
    """What the state of a target says.

    :param is_draft: It is to be translated again.
    :param unfinished: Someone still has to look at it, whether it is a draft or not.
    """

    is_draft: bool
    unfinished: bool


class XliffSegment(NamedTuple):
    """A text and its translation.

    :param source: The element with the text.
    :param target: The element with its translation, if there is one.
    :param label: What tells it from others in the unit; empty if it is the only one.
    """

    source: Node
    target: Node | None
    state: TargetState
    label: str


@dataclass(slots=True)
class XliffUnit:
    """A ``<trans-unit>`` of XLIFF 1 or a ``<unit>`` of XLIFF 2.

    :param segments: Its segments: all of it in XLIFF 1, unless it has marks around segments.
    """

    node: Node
    segments: list[XliffSegment]

    @classmethod
    def parse(cls, node: Node) -> XliffUnit:
        """Find the segments of a unit."""
        return cls(node, list(_segments_1(node) if node.name == "trans-unit" else _segments_2(node)))

    @property
    def is_1(self) -> bool:
        """Whether it is of XLIFF 1."""
        return self.node.name == "trans-unit"

    @property
    def inline(self) -> InlineElements:
        """Its inline elements."""
        return INLINE_1 if self.is_1 else INLINE_2


def languages_named(tag: Node) -> tuple[str, str] | None:
    """Return source and target language that a tag names, empty where it names none; None if others name them.

    :param tag: ``<xliff>``, which names them in XLIFF 2, or ``<file>``, which does in XLIFF 1.
    """
    names = language_attributes(tag)
    if names is None:
        return None
    source, target = (" ".join(tag.attributes.get(name, "").split()) for name in names)
    return source, target


def language_attributes(tag: Node) -> tuple[str, str] | None:
    """Return the attributes of a tag that name source and target language; None if those of other tags do."""
    root = tag.parent or tag
    is_2 = root.attributes.get("version", "").startswith("2") or "srcLang" in root.attributes
    if is_2 != (tag is root):
        return None
    return ("srcLang", "trgLang") if is_2 else ("source-language", "target-language")


def _segments_1(unit: Node) -> Iterator[XliffSegment]:
    source, segmented, target = (unit.child(name) for name in ("source", "seg-source", "target"))
    if source is None:
        return
    named = target.attributes.get("state", "") if target is not None else ""
    state = TargetState(named in _DRAFTS, named == "new" or named.startswith("needs-"))
    marks = _marks(segmented)
    targets = {mark.attributes.get("mid"): mark for mark in _marks(target)} if marks else {}
    if marks and (targets or state.is_draft or target is None or _is_blank(target)):
        for mark in marks:
            name = mark.attributes.get("mid")
            yield XliffSegment(mark, targets.get(name), state, name or "")
    else:  # not segmented, or translated as a whole
        yield XliffSegment(source, target, state, "")


def _is_blank(node: Node) -> bool:
    return not any(isinstance(item, Node) or item.strip() for item in node.items)


def _marks(node: Node | None) -> list[Node]:
    """Return the elements that enclose the segments in an element, in order."""
    marks: list[Node] = []
    left: list[Node | str] = [node] if node is not None else []
    while left:
        item = left.pop()
        if isinstance(item, str):
            continue
        if item.name == "mrk" and item.attributes.get("mtype") == "seg":
            marks.append(item)
        else:
            left += reversed(item.items)
    return marks


def _segments_2(unit: Node) -> Iterator[XliffSegment]:
    segments = unit.children("segment")
    for number, segment in enumerate(segments, start=1):
        source, target = segment.child("source"), segment.child("target")
        if source is None:
            continue
        label = (segment.attributes.get("id") or str(number)) if len(segments) > 1 else ""
        # A target in the state "initial" is a draft, unless we have written it.
        is_initial, detail = segment.attributes.get("state") == "initial", segment.attributes.get("subState")
        yield XliffSegment(source, target, TargetState(is_initial and detail != REVIEW, is_initial), label)
