"""Exact and near matches of segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from lacuna.datastore import build_store
from lacuna.documents.matches import mark_matches
from lacuna.documents.paragraphs import Paragraph, Sentence
from lacuna.documents.sentence_splitting import Piece
from lacuna.explanation.confidence import Scored
from lacuna.index import ExactIndex
from lacuna.memory import FolderMemory, Memory, SegmentMatches
from lacuna.records import Origin, SentencePair, Translation
from unit.datastore.numpy_model import NumpyModel

PAIRS = [
    ("Datei %s öffnen", "Open file %s", None),
    ("Kopiere {a} nach {b}", "Copy {a} to {b}", None),
    ("Ende", "End", None),
    ("Ende", "The end", "film"),
    ("Ende", "The end", "film"),
    ("Kaputt %s", "Broken", None),
]


@pytest.fixture(scope="module")
def matches(tmp_path_factory: pytest.TempPathFactory) -> SegmentMatches:
    return SegmentMatches([memory(tmp_path_factory.mktemp("matches"))])


def memory(folder: Path) -> Memory:
    pairs = [SentencePair(s, t, Origin("f", str(n), tag)) for n, (s, t, tag) in enumerate(PAIRS)]
    store = build_store(NumpyModel(), pairs, folder / "store", cleaning=None)
    return FolderMemory.of(store, "it", ExactIndex(store))


def test_the_same_segment(matches: SegmentMatches) -> None:
    match = matches.exact(" Datei  %s öffnen ")
    assert match is not None
    assert (match.text, match.memory, match.sentence) == ("Open file %s", "it", 0)


def test_placeholders_of_the_segment_are_put_in(matches: SegmentMatches) -> None:
    match = matches.exact("Datei {name} öffnen")
    assert match is not None
    assert match.text == "Open file {name}"
    match = matches.exact("Kopiere %1 nach %2")
    assert match is not None
    assert match.text == "Copy %1 to %2"


def test_the_most_frequent_translation_wins(matches: SegmentMatches) -> None:
    match = matches.exact("Ende")
    assert match is not None
    assert (match.text, match.sentence) == ("The end", 4)


def test_a_sentence_that_is_translated_as_in_a_memory_is_a_persons(matches: SegmentMatches) -> None:
    def sentence(source: str, text: str) -> Sentence:
        made = Translation(source, text, -1.0, 3, flag="looks cut")
        return Sentence(source, Scored(made, 0.2), Piece(text, " "))

    by_hand = [sentence("Ende", "End"), sentence("Ende", "The  end"), sentence("Datei {x} öffnen", "Open file {x}")]
    by_machine = [sentence("Ende", "Finish"), sentence("Anfang", "End"), sentence("Datei {x} öffnen", "Open file %s")]
    blank = Sentence("12", None, Piece("12", ""))
    paragraph = mark_matches(Paragraph("x", (*by_hand, blank)), matches)
    assert [one.match for one in paragraph.sentences] == ["it", "it", "it", ""]
    assert (paragraph.text, paragraph.tokens, paragraph.confidence) == ("End The  end Open file {x} 12", 9, None)
    assert [one.scored.translation.flag for one in paragraph.sentences if one.scored] == ["", "", ""]
    assert mark_matches(Paragraph("x", tuple(by_machine)), matches).sentences == tuple(by_machine)


def test_no_match(matches: SegmentMatches) -> None:
    assert matches.exact("ende") is None  # case counts
    assert matches.exact("Kaputt %s") is None  # its translation lacks the placeholder
    assert matches.exact("Datei öffnen") is None


def test_only_pairs_with_the_tag(tmp_path: Path) -> None:
    tagged = SegmentMatches([memory(tmp_path)], "film")
    assert tagged.exact("Datei %s öffnen") is None
    assert tagged.exact("Ende") is not None


def test_near_matches_are_sorted(matches: SegmentMatches) -> None:
    near = matches.near("Datei %s öffne")
    assert [match.pair.source for match in near] == ["Datei %s öffnen"]
    assert near[0].similarity == pytest.approx(1 - 1 / len("Datei _ öffnen"))
    assert matches.near("Ende")[0].similarity == 1
    assert matches.near("etwas ganz anderes") == []
