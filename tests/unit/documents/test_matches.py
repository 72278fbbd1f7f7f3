"""Sentences that are translated as in a memory."""

from __future__ import annotations

from pathlib import Path

from lacuna.documents.matches import mark_matches
from lacuna.documents.paragraphs import Paragraph, Sentence
from lacuna.documents.sentence_splitting import Piece
from lacuna.memory import SegmentMatches
from lacuna.records import Translation
from unit.memory.test_matches import memory


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
