"""Words are where the text has them, and what is between them has one spelling."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.corpora.placeholders import ALONE, CLOSING, OPENING, placeholder_spans
from lacuna.glossaries.words import fold, gaps_between, has_same_capitals, is_joined, split_words

OPEN, CLOSE, BREAK = chr(OPENING), chr(CLOSING), chr(ALONE)


@pytest.mark.parametrize(
    ("text", "words", "gaps"),
    [
        ("Die E-Mail-Adresse", ["Die", "E", "Mail", "Adresse"], ["", " ", "-", "-", ""]),
        ("l’aide d'un ami", ["l", "aide", "d", "un", "ami"], ["", "'", " ", "'", " ", ""]),
        ("zwei\u00a0 \tWorte", ["zwei", "Worte"], ["", " ", ""]),
        ("e\u0301te\u0301 3D", ["e\u0301te\u0301", "3D"], ["", " ", ""]),
        ("打开 USB 接口。", ["打", "开", "USB", "接", "口"], ["", "", "", "", "", "。"]),
        ("น้ำดี", ["น้", "ำ", "ดี"], ["", "", "", ""]),
        (f"{OPEN}Menü{CLOSE}leiste {BREAK} da", ["Menü", "leiste", "da"], ["", "", " ", ""]),
        ("%s Datei {name}", ["Datei"], ["%s ", " {name}"]),
        ("Da\u00adtei Be_enden", ["Da\u00adtei", "Be", "enden"], ["", " ", "_", ""]),
        ("→ !", [], ["→ !"]),
        ("", [], [""]),
    ],
)
def test_words_and_gaps(text: str, words: list[str], gaps: list[str]) -> None:
    found = split_words(text)
    assert [word.text for word in found] == words
    assert gaps_between(text, found) == gaps


@given(st.text(st.sampled_from(f"aÄß9 -'’_%s{{}}n数ไท\u0e31\u0301\u00ad{OPEN}{CLOSE}./"), max_size=30))
def test_words_have_the_letters_and_digits_outside_of_placeholders(text: str) -> None:
    words = split_words(text)
    assert all(text[word.start : word.end] == word.text for word in words)
    assert all(one.end <= other.start for one, other in pairwise(words))
    hidden = {place for start, end in placeholder_spans(text) for place in range(start, end)}
    of_words = {place for word in words for place in range(word.start, word.end)}
    assert not hidden & of_words
    assert {place for place, letter in enumerate(text) if letter.isalnum()} - hidden <= of_words
    assert not any(text[place].isspace() or text[place] in "-'’_%{}./" for place in of_words)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("STRASSE", "straße"),
        ("e\u0301te\u0301", "ÉTÉ"),
        ("Da\u00adtei", "datei"),
        ("MENÜ", "menü"),
        ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
    ],
)
def test_spellings_that_are_compared_as_one(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize(
    ("written", "found", "same"),
    [("Apple", "Apples", True), ("Apple", "apples", False), ("IT", "It", False), ("iPhone", "iPhone", True)],
)
def test_capitals(written: str, found: str, same: bool) -> None:
    assert has_same_capitals(written, found) is same


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("eine [Datei]-Liste", True),
        ("Text-[Datei] da", True),
        ("Bild- und [Datei]", False),
        (f"{OPEN}[Datei]{CLOSE}liste", True),
        (f"{OPEN}[Datei]{CLOSE} liste", False),
        ("[Datei]", False),
    ],
)
def test_joined_to_another_word(text: str, joined: bool) -> None:
    start, end = text.index("["), text.index("]") - 1
    assert is_joined(text.replace("[", "").replace("]", ""), start, end) is joined
