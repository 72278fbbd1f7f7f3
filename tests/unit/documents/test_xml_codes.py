"""Inline codes of XML formats: which elements belong together, and that markup comes back."""

import pytest
from hypothesis import given

from lacuna.corpora.placeholders import ALONE, CLOSING, OPENING, is_nested
from lacuna.documents.xml_codes import read_coded, read_translation
from lacuna.errors import DocumentError
from lacuna.formats.inline_elements import InlineElements
from unit.documents.xml_files import CONTENT, unit

INLINE = InlineElements(spans=frozenset({"g"}), pairs={"bpt": "ept"})


def coded(text: str) -> str:
    """Write codes as letters: A and a for a pair, 1 for one that stands alone."""
    names = {
        **{chr(OPENING + n): chr(65 + n) for n in range(9)},
        **{chr(CLOSING + n): chr(97 + n) for n in range(9)},
        **{chr(ALONE + n): chr(49 + n) for n in range(9)},
    }
    return "".join(names.get(letter, letter) for letter in text)


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<g id='1'>.<g id='2'>,</g></g>", "A.B,ba"),
        ("<g id='1'/>.<x id='2'>-</x>", "1.2"),
        ("<bpt id='1'>&lt;b></bpt>.<ept id='1'>&lt;/b></ept>", "A.a"),
        ("<bpt id='5' rid='1'/>.<ept id='6' rid='1'/>", "A.a"),
        ("<bpt id='1'/>.<bpt id='2'/>,<ept id='1'/>;<ept id='2'/>", "A.1,a;2"),
        ("<bpt id='1'/>.<g>,<ept id='1'/></g>", "1.A,2a"),
        ("<g>.<bpt id='1'/>,</g><ept id='1'/>", "A.1,a2"),
        ("<bpt id='1'/>.<g>,</g><ept id='1'/>", "A.B,ba"),
        ("<bpt id='1'/>.<bpt id='1'/>,<ept id='1'/>", "1.A,a"),
        ("<ept id='1'/>.<bpt id='1'/>", "1.2"),
        ("<g mtype='protected'>.</g>,<!-- -->", "1,2"),
        ("\ue000.\ue000", "1.2"),
    ],
)
def test_inline_elements_become_codes(inside: str, expected: str) -> None:
    piece = unit(inside)
    text = read_coded(INLINE, piece, piece.node)
    assert coded(text.text) == expected
    assert text.markup(text.text) == inside


def test_a_translation_has_the_codes_of_its_source() -> None:
    piece = unit(
        "<s><g id='1'>.</g><x id='2' a=''/><x id='3'/>\ue001</s><t>\ue001<x a='' id='3'/>!<x id='2'/><x id='9'/></t>"
    )
    source, target = piece.node.children("s", "t")
    text = read_coded(INLINE, piece, source)
    assert coded(text.text) == "A.a123"
    assert coded(read_translation(INLINE, piece, target, text)) == "32!14"


def test_white_space_around_a_text_is_put_back() -> None:
    piece = unit("\n  a\u00a0<x/>\t ")
    text = read_coded(INLINE, piece, piece.node)
    assert (coded(text.text), text.has_words) == ("a\u00a01", True)
    assert text.markup("b & c") == "\n  b &amp; c\t "


@pytest.mark.parametrize("inside", ["", " \n", "<x/>", " <g> <x/></g>"])
def test_codes_alone_are_no_words(inside: str) -> None:
    piece = unit(inside)
    assert not read_coded(INLINE, piece, piece.node).has_words


def test_too_many_codes_are_an_error_with_a_place() -> None:
    piece = unit("a<x/>" * 3_000)
    with pytest.raises(DocumentError, match=r"a\.xml:1: more than 2,304 inline codes"):
        read_coded(INLINE, piece, piece.node)


@given(CONTENT)
def test_the_same_text_gives_the_same_markup(content: str) -> None:
    piece = unit(content)
    coded = read_coded(INLINE, piece, piece.node)
    assert is_nested(coded.text)
    assert read_translation(INLINE, piece, piece.node, coded) == coded.text
    again = unit(coded.markup(coded.text))
    assert read_coded(INLINE, again, again.node).text == coded.text


def test_spans_may_nest_as_deep_as_elements() -> None:
    piece = unit("<g>" * 900 + "a" + "</g>" * 900)
    text = read_coded(INLINE, piece, piece.node)
    assert text.markup(text.text) == piece.inside(piece.node)
