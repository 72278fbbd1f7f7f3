"""What the plot of a table draws, as data: series of points, and what to say of each. Knows nothing of drawing."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import Formatter, MaxNLocator, PercentFormatter, ScalarFormatter, StrMethodFormatter

from lacuna.analysis.tables import Cell, Column, Plot, Table, format_cell
from lacuna.errors import ReportError
from lacuna.reports.svg import finish

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


# After Okabe and Ito, whose colors people see apart whatever their color vision; darker, to stand out from paper.
PALETTE = ("#0067a5", "#cc8400", "#00936b", "#c0649a", "#4699d1", "#b04400")
INK, MUTED, RULE, PAPER = "#24292f", "#57606a", "#d8dee4", "#ffffff"
# The CSS variables that a page may set to draw in colors of its own.
THEME = {color: f"series-{number}" for number, color in enumerate(PALETTE, 1)} | {
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    PAPER: "paper",
}

_MARKERS = "osD^v<p>"
_DASHES: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 1.2)))
_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx")
_INCHES = (6.4, 3.5)
_DOTS_PER_INCH = 150
_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": MUTED,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.h_pad": 0.1,
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so that a figure is the same everywhere
    "font.size": 9.5,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "legend.handlelength": 3.0,  # a whole dash on both sides of the marker
    "lines.linewidth": 1.6,
    "lines.markeredgecolor": PAPER,
    "lines.markeredgewidth": 0.8,
    "lines.markersize": 7,
    "svg.fonttype": "none",
    "svg.hashsalt": "lacuna",
    "text.color": INK,
    "text.parse_math": False,  # names may hold dollar signs
    "xtick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.color": MUTED,
    "ytick.major.size": 0,
}

_BAR_GROUP = 0.8  # the width of all bars of a place
_CHARACTERS = 84  # that fit side by side
_LONGEST = 40  # characters of a name, which stands in full where the point tells its value


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawn table.

    :param inline: The SVG for use inside HTML, its colors variables of :data:`THEME`.
    """

    svg: bytes
    png: bytes
    inline: str


def draw(table: Table, plot: Plot) -> Figure | None:
    """Draw a table; ``None`` if it holds no value to draw.

    :raises ReportError: The plot does not fit the table.
    """
    chart = chart_of(table, plot)
    if not chart.series:
        return None
    with mpl.rc_context(_STYLE):
        canvas = Canvas(figsize=_INCHES, layout="constrained")
        axes = canvas.add_subplot()
        handles = (_draw_bars if plot.kind == "bars" else _draw_lines)(axes, chart)
        _label(axes, plot, chart)
        if len(chart.series) > 1:
            _add_legend(axes, handles, [series.name for series in chart.series])
        svg, png = io.BytesIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        canvas.savefig(png, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    titles = {
        _point_id(number, place): point.label
        for number, series in enumerate(chart.series)
        for place, point in enumerate(series.points)
    }
    finished = finish(svg.getvalue(), f"figure-{table.name}-", titles, f"{table.title} ({plot.kind})")
    return Figure(finished.as_file(), png.getvalue(), finished.inline(THEME))


def _point_id(series: int, place: int) -> str:
    return f"point-{series}-{place}"


def _draw_bars(axes: Axes, chart: Chart) -> list[BarContainer]:
    width = _BAR_GROUP / len(chart.series)
    widths = [len(point.value) + 1 for series in chart.series for point in series.points]
    labeled = len(widths) * max(widths) <= _CHARACTERS  # else they would touch each other
    drawn = []
    for number, series in enumerate(chart.series):
        offset = (number - (len(chart.series) - 1) / 2) * width
        bars = axes.bar(
            [point.x + offset for point in series.points],
            [point.y for point in series.points],
            width * (0.92 if len(chart.series) > 1 else 0.8),
            color=PALETTE[number % len(PALETTE)],
            hatch=_HATCHES[number % len(_HATCHES)],
            edgecolor=PAPER,
            linewidth=0,
        )
        for place, bar in enumerate(bars):
            bar.set_gid(_point_id(number, place))
        if labeled:
            axes.bar_label(bars, [point.value for point in series.points], padding=2, color=INK, fontsize=8.5)
        drawn.append(bars)
    return drawn


def _draw_lines(axes: Axes, chart: Chart) -> list[Line2D]:
    drawn = []
    for number, series in enumerate(chart.series):
        look: dict[str, Any] = {"color": PALETTE[number % len(PALETTE)], "marker": _MARKERS[number % len(_MARKERS)]}
        dashes = _DASHES[number % len(_DASHES)]
        x, y = [point.x for point in series.points], [point.y for point in series.points]
        axes.plot(x, y, color=look["color"], linestyle=dashes)
        for place, point in enumerate(series.points):  # one by one: each marker has a name of its own
            axes.plot([point.x], [point.y], **look, linestyle="none", gid=_point_id(number, place))
        drawn.append(Line2D([], [], **look, linestyle=dashes))
    return drawn


def _label(axes: Axes, plot: Plot, chart: Chart) -> None:
    axes.set_xlabel(_short(plot.x_label or plot.x))
    axes.set_ylabel(_short(plot.y_label or (plot.y[0] if len(plot.y) == 1 else "")))
    axes.yaxis.set_major_formatter(_axis_numbers(chart.y))
    if chart.places is None:
        axes.xaxis.set_major_formatter(_axis_numbers(chart.x))
        axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=chart.x.kind == "count"))
    else:
        _name_places(axes, [_short(name) for name in chart.places])


def _name_places(axes: Axes, names: list[str]) -> None:
    room = max(_CHARACTERS // len(names) - 2, 1)
    wrapped = [textwrap.fill(name, room, break_long_words=False) for name in names]
    slanted = any(len(line) > room for name in wrapped for line in name.splitlines())
    axes.set_xticks(range(len(names)), names if slanted else wrapped)
    if slanted:
        axes.tick_params(axis="x", labelrotation=35)
        for name in axes.get_xticklabels():
            name.set(horizontalalignment="right", rotation_mode="anchor")


def _axis_numbers(column: Column) -> Formatter:
    if column.kind == "share":
        return PercentFormatter(1.0, symbol=" %")
    if column.kind == "count":
        return StrMethodFormatter("{x:,.0f}")
    return ScalarFormatter(useOffset=False)


def _add_legend(axes: Axes, handles: list[Any], names: list[str]) -> None:
    columns = max(1, min(len(names), _CHARACTERS // (max(len(_short(name)) for name in names) + 8)))
    legend = axes.legend(
        handles, [""] * len(names), loc="lower left", bbox_to_anchor=(0, 1.01), ncols=columns, borderaxespad=0
    )
    # Set afterwards: matplotlib leaves out what begins with an underscore.
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(_short(name))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
