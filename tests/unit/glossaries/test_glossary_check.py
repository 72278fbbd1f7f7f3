"""Warnings of a check: each rule by hand, and the absence of what is fine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.glossaries.glossary_check import check_terms
from lacuna.glossaries.problems import Problem
from lacuna.glossaries.rows import Row, group_rows


def check(*rows: Row) -> list[Problem]:
    return sorted(check_terms(group_rows(rows)), key=lambda problem: problem.line)


def rows_of(*pairs: tuple[str, str]) -> list[Row]:
    return [Row(line, source, target) for line, (source, target) in enumerate(pairs, start=1)]


BACK = "target: line {} translates {!r} back; check which column is the source"
CHAIN = "target: {!r} is the source of line {}, with another target; check the columns of both lines"
WARNINGS: dict[str, tuple[Sequence[Row], list[tuple[int, str]]]] = {
    "fine": (rows_of(("Datei", "file"), ("neue Datei", "new file"), ("Menü", "menu"), ("Chef", "boss")), []),
    "cycle": (rows_of(("Haus", "house"), ("Ort", "place"), ("House", "haus")), [(1, BACK.format(3, "house"))]),
    "chain": (rows_of(("Gift", "poison"), ("Geschenk", "gift")), [(2, CHAIN.format("gift", 1))]),
    "longer cycle": (
        rows_of(("a1", "b1"), ("b1", "c1"), ("c1", "a1")),
        [(1, CHAIN.format("b1", 2)), (2, CHAIN.format("c1", 3)), (3, CHAIN.format("a1", 1))],
    ),
    "a word of both languages": (rows_of(("Rechner", "computer"), ("Computer", "computer")), []),
    "the source itself": (
        rows_of(("Lacuna", "Lacuna")),
        [(1, 'target: got the source itself; write translate "no" for a term that stays as it is')],
    ),
    "one of several": (rows_of(("Computer", "Computer"), ("Computer", "machine")), []),
    "stays": ([Row(1, "Lacuna", translate=False)], []),
    "the same row": (
        rows_of(("Ort", "place"), ("Ort", "spot"), ("Ort", "place")),
        [(3, "the same as line 1; remove one of them")],
    ),
    "equal but for notes": ([Row(1, "Ort", "place", note="x"), Row(2, "Ort", "place", note="y")], []),
    "one letter": (
        rows_of(("a", "to")),
        [(1, "source: got a single letter, which is a term wherever it is a word; write a longer term")],
    ),
    "placeholder": (
        rows_of(("$HOME", "home")),
        [(1, "source: is a placeholder, which every translation repeats as it is; remove the term")],
    ),
    "with placeholder": (
        rows_of(("Ordner %s", "folder %s")),
        [(1, "source: contains the placeholder %s, so it is never found; write it without")],
    ),
    "added placeholder": (
        [Row(1, "Ordner", "folder {0}", "<b>folder")],
        [
            (1, "target: contains the placeholder {0}, which the source does not have; write it without"),
            (1, "forbidden: contains the placeholder <b>, which the source does not have; write it without"),
        ],
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(name: str) -> None:
    rows, expected = WARNINGS[name]
    found = check(*rows)
    assert [(problem.line, problem.message) for problem in found] == expected
    assert {problem.severity for problem in found} <= {"warning"}


@pytest.mark.parametrize(
    ("forbidden", "target", "wrong"),
    [
        ("file", "data file", True),
        ("file", "File", True),
        ("file", "files", False),
        ("file", "profile", False),
        ("data file", "file", False),
        ("C++", "C++ code", True),
        ("文件", "新文件夹", True),
        ("file", "file-name", True),
    ],
)
def test_a_forbidden_text_counts_as_a_part_only_as_whole_words(forbidden: str, target: str, wrong: bool) -> None:
    assert [problem.severity for problem in check(Row(1, "Datei", target, forbidden))] == ["error"] * wrong


def test_capitals_count_where_they_matter() -> None:
    assert check(Row(1, "Polen", "Poland", "poland", case_sensitive=True)) == []
    assert len(check(Row(1, "Polen", "Poland", "poland"))) == 1


def test_what_the_model_cannot_write_is_found() -> None:
    rows = [*rows_of(("Marke", "brand™"), ("Ort", "place")), Row(3, "Zug™", translate=False), Row(4, "Chef™", "", "x")]
    found = check_terms(group_rows(rows), can_write=str.isascii)
    assert [(problem.line, problem.message.partition(";")[0]) for problem in found] == [
        (1, "target: the model cannot write 'brand™' so, its vocabulary lacks a character"),
        (3, "source: the model cannot write 'Zug™' so, its vocabulary lacks a character"),
    ]


texts = st.sampled_from(["ab", "Ab", "cd", "ef", "gh"])


@given(rows=st.lists(st.tuples(texts, texts, st.booleans()), max_size=8))
def test_groups_are_those_of_comparing_all_pairs(rows: list[tuple[str, str, bool]]) -> None:
    made = [Row(line, source, target, case_sensitive=case) for line, (source, target, case) in enumerate(rows)]

    def in_any_capitals(row: Row) -> bool:
        return any(not each.case_sensitive and each.source.lower() == row.source.lower() for each in made)

    for one in made:
        [group] = [group for group in group_rows(made) if one in group]
        same = [
            other
            for other in made
            if other.source == one.source or (other.source.lower() == one.source.lower() and in_any_capitals(one))
        ]
        assert group == same


@given(rows=st.lists(st.tuples(texts, texts, texts), max_size=6))
def test_a_translation_that_is_allowed_and_forbidden_is_always_found(rows: list[tuple[str, str, str]]) -> None:
    made = [Row(line, *cells) for line, cells in enumerate(rows)]
    expected = {
        one.line
        for one in made
        if any(
            one.source.lower() == other.source.lower() and one.forbidden.lower() == other.target.lower()
            for other in made
        )
    }
    assert {problem.line for problem in check(*made) if problem.severity == "error"} == expected
