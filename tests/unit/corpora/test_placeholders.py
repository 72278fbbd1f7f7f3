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


@pytest.mark.parametrize("placeholder", KINDS)
def test_every_kind_is_found(placeholder: str) -> None:
    assert find_placeholders(f"vor {placeholder} nach") == [placeholder]
    assert find_placeholders(f"({placeholder}).") == [placeholder]


@pytest.mark.parametrize(
    "text", ["50 % der Teile", "100 %", "a < b und c > d", "f&uuml;r", "AT&T;", "R&D", "x % s", "5 %.", "100%ige"]
)
def test_what_only_resembles_a_placeholder(text: str) -> None:
    assert find_placeholders(text) == []


def test_a_url_ends_before_the_period() -> None:
    assert find_placeholders("Siehe https://example.org/x.") == ["https://example.org/x"]
    assert find_placeholders("请看https://example.org，谢谢。") == ["https://example.org"]


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
    st.one_of(st.sampled_from(KINDS), st.text(max_size=8), st.sampled_from([" ", "a", "7", "71"])), max_size=8
)


@given(texts.map("".join), st.integers(0, STYLES - 1))
def test_masking_can_be_undone(text: str, style: int) -> None:
    masked = mask(text, style)
    restored = masked.restore(masked.text)
    assert restored is not None
    assert "".join(restored.split(" ")) == "".join(text.split(" "))
    assert same_placeholders(text, restored)


@given(st.lists(st.sampled_from([*KINDS, "Wort", "71"])).map(" ".join))
def test_masking_twice_changes_nothing(text: str) -> None:
    assert mask(mask(text).text).text == mask(text).text


@given(texts.map("".join))
def test_spans_cover_all_placeholders(text: str) -> None:
    inside = "".join(text[start:end] for start, end in placeholder_spans(text))
    assert inside == "".join(find_placeholders(text))
