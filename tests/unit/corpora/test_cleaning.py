"""Cleaning: what goes and why, what the report says, and that cleaning twice changes nothing."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.corpora import Cleaning, CleaningReport, clean
from lacuna.errors import CorpusError, SettingError
from lacuna.records import Origin, SentencePair


def pair(source: str, target: str, place: str = "1") -> SentencePair:
    return SentencePair(source, target, Origin("a.tsv", place))


def fate(source: str, target: str, **settings: Any) -> str:
    """Say what becomes of one pair: ``kept`` or the reason it went."""
    report = CleaningReport()
    keeper = pair("immer gut", "all right")
    list(clean([keeper, pair(source, target)], Cleaning(**settings), report))
    return next(iter(report.dropped), "kept")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Öffnen", "Open", "kept"),
        (" \t", "Open", "empty"),
        ("Öffnen", "\u3000", "empty"),
        ("12.5 %", "12.5 %", "too few letters"),
        ("a\ufffdb", "ab", "broken characters"),
        ("a\x00b", "ab", "broken characters"),
        ("wort " * 251, "word " * 251, "too long"),
        ("wort " * 250, "word " * 250, "kept"),
        ("字" * 2001, "字" * 2001, "too long"),
        ("OK", "In Ordnung, weiter", "kept"),
        ("kurz", "a very long sentence that cannot by any means be the translation of it", "lengths too different"),
        ("你好，世界，这是一个测试。", "Hello, world, this is a test of some length.", "kept"),
        ("Firefox", "Firefox", "kept"),
        ("immer gut", "all right", "duplicate"),
        (" immer\u00a0gut", "all  right\n", "duplicate"),
        ("immer gut", "always fine", "kept"),
    ],
)
def test_defaults(source: str, target: str, expected: str) -> None:
    assert fate(source, target) == expected


@pytest.mark.parametrize(
    ("settings", "source", "target", "expected"),
    [
        ({"drop_identical": True}, "Firefox", "Firefox", "identical sides"),
        ({"drop_duplicates": False}, "immer gut", "all right", "kept"),
        ({"drop_broken": False}, "a\ufffdb", "ab", "kept"),
        ({"min_letters": 0}, "12.5 %", "12.5 %", "kept"),
        ({"min_letters": 3}, "a1b2", "abcd", "too few letters"),
        ({"max_words": 2}, "a b", "a b c", "too long"),
        ({"max_words": 2}, "a b", "b a", "kept"),
        ({"max_characters": 11}, "abcdefghijkl", "abc", "too long"),
        ({"max_ratio": math.inf}, "a", "word " * 200, "kept"),
        ({"max_ratio": 1}, "abc", "abcd", "lengths too different"),
    ],
)
def test_settings(settings: dict[str, Any], source: str, target: str, expected: str) -> None:
    assert fate(source, target, **settings) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_words": 0}, "max_words must be 1 or more, got 0"),
        ({"max_characters": -1}, "max_characters must be 1 or more, got -1"),
        ({"max_ratio": 0.5}, "max_ratio must be 1 or more, got 0.5; use inf for no limit"),
        ({"max_ratio": math.nan}, "max_ratio must be 1 or more, got nan"),
        ({"min_letters": -1}, "min_letters must be 0 or more, got -1"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Cleaning(**settings)


def test_text_is_normalized_and_the_origin_kept() -> None:
    assert list(clean([pair(" O\u0308ffnen\u00a0 jetzt\r", "Open\t½\u2028now", "7")])) == [
        pair("Öffnen jetzt", "Open ½ now", "7")
    ]


def test_the_report_says_it_in_one_line() -> None:
    report = CleaningReport()
    assert report.summary() == "kept 0 of 0 pairs"
    list(clean([pair("a", "b"), pair("a", "b"), pair("a", "b"), pair("", "b")], report=report))
    assert report.summary() == "kept 1 of 4 pairs (dropped 2 duplicate, 1 empty)"
    assert (report.read, report.kept, dict(report.dropped)) == (4, 1, {"duplicate": 2, "empty": 1})


def test_the_report_counts_as_the_stream_goes() -> None:
    report = CleaningReport()
    stream = clean([pair("a", "b"), pair("c", "d")], report=report)
    next(stream)
    assert report.kept == 1


def test_dropping_everything_is_an_error() -> None:
    with pytest.raises(CorpusError, match=r"empty after cleaning: kept 0 of 1 pairs \(dropped 1 empty\); loosen"):
        list(clean([pair("", "b")]))


def test_no_pairs_in_no_pairs_out() -> None:
    assert list(clean([])) == []


TEXT = st.one_of(st.text(max_size=12), st.text(alphabet="ab \t\u00a0\u0308O1", max_size=6))
PAIRS = st.lists(st.builds(pair, TEXT, TEXT, st.just("1")), max_size=12)


@given(PAIRS, st.booleans())
def test_cleaning_twice_is_cleaning_once(pairs: list[SentencePair], drop_identical: bool) -> None:
    settings = Cleaning(drop_identical=drop_identical)
    keeper = pair("always kept", "immer da")
    once = list(clean([*pairs, keeper], settings))
    report = CleaningReport()
    assert list(clean(once, settings, report)) == once
    assert not report.dropped


@given(PAIRS)
def test_every_pair_is_counted_once(pairs: list[SentencePair]) -> None:
    report = CleaningReport()
    kept = list(clean([*pairs, pair("always kept", "immer da")], report=report))
    assert report.read == len(pairs) + 1
    assert report.kept == len(kept)
