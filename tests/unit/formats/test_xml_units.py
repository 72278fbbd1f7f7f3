"""XML as units: places in the bytes, encodings, and files that are not trusted."""

import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import DocumentError
from lacuna.formats import xml_units
from lacuna.formats.xml_units import Node, XmlPart, cut, escape, read_units, with_attributes
from unit.documents.xml_files import CONTENT, Chunks, pieces, unit

ENCODINGS = (
    ("utf-8", ""),
    ("utf-8-sig", ""),
    ("utf-16", ""),
    ("utf-16", 'encoding="UTF-16"'),
    ("iso-8859-1", 'encoding="ISO-8859-1"'),
    ("cp1252", 'encoding="windows-1252"'),
    ("koi8-r", 'encoding="KOI8-R"'),
    ("ascii", 'encoding="US-ASCII"'),
)


def error(content: bytes) -> str:
    with pytest.raises(DocumentError) as caught:
        list(cut(io.BytesIO(content), "a.xml", "r", {"u"}))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("encoding", "declared"), ENCODINGS)
@pytest.mark.parametrize("line", ["\n", "\r\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 64, 10_000])
def test_places_are_right_in_each_encoding(encoding: str, declared: str, line: str, size: int) -> None:
    text = line.join(
        [
            f'<?xml version="1.0" {declared}?>',
            "<!-- <u>not a unit</u> -->",
            '<r><f a="&gt;">',
            '<u a="1/">é <x/><g id=">"></g ><![CDATA[<&]]><!-- d -->&lt;<?p i?><y b=">"/>',
            "</u ><u/></f></r>",
        ]
    )
    tag, first, second = pieces(text.encode(encoding, "xmlcharrefreplace"), (size,))
    assert (tag.read(0, len(tag.raw)), tag.node.line) == ('<f a="&gt;">', 3)
    assert (first.node.line, first.node.attributes, first.read(0, first.node.content)) == (4, {"a": "1/"}, '<u a="1/">')
    assert first.read(first.node.content_end, first.node.end) == "</u >"
    assert second.read(0, second.node.end) == "<u/>"
    seen = [item if isinstance(item, str) else first.read(item.start, item.end) for item in first.node.items]
    assert seen == ["é ", "<x/>", '<g id=">"></g >', "<&", "<!-- d -->", "<", "<?p i?>", '<y b=">"/>', "\n"]


@given(CONTENT, CONTENT, st.lists(st.integers(1, 40), min_size=1), st.sampled_from(["utf-8", "utf-16"]))
def test_any_chunks_give_the_same_pieces(first: str, second: str, sizes: list[int], encoding: str) -> None:
    text = f"<r>{first}<u>{first}</u>\r\n{second}<u>{second}</u></r>"
    content = text.encode(encoding)
    found, whole = pieces(content, sizes), pieces(content, (len(content),))
    assert [piece.raw for piece in found] == [piece.raw for piece in whole]
    assert [piece.node.line for piece in found] == [piece.node.line for piece in whole]
    assert f"<u>{second}</u>" == found[-1].read(0, found[-1].node.end)


def tree(node: Node) -> tuple[object, ...]:
    """Return an element without comments, and with adjacent texts in one."""
    items: list[object] = []
    for item in node.items:
        if isinstance(item, Node):
            items += [tree(item)] if item.tag else []
        elif items and isinstance(items[-1], str):
            items[-1] += item
        else:
            items.append(item)
    return node.tag, node.attributes, node.line, *items


@given(CONTENT, CONTENT, st.lists(st.integers(1, 40), min_size=1), st.sampled_from(["utf-8", "utf-16"]))
def test_reading_gives_the_trees_that_cutting_gives(first: str, second: str, sizes: list[int], encoding: str) -> None:
    content = f"<r>{first}<f a='1'>\r\n<u>{first}</u></f>{second}<u>{second}</u></r>".encode(encoding)
    units = read_units(Chunks(content, sizes), "a.xml", "r", {"u"}, {"f"})
    assert [tree(node) for node in units] == [tree(piece.node) for piece in pieces(content)]


def test_prefixes_count_for_children_only() -> None:
    piece = pieces(b"<p:r><p:u><a/><p:a/></p:u></p:r>")[0]
    assert [node.tag for node in piece.node.children("a")] == ["p:a"]
    assert piece.node.child("b") is None


# --- edits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("encoding", "declared"), ENCODINGS)
def test_new_text_is_in_the_encoding_of_the_file(encoding: str, declared: str) -> None:
    text = f'<?xml version="1.0" {declared}?><r><u><x/></u></r>'
    (piece,) = pieces(text.encode(encoding))
    written = piece.splice([(piece.node.content, piece.node.content_end, "é漢")])
    expected = "<u>é漢</u>".encode(piece.encoding, "xmlcharrefreplace")
    assert written == expected
    assert (b"&#28450;" in written) == (not encoding.startswith("utf"))


def test_edits_at_the_same_place_stay_in_order() -> None:
    piece = unit("<x/>")
    end = piece.node.content_end
    assert piece.splice([(end, end, "z"), (end, end, "a"), (0, 3, "<v>")]) == b"<v><x/>za</u>"


@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_removal_takes_the_indentation(line: str) -> None:
    piece = pieces(f"<r><u>{line}  <x/>{line}\t<y/><z/></u></r>".encode("utf-16"))[0]
    x, y, z = (item for item in piece.node.items if isinstance(item, Node))
    assert [piece.indent(node) for node in (x, y, z, piece.node)] == [f"{line}  ", f"{line}\t", "", ""]
    assert piece.splice([piece.removal(y)]).decode("utf-16-le") == f"<u>{line}  <x/><z/></u>"


def test_attributes_are_set_and_removed_in_place() -> None:
    tag = '<a b = \'c="1"\'\n  d="/" />'
    assert with_attributes(tag, {"d": None, "e": 'x"<'}) == '<a b = \'c="1"\' e="x&quot;&lt;" />'
    assert with_attributes(tag, {"c": "2", "b": "3"}) == '<a b="3"\n  d="/" c="2" />'
    assert with_attributes("<a>", {"b": None}) == "<a>"


def test_what_xml_forbids_is_dropped() -> None:
    assert escape("a\x00\x1b\ud800\ufffe<&>\r\n") == "a&lt;&amp;&gt;&#13;\n"


# --- files that are not trusted --------------------------------------------------------------------------------------


def test_malformed_files_name_the_line() -> None:
    assert error(b"<r>\n<u>\n</r>") == ("a.xml:3: malformed XML (mismatched tag); check the file with: xmllint --noout")
    assert "no element found" in error(b"")
    assert "a.xml:2: malformed XML" in error(b"<r>\n<u>&nbsp;</u></r>")
    assert "the root element is <html> instead of <r>; check the suffix" in error(b"<html/>")


def test_undecodable_bytes_name_the_encoding() -> None:
    assert "a.xml:2: malformed XML (not well-formed (invalid token): the byte 0xe9 is not UTF-8)" in error(
        b"<r>\n<u>\xe9 </u></r>"
    )


@pytest.mark.parametrize("name", ["Shift_JIS", "no-such", "UTF-7"])
def test_other_encodings_are_refused(name: str) -> None:
    message = error(f'<?xml version="1.0" encoding="{name}"?><r/>'.encode())
    assert name in message
    assert "convert the file to UTF-8" in message


@pytest.mark.parametrize(
    "declaration", ['<!ENTITY e "x">', '<!ENTITY % e "x">', '<!ENTITY e SYSTEM "file:///etc/passwd">']
)
def test_entities_are_refused(declaration: str) -> None:
    message = error(f"<!DOCTYPE r [{declaration}]><r><u>&e;</u></r>".encode())
    assert "the DOCTYPE declares the entity e" in message


def test_a_dtd_is_never_loaded() -> None:
    doctype = '<!DOCTYPE r SYSTEM "file:///no/such.dtd">'
    (piece,) = pieces(f"{doctype}<r>&outside;<u>a</u></r>".encode())
    assert piece.raw == b"<u>a</u>"
    assert "the text uses the entity &inside;" in error(f"{doctype}<r><u>&inside;</u></r>".encode())


@pytest.mark.parametrize("before", ["<r>", "<r><u>"])
def test_deep_files_are_refused(before: str) -> None:
    assert "deeper than 1,000 levels" in error((before + "<g>" * 100_000).encode())


def test_large_units_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_units, "MAX_PART_BYTES", 200_000)
    monkeypatch.setattr(xml_units, "MAX_ELEMENTS", 1_000)
    assert "a.xml:2: <u> has more than 200,000 bytes; split it" in error(b"<r>\n<u>\n" + b"a\n" * 200_000)
    assert "a.xml:2: <u> has more than 1,000 elements; split it" in error(b"<r>\n<u>" + b"<x/>\n" * 1_001)
    assert "more than 200,000 bytes" in error(b"<r><!--" + b"a" * 400_000)


def test_memory_does_not_grow_with_the_file() -> None:
    file = io.BytesIO(b"<r>" + b"<u>some text</u>\n" * 20_000 + b"</r>")
    tracemalloc.start()
    try:
        total = sum(1 for part in cut(file, "a.xml", "r", {"u"}) if isinstance(part, XmlPart))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 20_000
    assert peak < 5_000_000  # all units at once take three times as much
