"""The data that a plot selects from its table, with hand-worked values."""

from __future__ import annotations

import pytest

from lacuna.errors import ReportError
from lacuna.reports.chart import Chart, chart_of
from lacuna.reproduction.tables import Cell, Column, Plot, Table


def chart(plot: Plot, *rows: tuple[Cell, ...], marks: dict[tuple[int, int], str] | None = None) -> Chart:
    columns = (Column("method"), Column("ratio", "share", digits=0), Column("bleu", "score"), Column("size", "count"))
    return chart_of(Table("curves", "Curves", columns, rows, marks=marks or {}), plot)


def test_groups_name_the_series_and_missing_values_are_left_out() -> None:
    found = chart(
        Plot("lines", "ratio", ("bleu",), "method"),
        ("plac", 0.5, 20.0, None),
        ("random", 0.5, 19.25, None),
        ("plac", 0.0, 21.125, None),
        ("random", 0.25, None, None),
        marks={(1, 2): "*"},
    )
    assert found.places is None
    assert [series.name for series in found.series] == ["plac", "random"]
    plac, random = (series.points for series in found.series)
    assert [(point.x, point.y, point.label) for point in plac] == [
        (0.0, 21.125, "plac, 0 %: 21.12"),
        (0.5, 20.0, "plac, 50 %: 20.00"),
    ]
    assert [(point.x, point.y, point.label) for point in random] == [(0.5, 19.25, "random, 50 %: 19.25*")]


def test_a_lone_series_has_no_name() -> None:
    found = chart(Plot("bars", "method", ("size",)), ("plac", None, None, 12_345), ("random", None, None, 7))
    assert found.places == ("plac", "random")
    assert [series.name for series in found.series] == [""]
    assert [point.label for point in found.series[0].points] == ["plac: 12,345", "random: 7"]


def test_several_columns_are_series_of_each_group() -> None:
    found = chart(Plot("bars", "ratio", ("bleu", "size"), "method"), ("a", 0.1, 1.0, 2), ("b", 0.1, 3.0, 4))
    assert [series.name for series in found.series] == ["a, bleu", "a, size", "b, bleu", "b, size"]


def test_text_keeps_the_order_of_the_table() -> None:
    found = chart(Plot("bars", "method", ("bleu",)), ("z", None, 1.0, None), ("a", None, 2.0, None))
    assert found.places == ("z", "a")


@pytest.mark.parametrize(
    ("values", "positions"),
    [
        ((1, 2, 4, 8), [0, 1, 2, 3]),  # the last step is four times the first
        ((16, 0, 1, 4, 2, 8), [0, 1, 2, 3, 4, 5]),
        ((1, 2, 4), [1, 2, 4]),
        ((10, 20, 44, 45), [10, 20, 44, 45]),  # the last step is the smallest
        ((10, 30, 30, 60), [10, 30, 30, 60]),
        ((7,), [7]),
    ],
)
def test_numbers_stand_where_they_are_unless_they_would_crowd(values: tuple[int, ...], positions: list[float]) -> None:
    found = chart(Plot("lines", "size", ("bleu",)), *((None, None, 1.0, value) for value in values))
    assert [point.x for point in found.series[0].points] == positions
    assert found.places == (None if positions == sorted(values) else tuple(map(str, sorted(values))))


def test_bars_stand_side_by_side_in_order_of_size() -> None:
    found = chart(Plot("bars", "ratio", ("bleu",)), ("a", 0.45, 1.0, None), ("a", 0.1, 2.0, None))
    assert found.places == ("10 %", "45 %")
    assert [(point.x, point.y) for point in found.series[0].points] == [(0, 2.0), (1, 1.0)]


def test_control_characters_become_spaces() -> None:
    found = chart(Plot("bars", "method", ("bleu",)), ("a\x00b\x1bc\ud800d", None, 1.0, None))
    assert found.places == ("a b c d",)


@pytest.mark.parametrize(
    ("plot", "message"),
    [
        (Plot("bars", "ratio", ()), "has no y column"),
        (Plot("bars", "ratio", ("method",)), "its plot has the value '10 %: a'; allowed are numbers"),
        (Plot("bars", "ratio", ("bleu",)), "a second bar at '10 %: 3.00'; one is allowed"),
    ],
)
def test_refusals(plot: Plot, message: str) -> None:
    with pytest.raises(ReportError, match=message):
        chart(plot, ("a", 0.1, 1.0, 2), ("b", 0.1, 3.0, 4))
