"""Placeholders are found, masked and put back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.corpora.placeholders import (
    ALONE,
    CLOSING,
    OPENING,
    STYLES,
    find_placeholders,
    is_nested,
    mask,
    placeholder_spans,
    same_placeholders,
)

KINDS = ["{name}", "{0}", "{}", "%s", "%(n)d", "%5.2f", "%1$s", "%1", "${x}", "{{ x }}", "&amp;", "<b>", "</b>", "%%"]
KINDS += ['<a href="x.html">', "https://example.org/a?b=c", chr(OPENING), chr(CLOSING), chr(ALONE)]
KINDS += ["anna.huber@example.org", "www.example.org/x", "php://stdin", r"C:\Programme\x.ini", r"\\server\share\a.txt"]
KINDS += [
    r"D:\Program Files\Ein Ordner\x.cnf",
    "/etc/lacuna/config.yaml",
    "~/.profile",
    "./configure",
    "/etc",
    "../a/b",
]
KINDS += [
    "LACUNA_API_KEY",
    "array_map",
    "my_file.txt",
    "__init__",
    "_MAX_",
    "$HOME",
    "--dry-run",
    "getElement",
    "@anna",
]
KINDS += [
    "&nbsp;",
    "&lt;",
    "&quot;",
    "&#8230;",
    "&kmail;",
    "\N{PARTY POPPER}",
    "\N{CHECK MARK}",
    "\N{RIGHTWARDS ARROW}",
]
KINDS += ["1\ufe0f\u20e3", "\U0001f469\u200d\U0001f4bb", "\U0001f44d\U0001f3fd", "\N{BULLET}", "``code``", "___"]


@pytest.mark.parametrize("placeholder", KINDS)
def test_every_kind_is_found(placeholder: str) -> None:
    assert find_placeholders(f"vor {placeholder} nach") == [placeholder]
    assert find_placeholders(f"({placeholder}).") == [placeholder]


@pytest.mark.parametrize(
    "text",
    [
        *("50 % der Teile", "100 %", "a < b und c > d", "f&uuml;r", "AT&T;", "R&D", "x % s", "5 %.", "100%ige"),
        *(
            "und/oder",
            "120 km/h",
            "Ein-/Ausgabe",
            "1/2",
            "GmbH",
            "JavaScript",
            "10 kWh",
            "don&#39;t",
            "M&auml;rz",
            "a@b",
        ),
        *("Er kam --wie immer-- zu spät", "Wort -- Wort", "GMT\N{MINUS SIGN}07:00", "Donau&shy;dampf", "eBay", "15 $"),
    ],
)
def test_what_only_resembles_a_placeholder(text: str) -> None:
    assert find_placeholders(text) == []


def test_a_url_ends_before_the_period() -> None:
    assert find_placeholders("Siehe https://example.org/x.") == ["https://example.org/x"]
    assert find_placeholders("请看https://example.org，谢谢。") == ["https://example.org"]


def test_entities_next_to_letters() -> None:
    masked = mask("Klicken Sie auf &lt;Speichern&gt;.")
    assert masked.text == "Klicken Sie auf 72 Speichern 71."
    assert masked.restore("Click 72 Save 71.") == "Click &lt;Save&gt;."
    assert mask("10&nbsp;MB").text == "10 71 MB"
    assert mask("f&uuml;r den M&#228;rz, don&#39;t, Donau&shy;dampf").text == "für den März, don't, Donaudampf"


def test_links_with_bars_between_them() -> None:
    opening, closing = chr(OPENING), chr(CLOSING)
    masked = mask(f"{opening}Start{closing} | Hilfe")
    assert masked.text == "71 Start 72 Hilfe"  # one stand-in for what separates two words
    assert masked.restore("71 Home 72 Help") == f"{opening}Home{closing} | Help"


@pytest.mark.parametrize(
    ("source", "plain", "translation", "restored"),
    [
        ("&Datei", "Datei", "File", "&File"),
        ("_Hilfe", "Hilfe", "Help", "_Help"),
        ("<b>_Ort</b>:", "72 Ort 71:", "72 Place 71:", "<b>_Place</b>:"),
        ("&Sichern && Laden", "Sichern 71 Laden", "Save 71 Load", "&Save && Load"),
        ("Schl_ießen", "Schließen", "Close", "_Close"),
        ("E&xit", "Exit", "Beenden", "&Beenden"),
        ("%s _löschen?", "71 löschen?", "Delete 71?", "_Delete %s?"),
        ("Save _As...", "Save As...", "另存为...", "另存为(_A)..."),
        ("文件(_F)", "文件", "File", "_File"),
    ],
)
def test_an_accelerator_is_taken_out_and_put_back(source: str, plain: str, translation: str, restored: str) -> None:
    masked = mask(source)
    assert masked.text == plain
    assert masked.restore(translation) == restored
    assert same_placeholders(source, restored)
    assert not same_placeholders(source, translation)


@pytest.mark.parametrize(
    "text",
    [
        *("R&D", "AT&T und Q&A", "Tom & Anna", "_wichtig_", "Die Werte von _id werden gelesen.", '="Text"&T(A1)'),
        *("Die Adresse steht in &end, und daher liest das Programm hier immer weiter als es eigentlich soll", "5_m"),
        "[signal | état_final]",
    ],
)
def test_what_only_resembles_an_accelerator(text: str) -> None:
    assert mask(text).accelerator is None


def test_underscores_are_counted() -> None:
    assert not same_placeholders("Le groupe_réseau est vide.", "The network group is empty.")
    assert same_placeholders("Le groupe_réseau est vide.", "The network_group_é is empty.") is False
    assert same_placeholders("Le groupe_réseau est vide.", "The groupe_réseau is empty.")


def test_masking_worked_example() -> None:
    masked = mask("Datei %s in {ordner} öffnen")
    assert masked.text == "Datei 71 in 72 öffnen"  # "%s" comes before "{ordner}" in the order of text
    assert masked.restore("Open file 71 in 72") == "Open file %s in {ordner}"
    assert masked.restore("72: open 71") == "{ordner}: open %s"
    assert masked.restore("Open file 71") is None
    assert masked.restore("Open file 71 in 72 72") is None
    assert masked.restore("Open file 71 in 721") is None


def test_stand_ins_are_not_numbers_of_the_text() -> None:
    assert mask("71 Dateien in %s, 72").text == "71 Dateien in 73, 72"


def test_adjacent_placeholders_share_a_stand_in() -> None:
    masked = mask("Fertig.<br><br>%sEnde")
    assert masked.text == "Fertig.71 Ende"
    assert masked.restore("Done. 71 End") == "Done. <br><br>%sEnd"


def test_sides_of_a_pair_get_the_same_stand_ins() -> None:
    assert mask("%s von {n}").text == "71 von 72"
    assert mask("{n} of %s").text == "72 of 71"


def test_added_spaces_are_taken_out() -> None:
    opening, closing = chr(OPENING), chr(CLOSING)
    masked = mask(f"Klicken Sie {opening}hier{closing}.")
    assert masked.text == "Klicken Sie 71 hier 72."
    assert masked.restore("Click 71 here 72.") == f"Click {opening}here{closing}."


def test_nesting() -> None:
    first, second, end_first, end_second = (chr(base + number) for base in (OPENING, CLOSING) for number in (0, 1))
    assert is_nested(f"{first}a{second}b{end_second}{end_first}")
    assert not is_nested(f"{first}a{second}b{end_first}{end_second}")
    assert not is_nested(f"{end_first}a{first}")
    assert not is_nested(first)
    assert not same_placeholders(f"{first}a{end_first}", f"{end_first}a{first}")
    assert not same_placeholders(f"{first}a{end_first} b", f"{first}{end_first}a b")
    assert same_placeholders(f"{first}{end_first} b", f"b {first}{end_first}")


texts = st.lists(
    st.one_of(st.sampled_from(KINDS), st.text(max_size=8), st.sampled_from([" ", "a", "7", "71", "&", "_", "B", "("])),
    max_size=8,
)


@given(texts.map("".join), st.integers(0, STYLES - 1))
def test_masking_can_be_undone(text: str, style: int) -> None:
    masked = mask(text, style)
    restored = masked.restore(masked.text)
    assert restored is not None
    if masked.accelerator is None:  # otherwise it is at the first letter
        assert "".join(restored.split(" ")) == "".join(text.split(" "))
        assert same_placeholders(text, restored)


@given(st.lists(st.sampled_from([*KINDS, "Wort", "_Wort", "71"])).map(" ".join), st.integers(0, STYLES - 1))
def test_masking_twice_changes_nothing(text: str, style: int) -> None:
    assert mask(mask(text, style).text).text == mask(text, style).text


@given(texts.map("".join))
def test_spans_cover_all_placeholders(text: str) -> None:
    inside = "".join(text[start:end] for start, end in placeholder_spans(text))
    assert inside == "".join(find_placeholders(text))


@pytest.mark.parametrize(
    "part",
    [
        *(
            "_%s",
            "&amp;",
            "--ab ",
            "--ab",
            "/a",
            "a_",
            "_a",
            "\\\\a ",
            "C:\\a b ",
            "a@",
            "a.",
            "&a ",
            "a|",
            "&",
            "_",
            "``",
        ),
        *("\N{PARTY POPPER}\u200d", "aB", "$a", "www.", "a://", "f&uuml;r ", "(&A)", "{a", "<a", "%("),
    ],
)
def test_the_time_is_linear(part: str) -> None:
    text = part * (50_000 // len(part))
    assert same_placeholders(text, text)
    mask(text)
