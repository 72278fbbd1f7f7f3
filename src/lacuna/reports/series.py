"""What the plot of a table draws, as data: series of points, and what to say of each. Knows nothing of drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lacuna.analysis.tables import Cell, Column, Plot, Table, format_cell
from lacuna.errors import ReportError

_CROWDED = 4  # times the first step is the last one


@dataclass(frozen=True, slots=True)
class Point:
    """A value to draw.

    :param value: As people read it, with its mark.
    :param label: The value and what it is the value of.
    """

    x: float
    y: float
    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Series:
    """Values that belong together, from left to right."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """All that is drawn.

    :param places: Names of what is along x, at 0, 1, 2 ...; ``None`` if x is a number like any other.
    :param x: Says how numbers along x are written.
    :param y: The same for y; the first of several.
    """

    places: tuple[str, ...] | None
    series: tuple[Series, ...]
    x: Column
    y: Column


def chart_of(table: Table, plot: Plot) -> Chart:
    """Pick out of a table what its plot shows; cells without a value are left out.

    :raises ReportError: The plot draws nothing, or text, or two bars at one place.
    """
    if not plot.y:
        raise ReportError(f"table {table.name}: its plot draws no column; name one or more as y")
    columns = {column.name: number for number, column in enumerate(table.columns)}
    x = columns[plot.x]
    places = _places(plot, [row[x] for row in table.rows], table.columns[x])
    found: dict[str, list[Point]] = {}
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
                raise ReportError(f"table {table.name}: its plot draws {label!r}; allowed are numbers")
            found.setdefault(series_name, []).append(Point(position, float(y), value, label))
    series = tuple(Series(name, tuple(sorted(points, key=_from_left))) for name, points in found.items())
    if plot.kind == "bars":
        _check_apart(table, series)
    return Chart(places, series, table.columns[x], table.columns[columns[plot.y[0]]])


def _places(plot: Plot, cells: Sequence[Cell], column: Column) -> tuple[str, ...] | None:
    """Name the places along x, numbers by size; ``None`` if they are numbers that are best drawn where they are."""
    named = [cell for cell in cells if cell is not None]
    numbers = sorted({cell for cell in named if not isinstance(cell, str)})
    all_numbers = not any(isinstance(cell, str) for cell in named)
    if all_numbers and plot.kind == "lines" and not _crowds(numbers):
        return None
    return tuple(dict.fromkeys(_printable(format_cell(cell, column)) for cell in (numbers if all_numbers else named)))


def _crowds(numbers: Sequence[float]) -> bool:
    """Tell numbers like 1, 2, 4, 8 ..., the first of which would run into each other at the left."""
    gaps = [right - left for left, right in pairwise(numbers)]
    return bool(gaps) and gaps == sorted(gaps) and gaps[-1] >= _CROWDED * gaps[0]


def _check_apart(table: Table, series: Sequence[Series]) -> None:
    for one in series:
        for left, right in pairwise(one.points):
            if left.x == right.x:
                raise ReportError(f"table {table.name}: its plot has a second bar at {right.label!r}; one is allowed")


def _from_left(point: Point) -> float:
    return point.x


def _shown(table: Table, row: int, column: int) -> str:
    return _printable(format_cell(table.rows[row][column], table.columns[column]))


def _printable(text: str) -> str:
    # Control characters and halves of surrogate pairs have no place in XML.
    return "".join(character if character.isprintable() else " " for character in text)
