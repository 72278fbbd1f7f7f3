"""TMX: which units are translated, and what a new variant looks like."""

import pytest
from hypothesis import given
from lxml import etree

from lacuna.documents.base import Filled
from lacuna.documents.tmx import TmxFormat
from lacuna.errors import DocumentError
from lacuna.records import Languages
from unit.documents.fake_translations import GERMAN
from unit.documents.xml_files import CONTENT, segments, translate

FORMAT = TmxFormat()


def tmx(*units: str) -> bytes:
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header srclang="en"/><body>\n'
        + "\n".join(units)
        + "\n</body></tmx>\n"
    ).encode()


def tu(*variants: tuple[str, str], name: str = "a") -> str:
    inside = "".join(f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>' for language, text in variants)
    return f'<tu tuid="{name}">{inside}</tu>'


def upper(text: str) -> Filled:
    return Filled(text.upper())


def unsure(text: str) -> Filled:
    return Filled(text.upper(), confidence=0.4567, review=True, reason="rare <words>")


@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_a_new_variant_looks_like_the_others(line: str) -> None:
    unit = line.join(
        [
            "  <tu>",
            '    <tuv xml:lang="EN-US">',
            "      <prop>p</prop>",
            "      <seg>one</seg>",
            "    </tuv>",
            "  </tu>",
        ]
    )
    new = line.join(
        [
            "    </tuv>",
            '    <tuv xml:lang="de">',
            '      <prop type="x-lacuna-confidence">0.46</prop>',
            '      <prop type="x-lacuna-review">rare &lt;words&gt;</prop>',
            "      <seg>ONE</seg>",
            "    </tuv>",
        ]
    )
    written = translate(FORMAT, tmx(unit), unsure)
    assert written == tmx(unit.replace("    </tuv>", new))
    assert translate(FORMAT, written, unsure) == written, "what was translated is kept"
    other = translate(FORMAT, written, lambda _: Filled("1", 0.5, True, "short"), keep=False)
    replaced = {b"ONE": b"1", b"0.46": b"0.50", b"rare &lt;words&gt;": b"short"}
    for old, new_bytes in replaced.items():
        written = written.replace(old, new_bytes)
    assert other == written
    plain = translate(FORMAT, other, lambda _: Filled("2"), keep=False)
    assert b"lacuna" not in plain
    assert plain.count(b"</prop>") == 1


def test_units_with_both_languages_stay() -> None:
    content = tmx(
        tu(("en", "one"), ("fr", "un"), ("de-AT", "eins")),
        tu(("en-GB", "two"), ("de", " "), name="b"),
        tu(("fr", "trois"), ("de", "drei"), name="c"),
        tu(("en", "<ph/> "), name="d"),
        "<tu/>",
    )
    found = segments(FORMAT, content)
    assert [(each.place, each.texts, each.existing) for each in found] == [
        ("a", ("one",), ("eins",)),
        ("b", ("two",), ("",)),
    ]
    assert translate(FORMAT, content, upper) == content.replace(b"<seg> </seg>", b"<seg>TWO</seg>")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("<tuv xml:lang='de'><seg/></tuv>", "<tuv xml:lang='de'><seg>ONE</seg></tuv>"),
        ("<tuv xml:lang='de'/>", "<tuv xml:lang='de'><seg>ONE</seg></tuv>"),
        ("<tuv xml:lang='de'><note>n</note></tuv>", "<tuv xml:lang='de'><note>n</note><seg>ONE</seg></tuv>"),
    ],
)
def test_an_empty_variant_is_filled(target: str, expected: str) -> None:
    source = "<tuv xml:lang='en'><seg>one</seg></tuv>"
    written = translate(FORMAT, tmx(f"<tu>{target}{source}</tu>"), upper)
    assert written == tmx(f"<tu>{expected}{source}</tu>")


def test_the_target_language_is_called_as_in_the_file() -> None:
    units = [tu(("en", "one"), ("DE-de", "eins")), tu(("en", "two"))]
    assert b'<tuv xml:lang="DE-de"><seg>TWO</seg>' in translate(FORMAT, tmx(*units), upper)
    assert b'<tuv xml:lang="pt-BR"><seg>TWO</seg>' in translate(FORMAT, tmx(*units), upper, Languages("en", "pt_BR"))


def test_old_files_have_a_plain_attribute() -> None:
    written = translate(FORMAT, tmx('<tu><tuv lang="EN"><seg>one</seg></tuv></tu>'), upper)
    assert b'<tuv lang="de"><seg>ONE</seg></tuv></tu>' in written


def test_inline_elements_are_copied() -> None:
    source = (
        '<bpt i="1" x="1">{\\b</bpt>one<ept i="1">}</ept> <hi>two</hi><ph x="2">{<sub>x</sub>}</ph><it pos="begin"/>'
    )
    (segment,) = segments(FORMAT, tmx(tu(("en", source))))
    assert segment.texts == ("\ue000one\ue800 \ue001two\ue801\uf000\uf001",)
    written = translate(FORMAT, tmx(tu(("en", source))), lambda text: Filled(text.replace("one", "a < b")))
    assert f"<seg>{source.replace('one', 'a &lt; b')}</seg></tuv></tu>".encode() in written


def test_a_file_without_the_source_language_is_refused() -> None:
    with pytest.raises(DocumentError, match=r"a\.xml: no unit has en; choose from the languages in the file: fr, de"):
        segments(FORMAT, tmx(tu(("fr", "un"), ("de", "eins"))))
    assert segments(FORMAT, tmx()) == []


def test_a_variant_without_language_is_refused() -> None:
    with pytest.raises(DocumentError, match=r"a\.xml:5: malformed TMX \(a <tuv> without xml:lang\)"):
        segments(FORMAT, tmx("<tu>\n<tuv/></tu>"))


def test_game_maps_have_the_same_suffix() -> None:
    with pytest.raises(DocumentError, match="not TMX, the root element is <map> instead of <tmx>"):
        segments(FORMAT, b"<map/>")


@given(CONTENT)
def test_any_content_is_copied(source: str) -> None:
    content = tmx(tu(("en", source)))
    written = translate(FORMAT, content, lambda text: Filled(text, 0.5), GERMAN)
    seg = [etree.tostring(each, method="c14n", with_tail=False) for each in etree.fromstring(written).iter("seg")]
    assert len(seg) == 1 + bool(segments(FORMAT, content))
    assert seg[0] == seg[-1]


def test_utf_16_is_kept() -> None:
    content = tmx(tu(("en", "one"))).decode().encode("utf-16")
    written = translate(FORMAT, content, lambda _: Filled("漢😀"))
    assert "<seg>漢😀</seg>" in written.decode("utf-16")
