"""The inline elements of an XML format: which have text of the sentence inside, and which stand for native codes."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from lacuna.formats.xml_units import Node


@dataclass(frozen=True, slots=True)
class InlineElements:
    r"""How a format marks codes inside a sentence.

    :param spans: Names of elements with text inside.
    :param pairs: Names of elements that stand for the start of a span, and of those that stand for its end.
    :param codes: Names of elements that stand for another code, such as an image.
    """

    spans: Set[str]
    pairs: Mapping[str, str]
    codes: Set[str] = frozenset()

    def plain_text(self, node: Node) -> str:
        r"""Return the text of an element without codes.

        What is inside a code, such as ``{\b``, is not part of the sentence. The text of unknown elements is kept: words
        would be missing without it.
        """
        items = node.items
        if len(items) == 1 and isinstance(items[0], str):
            return items[0]
        parts: list[str] = []
        left = items[::-1]
        while left:
            item = left.pop()
            if isinstance(item, str):
                parts.append(item)
            elif not self._is_code(item.name):
                left += reversed(item.items)
        return "".join(parts)

    def _is_code(self, name: str) -> bool:
        return name in self.codes or name in self.pairs or name in self.pairs.values()
