"""Inline elements: what is text of the sentence."""

import pytest

from lacuna.formats.inline_elements import InlineElements
from unit.documents.xml_files import unit

INLINE = InlineElements(spans=frozenset({"g"}), pairs={"bpt": "ept"}, codes=frozenset({"ph"}))


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("one", "one"),
        ("", ""),
        (" <g>one <g>two</g></g> three ", " one two three "),
        ("<bpt>{\\b</bpt>one<ept>}</ept><ph>{<g>not</g>}</ph>", "one"),
        ("one <unknown>two</unknown>", "one two"),
        ("one<!-- not --> two<?not not?>", "one two"),
        ("<g>" * 900 + "deep" + "</g>" * 900, "deep"),
    ],
)
def test_codes_are_left_out_and_the_text_around_them_stays(inside: str, expected: str) -> None:
    assert INLINE.plain_text(unit(inside).node) == expected
