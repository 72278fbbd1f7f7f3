"""XLIFF 1 and 2: what is translated, what stays, and where translations, states and notes go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from lacuna.documents.base import Filled
from lacuna.documents.file_formats import format_of
from lacuna.documents.xliff import XliffFormat
from lacuna.errors import DocumentError
from lacuna.records import Languages
from unit.documents.fake_translations import GERMAN
from unit.documents.xml_files import CONTENT, segments, translate

FORMAT = XliffFormat()


def xliff1(units: str, attributes: str = 'source-language="en" target-language="de"') -> bytes:
    return (
        '<?xml version="1.0"?>\n<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
        f'<file original="f" datatype="x" {attributes}><body>{units}</body></file></xliff>\n'
    ).encode()


def xliff2(units: str, attributes: str = 'srcLang="en-US" trgLang="de-DE"') -> bytes:
    return (
        f'<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" {attributes}>\n'
        f'<file id="f1">{units}</file></xliff>\n'
    ).encode()


def upper(text: str) -> Filled:
    return Filled(text.upper())


def unsure(text: str) -> Filled:
    return Filled(text.upper(), confidence=0.4567, review=True, reason="rare <words>")


def markup(content: bytes, name: str) -> bytes:
    """Return what is inside the first element of a name, in canonical form."""
    element = next(etree.fromstring(content).iter(f"{{*}}{name}"))
    return etree.tostring(element, method="c14n", with_tail=False).partition(b">")[2].rpartition(b"<")[0]


# --- languages -------------------------------------------------------------------------------------------------------


def test_a_missing_target_language_is_added() -> None:
    for content in (xliff1("", "source-language='en'"), xliff1("", "source-language='EN-gb' target-language=''")):
        assert b' target-language="de">' in translate(FORMAT, content, upper)
    assert b'srcLang="en" trgLang="pt-BR">' in translate(
        FORMAT, xliff2("", 'srcLang="en"'), upper, Languages("en", "pt_BR")
    )
    for content in (xliff1(""), xliff2("")):
        assert translate(FORMAT, content, upper) == content


@pytest.mark.parametrize(
    "content",
    [
        xliff1("", 'source-language="en" target-language="fr"'),
        xliff1("", 'source-language="de" target-language="en"'),
        xliff2("", 'srcLang="fr"'),
    ],
)
def test_other_languages_are_refused(content: bytes) -> None:
    with pytest.raises(DocumentError, match=r"a\.xml:\d: the file is .*, but the languages asked for are en-de; give"):
        segments(FORMAT, content)


# --- XLIFF 1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_a_target_follows_its_source(line: str) -> None:
    unit = line.join(['<trans-unit id="a">', "  <source>one &amp; two</source>", "  <note>n</note>", "</trans-unit>"])
    content = xliff1(unit)
    (segment,) = segments(FORMAT, content)
    assert (segment.texts, segment.existing, segment.place) == (("one & two",), ("",), "a")
    assert translate(FORMAT, content, upper) == xliff1(
        unit.replace(
            "</source>",
            f'</source>{line}  <target state="translated" state-qualifier="mt-suggestion">ONE &amp; TWO</target>',
        )
    )


def test_review_and_confidence_go_to_state_and_note() -> None:
    content = xliff1('<trans-unit id="a"><source>one</source><context-group/><alt-trans/></trans-unit>')
    expected = xliff1(
        '<trans-unit id="a"><source>one</source>'
        '<target state="needs-review-translation" state-qualifier="mt-suggestion">ONE</target><context-group/>'
        '<note from="lacuna">confidence 0.46; review: rare &lt;words&gt;</note><alt-trans/></trans-unit>'
    )
    assert translate(FORMAT, content, unsure) == expected
    assert translate(FORMAT, expected, unsure) == expected, "what was translated is kept"
    other = translate(FORMAT, expected, lambda _: Filled("1", 0.9, review=True), keep=False)
    assert other == expected.replace(b"ONE", b"1").replace(b"0.46; review: rare &lt;words&gt;", b"0.90; review")
    sure = translate(FORMAT, expected, lambda _: Filled("1", match=True), keep=False)
    assert b'<target state="translated" state-qualifier="exact-match">1</target><context-group/><alt-trans/>' in sure


@pytest.mark.parametrize(
    ("target", "existing"),
    [
        ("", ""),
        ("<target/>", ""),
        ("<target> </target>", ""),
        ("<target> eins </target>", "eins"),
        ('<target state="translated">eins</target>', "eins"),
        ('<target state="needs-review-translation">eins</target>', "eins"),
        ('<target state="new">one</target>', ""),
        ('<target state="needs-translation">one</target>', ""),
        ('<target state="needs-l10n">one</target>', ""),
        ('<target state="needs-adaptation">one</target>', ""),
    ],
)
def test_a_target_is_kept_unless_it_is_a_draft(target: str, existing: str) -> None:
    content = xliff1(f'<trans-unit id="a"><source>one</source>{target}</trans-unit>')
    (segment,) = segments(FORMAT, content)
    assert segment.existing == (existing,)
    assert (translate(FORMAT, content, upper) == content) == bool(existing)
    assert b">ONE</target></trans-unit>" in translate(FORMAT, content, upper, keep=False)


def test_attributes_of_a_target_stay() -> None:
    content = xliff1('<trans-unit id="a"><source>one</source><target a:b="c" state="new" /></trans-unit>')
    assert b'<target a:b="c" state="translated" state-qualifier="mt-suggestion">ONE</target>' in translate(
        FORMAT, content, upper
    )


def test_a_new_translation_is_not_approved() -> None:
    content = xliff1('<trans-unit id="a" approved="yes"><source>one</source><target>eins</target></trans-unit>')
    assert translate(FORMAT, content, upper) == content
    assert b'<trans-unit id="a" approved="no">' in translate(FORMAT, content, upper, keep=False)


def test_what_is_not_to_be_translated_stays() -> None:
    unit = '<trans-unit id="{}"{}><source>one</source></trans-unit>'
    no, yes = unit.format("a", ' translate="no"'), unit.format("b", ' translate="yes"')
    content = xliff1(no + f'<group translate="no">{unit.format("c", "")}{yes}</group>' + unit.format("d", ""))
    assert [segment.place for segment in segments(FORMAT, content)] == ["b", "d"]
    empty = xliff1('<trans-unit id="a"><source> <x id="1"/></source></trans-unit><trans-unit id="b"/>')
    assert segments(FORMAT, empty) == []


def test_prefix_and_white_space_are_those_of_the_source() -> None:
    content = (
        b'<x:xliff version="1.2" xmlns:x="urn:oasis:names:tc:xliff:document:1.2"><x:file source-language="en"><x:body>'
        b'<x:trans-unit id="a"><x:source xml:space="preserve">\n one </x:source></x:trans-unit>'
        b"</x:body></x:file></x:xliff>"
    )
    written = translate(FORMAT, content, unsure)
    assert b'<x:target xml:space="preserve" state=' in written
    assert b">\n ONE </x:target><x:note from=" in written
    etree.fromstring(written)


def test_inline_elements_are_copied() -> None:
    source = (
        '<bpt id="1">&lt;b></bpt>one<ept id="1">&lt;/b></ept> <g id="2">two<x id="3"/></g>'
        '<ph id="4">{<sub>three</sub>}</ph><mrk mtype="term">four</mrk><it id="5" pos="open"/>'
    )
    content = xliff1(f'<trans-unit id="a"><source>{source}</source></trans-unit>')
    written = translate(FORMAT, content, lambda text: Filled(text.replace("one", "1").replace("four", "4")))
    assert f">{source.replace('one', '1').replace('four', '4')}</target>".encode() in written


SEGMENTED = (
    '<trans-unit id="a"><source>One. <g id="1">Two.</g></source>'
    '<seg-source><mrk mtype="seg" mid="0">One.</mrk> <g id="1"><mrk mtype="seg" mid="1">Two.</mrk></g></seg-source>'
    "{}</trans-unit>"
)


def test_segments_are_translated_one_by_one() -> None:
    content = xliff1(SEGMENTED.format('<target>\n<mrk mtype="seg" mid="1"> Zwei<!-- ! --></mrk></target>'))
    (segment,) = segments(FORMAT, content)
    assert segment.texts == ("One.", "Two.")
    assert segment.existing == ("", "Zwei\uf000")
    target = (
        '<target state="needs-review-translation" state-qualifier="mt-suggestion">'
        '<mrk mtype="seg" mid="0">ONE.</mrk> <g id="1"><mrk mtype="seg" mid="1"> Zwei<!-- ! --></mrk></g></target>'
        '<note from="lacuna">segment 0: confidence 0.46; review: rare &lt;words&gt;</note>'
    )
    written = translate(FORMAT, content, unsure)
    assert written == xliff1(SEGMENTED.format(target))
    assert translate(FORMAT, written, unsure) == written


@pytest.mark.parametrize("target", ["", "<target/>", '<target state="new">One. Two.</target>'])
def test_a_target_gets_the_segments_of_the_source(target: str) -> None:
    written = translate(FORMAT, xliff1(SEGMENTED.format(target)), upper)
    assert b'</seg-source><target state="translated"' in written
    assert b'<mrk mtype="seg" mid="0">ONE.</mrk> <g id="1"><mrk mtype="seg" mid="1">TWO.</mrk></g></target>' in written


def test_a_target_without_segments_is_one_translation() -> None:
    content = xliff1(SEGMENTED.format("<target>Eins. Zwei.</target>"))
    (segment,) = segments(FORMAT, content)
    assert (len(segment.texts), segment.existing) == (1, ("Eins. Zwei.",))
    assert translate(FORMAT, content, upper) == content


# --- XLIFF 2 ---------------------------------------------------------------------------------------------------------


def test_each_segment_of_a_unit_has_a_target_and_a_state() -> None:
    content = xliff2(
        '<unit id="u">\n <segment id="s1"><source>one</source></segment>\n <ignorable><source> </source></ignorable>\n'
        ' <segment subState="a:b" state="initial"><source>two</source><target>two</target></segment>\n'
        ' <segment state="final"><source>three</source><target>drei</target></segment>\n</unit>'
    )
    (segment,) = segments(FORMAT, content)
    assert segment.texts == ("one", "two", "three")
    assert segment.existing == ("", "", "drei")
    written = translate(FORMAT, content, lambda text: unsure(text) if text == "one" else upper(text))
    assert written == xliff2(
        '<unit id="u">\n <notes><note category="lacuna">segment s1: confidence 0.46; review: rare &lt;words&gt;</note>'
        '</notes>\n <segment id="s1" state="initial" subState="lacuna:needs-review"><source>one</source>'
        "<target>ONE</target></segment>\n <ignorable><source> </source></ignorable>\n"
        ' <segment state="translated"><source>two</source><target>TWO</target></segment>\n'
        ' <segment state="final"><source>three</source><target>drei</target></segment>\n</unit>'
    )
    assert segments(FORMAT, written)[0].existing == ("ONE", "TWO", "drei")
    assert translate(FORMAT, written, unsure) == written


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '<notes><note category="lacuna">{}</note></notes>'),
        (
            "<notes>\n <note>n</note>\n</notes>",
            '<notes>\n <note>n</note>\n <note category="lacuna">{}</note>\n</notes>',
        ),
        ('<notes><note category="lacuna">old</note></notes>', '<notes><note category="lacuna">{}</note></notes>'),
        (
            '<notes><note category="lacuna">old</note><note>n</note></notes>',
            '<notes><note>n</note><note category="lacuna">{}</note></notes>',
        ),
    ],
)
def test_a_unit_has_one_note_of_ours(before: str, after: str) -> None:
    unit = '<unit id="u">{}<originalData/><segment state="{}"><source>one</source>{}</segment></unit>'
    content = xliff2(unit.format(before, "initial", ""))
    written = translate(FORMAT, content, lambda _: Filled("1", confidence=0.5))
    assert written == xliff2(unit.format(after.format("confidence 0.50"), "translated", "<target>1</target>"))
    silent = translate(FORMAT, content, lambda _: Filled("1"))
    assert b"lacuna" not in silent
    assert (b"<notes>" in silent) == (">n<" in before)


def test_inline_elements_of_xliff_2_are_copied() -> None:
    source = (
        '<pc id="1">one<ph id="2"/></pc><sc id="3"/>two<ec startRef="3"/><cp hex="0001"/>'
        '<mrk id="m" translate="no">three</mrk><sm id="4"/>four<em startRef="4"/>'
    )
    content = xliff2(f'<unit id="u"><segment><source>{source}</source></segment></unit>')
    (segment,) = segments(FORMAT, content)
    assert segment.texts == ("\ue000one\uf000\ue800\ue001two\ue801\uf001\uf002\ue002four\ue802",)
    assert f"<target>{source}</target>".encode() in translate(FORMAT, content, Filled)


def test_translate_is_inherited_in_xliff_2() -> None:
    segment = "<segment><source>one</source></segment>"
    content = xliff2(f'<group id="g" translate="no"><unit id="a">{segment}</unit></group><unit id="b">{segment}</unit>')
    assert [segment.place for segment in segments(FORMAT, content)] == ["b"]


# --- any file --------------------------------------------------------------------------------------------------------


@given(CONTENT, CONTENT, st.sampled_from([xliff1, xliff2]), st.booleans())
def test_any_content_stays_well_formed_and_the_rest_the_same(
    source: str, target: str, make: object, keep: bool
) -> None:
    inside = f"<source>{source}</source><target>{target}</target>"
    assert callable(make)
    is_1 = make is xliff1
    content = make(
        f"<trans-unit id='a'>{inside}</trans-unit>" if is_1 else f"<unit id='a'><segment>{inside}</segment></unit>"
    )
    written = translate(FORMAT, content, lambda text: Filled(text, 0.5), keep=keep)
    assert markup(written, "source") == markup(content, "source")
    found = segments(FORMAT, content)
    if keep and found and found[0].existing[0]:
        assert written == content
    elif found and found[0].texts != found[0].existing:
        assert markup(written, "target") == markup(content, "source")


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1"])
def test_other_encodings_are_kept(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>' + xliff1(
        '<trans-unit id="a">\n<source>é</source></trans-unit>', "source-language='en'"
    ).decode().removeprefix('<?xml version="1.0"?>')
    written = translate(FORMAT, text.encode(encoding), lambda _: Filled("漢", 0.5), GERMAN)
    tree = etree.fromstring(written)
    assert tree.findtext(".//{*}target") == "漢"
    assert next(tree.iter("{*}file")).get("target-language") == "de"
    assert b"&#28450;" in written or encoding == "utf-16"


@pytest.mark.parametrize("suffix", ["xlf", "xliff", "xlf2", "xliff2", "sdlxliff", "mxliff", "mqxliff", "XLF"])
def test_suffixes(suffix: str) -> None:
    assert format_of(f"a.{suffix}").name == "XLIFF"
