"""The content of a plot as data: series of labeled points. Drawing is in :mod:`lacuna.reports.figures`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lacuna.errors import ReportError
from lacuna.reproduction.tables import Cell, Column, Plot, Table, format_cell

# Numbers on x whose gaps grow to this multiple of the first gap are spaced evenly.
_CROWDED = 4


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a series.

    :param value: The formatted y value with its mark.
    :param label: The value with the names of its series and its position on x.
    """

    x: float
    y: float
    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one line or of bars of one color, from left to right."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """The content of a plot.

    :param places: Labels of the positions 0, 1, 2 ... on x; ``None`` if x is numeric.
    :param x: Column of x, which decides the number format of the axis.
    :param y: Column of y; the first of several.
    """

    places: tuple[str, ...] | None
    series: tuple[Series, ...]
    x: Column
    y: Column


def chart_of(table: Table, plot: Plot) -> Chart:
    """Select the data of a plot from its table; empty cells are left out.

    :raises ReportError: The plot has no y column, a y value is text, or two bars have the same position.
    """
    if not plot.y:
        raise ReportError(f"table {table.name}: its plot has no y column; name one or more")
    columns = {column.name: number for number, column in enumerate(table.columns)}
    x = columns[plot.x]
    places = _places(plot, [row[x] for row in table.rows], table.columns[x])
    series_points: dict[str, list[Point]] = {}
    for number, row in enumerate(table.rows):
        if (cell := row[x]) is None:
            continue
        at, group = _shown(table, number, x), "" if plot.group is None else _shown(table, number, columns[plot.group])
        position = float(cell) if places is None else float(places.index(at))
        for name in plot.y:
            if (y := row[columns[name]]) is None:
                continue
            series_name = ", ".join(filter(None, (group, _printable(name) if len(plot.y) > 1 else "")))
            value = _shown(table, number, columns[name]) + _printable(table.marks.get((number, columns[name]), ""))
            label = f"{', '.join(filter(None, (series_name, at)))}: {value}"
            if isinstance(y, str):
                raise ReportError(f"table {table.name}: its plot has the value {label!r}; allowed are numbers")
            series_points.setdefault(series_name, []).append(Point(position, float(y), value, label))
    series = tuple(Series(name, tuple(sorted(points, key=_from_left))) for name, points in series_points.items())
    if plot.kind == "bars":
        _check_apart(table, series)
    return Chart(places, series, table.columns[x], table.columns[columns[plot.y[0]]])


def _places(plot: Plot, cells: Sequence[Cell], column: Column) -> tuple[str, ...] | None:
    """Return the labels of the positions on x, numbers in ascending order; ``None`` for a numeric axis."""
    named = [cell for cell in cells if cell is not None]
    numbers = sorted({cell for cell in named if not isinstance(cell, str)})
    all_numbers = not any(isinstance(cell, str) for cell in named)
    if all_numbers and plot.kind == "lines" and not _crowds(numbers):
        return None
    return tuple(dict.fromkeys(_printable(format_cell(cell, column)) for cell in (numbers if all_numbers else named)))


def _crowds(numbers: Sequence[float]) -> bool:
    """Detect numbers such as 1, 2, 4, 8 ..., the first of which would overlap on a linear axis."""
    gaps = [right - left for left, right in pairwise(numbers)]
    return bool(gaps) and gaps == sorted(gaps) and gaps[-1] >= _CROWDED * gaps[0]


def _check_apart(table: Table, series: Sequence[Series]) -> None:
    for bars in series:
        for left, right in pairwise(bars.points):
            if left.x == right.x:
                raise ReportError(f"table {table.name}: its plot has a second bar at {right.label!r}; one is allowed")


def _from_left(point: Point) -> float:
    return point.x


def _shown(table: Table, row: int, column: int) -> str:
    return _printable(format_cell(table.rows[row][column], table.columns[column]))


def _printable(text: str) -> str:
    # XML does not allow control characters and lone surrogates.
    return "".join(character if character.isprintable() else " " for character in text)
