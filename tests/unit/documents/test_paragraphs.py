"""Paragraphs are cut, translated and joined again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.documents.paragraphs import (
    Paragraph,
    Sentence,
    Splitter,
    TranslateGroups,
    is_translatable,
    mark_matches,
    translate_paragraphs,
)
from lacuna.documents.sentence_splitting import Piece
from lacuna.memory import SegmentMatches
from lacuna.records import Languages, Translation
from unit.memory.test_matches import memory


def shout(groups: Iterable[Sequence[str]]) -> Iterator[list[Translation]]:
    for group in groups:
        yield [Translation(text, text.upper(), -1.0, len(text), confidence=0.5) for text in group]


def echo(groups: Iterable[Sequence[str]]) -> Iterator[list[Translation]]:
    return ([Translation(text, text, 0.0, 1) for text in group] for group in groups)


def translated(texts: Iterable[str], splitter: Splitter, translate: TranslateGroups) -> Iterator[Paragraph]:
    for [paragraph] in translate_paragraphs(([text] for text in texts), splitter, translate):
        yield paragraph


def splitter(languages: str = "de-en", *, most: int = 1000, lines: bool = False) -> Splitter:
    return Splitter(Languages.parse(languages), lambda text: len(text) <= most, lines)


def test_sentences_are_translated_and_white_space_stays() -> None:
    text = "  Die Datei ist da.  Das ist gut!\n\nEnde"
    [paragraph] = translated([text], splitter(), shout)
    assert paragraph.text == text.upper()
    assert [one.source for one in paragraph.sentences if one.translation] == [
        "Die Datei ist da.",
        "Das ist gut!",
        "Ende",
    ]
    assert paragraph.confidence == 0.5


def test_what_has_no_letters_stays() -> None:
    def fail(groups: Iterable[Sequence[str]]) -> Iterator[list[Translation]]:
        for group in groups:
            assert not group, "translated"
            yield []

    texts = ["***", "", "1,5 %", "%(name)s", "   "]
    assert [paragraph.text for paragraph in translated(texts, splitter(), fail)] == texts


def test_a_long_sentence_is_cut_at_clauses() -> None:
    text = "Wenn es regnet, bleiben wir hier; sonst gehen wir, sobald es hell ist."
    [paragraph] = translated([text], splitter(most=40), shout)
    assert paragraph.text == text.upper()
    assert all(len(one.source) <= 40 for one in paragraph.sentences)
    assert len(paragraph.sentences) > 1


def test_lines_are_sentences() -> None:
    [paragraph] = translated(["Eins. Zwei.\n\nDrei."], splitter(lines=True), shout)
    assert [one.source for one in paragraph.sentences if one.translation] == ["Eins. Zwei.", "Drei."]
    assert paragraph.text == "EINS. ZWEI.\n\nDREI."


def test_spaces_between_sentences_follow_the_target_language() -> None:
    [english] = translated(["你好。再见。"], splitter("zh-en"), echo)
    assert english.text == "你好。 再见。"
    [chinese] = translated(["Hello. Bye."], splitter("en-zh"), echo)
    assert chinese.text == "Hello.Bye."


def test_many_paragraphs_come_in_order_and_are_not_gathered() -> None:
    read: list[int] = []

    def texts() -> Iterator[str]:
        for number in range(1000):
            read.append(number)
            yield f"Satz {number}." if number % 3 else ""

    paragraphs = translated(texts(), splitter(), shout)
    assert [next(paragraphs).text for _ in range(5)] == ["", "SATZ 1.", "SATZ 2.", "", "SATZ 4."]
    assert len(read) <= 7


@given(st.text(), st.booleans())
def test_translating_nothing_changes_nothing(text: str, lines: bool) -> None:
    [paragraph] = translated([text], splitter("de-de_AT", lines=lines), echo)
    # A space may be added between sentences that had none.
    assert paragraph.text.replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "wanted"), [("a", True), ("%s", False), ("12", False), ("{a} b", True), ("<b>1</b>", False)]
)
def test_letters_outside_of_placeholders(text: str, wanted: bool) -> None:
    assert is_translatable(text) is wanted


def test_a_sentence_that_is_translated_as_in_a_memory_is_a_persons(tmp_path: Path) -> None:
    matches = SegmentMatches([memory(tmp_path)])

    def sentence(source: str, text: str) -> Sentence:
        made = Translation(source, text, -1.0, 3, flag="looks cut", confidence=0.2)
        return Sentence(source, made, Piece(text, " "))

    by_hand = [sentence("Ende", "End"), sentence("Ende", "The  end"), sentence("Datei {x} öffnen", "Open file {x}")]
    by_machine = [sentence("Ende", "Finish"), sentence("Anfang", "End"), sentence("Datei {x} öffnen", "Open file %s")]
    blank = Sentence("12", None, Piece("12", ""))
    paragraph = mark_matches(Paragraph("x", (*by_hand, blank)), matches)
    assert [one.match for one in paragraph.sentences] == ["it", "it", "it", ""]
    assert (paragraph.text, paragraph.tokens, paragraph.confidence) == ("End The  end Open file {x} 12", 9, None)
    assert [one.translation.flag for one in paragraph.sentences if one.translation] == ["", "", ""]
    assert mark_matches(Paragraph("x", tuple(by_machine)), matches).sentences == tuple(by_machine)
