"""Exact and near matches of segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from lacuna.datastore import build_store
from lacuna.documents.matches import SegmentMatches
from lacuna.index import ExactIndex
from lacuna.records import Origin, SentencePair
from lacuna.translator import Memory
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
    return Memory("it", store, ExactIndex(store))


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
