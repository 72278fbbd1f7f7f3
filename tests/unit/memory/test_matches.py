"""Exact and near matches of segments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.datastore import build_store
from lacuna.index import ExactIndex
from lacuna.memory import FolderMemory, Memory, SegmentMatches
from lacuna.memory.matches import SourceTable
from lacuna.records import Origin, SentencePair
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


def memory(folder: Path, name: str = "it", texts: Sequence[tuple[str, str, str | None]] = PAIRS) -> Memory:
    pairs = [SentencePair(s, t, Origin("f", str(n), tag)) for n, (s, t, tag) in enumerate(texts)]
    store = build_store(NumpyModel(), pairs, folder / name, cleaning=None)
    return FolderMemory.of(store, name, ExactIndex(store))


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


def test_of_two_memories_the_last_one_shows_a_segment_that_both_have(tmp_path: Path) -> None:
    other = memory(tmp_path, "other", [("Anfang", "Start", None), ("Ende", "Close", None), ("Enden", "Ends", None)])
    both = SegmentMatches([memory(tmp_path), other])
    match = both.exact("Anfang")
    assert match is not None
    assert (match.memory, match.sentence) == ("other", 0)
    match = both.exact("Ende")
    assert match is not None
    assert match.text == "The end"  # two of four say so
    assert [(one.memory, one.pair.target) for one in both.near("Ende")] == [("other", "Close"), ("other", "Ends")]
    assert [(one.memory, one.pair.target) for one in both.near("Ende", most=1)] == [("other", "Close")]


numbered = st.dictionaries(
    st.integers(0, 20),
    st.builds(
        lambda source, tag: SentencePair(source, "x", Origin("f", "1", tag)),
        st.sampled_from(["a", "b %s", "b {x}", " a ", ""]),
        st.sampled_from([None, "t"]),
    ),
)


@given(numbered, st.sets(st.integers(0, 20)), numbered)
def test_a_changed_table_is_that_of_the_changed_sentences(
    before: dict[int, SentencePair], gone: set[int], new: dict[int, SentencePair]
) -> None:
    new = {number + 21: pair for number, pair in new.items()}
    after = {number: pair for number, pair in before.items() if number not in gone} | new
    changed = SourceTable.read(before.items()).changed(gone, new.items())
    expected = SourceTable.read(after.items())
    assert (changed.shapes, changed.tags) == (expected.shapes, expected.tags)
    assert changed.numbers == {number for number, pair in after.items() if pair.source}
