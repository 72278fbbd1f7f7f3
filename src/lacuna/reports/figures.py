"""Drawing of charts with matplotlib, as SVG and PNG.

Importing this module needs the extra ``[reports]``; nothing else in Lacuna imports matplotlib.
"""

from __future__ import annotations

import io
import textwrap
from dataclasses import dataclass
from typing import Any

from lacuna.errors import needs_extra
from lacuna.reports.chart import Chart, chart_of
from lacuna.reports.svg import finish
from lacuna.reproduction.tables import Column, Plot, Table

with needs_extra("reports", "drawing figures"):
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D
    from matplotlib.ticker import Formatter, MaxNLocator, PercentFormatter, ScalarFormatter, StrMethodFormatter

# The palette of Okabe and Ito, which is safe for color-blind readers, darkened for contrast with white paper.
PALETTE = ("#0067a5", "#cc8400", "#00936b", "#c0649a", "#4699d1", "#b04400", "#6e6e00")
INK, MUTED, RULE, PAPER = "#24292f", "#57606a", "#d8dee4", "#ffffff"
# CSS variables by which a page can replace the colors.
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
_ROW_INCHES = 0.22  # height of a further row of the legend
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
    "font.family": ["DejaVu Sans"],  # part of matplotlib, so that figures are the same on every machine
    "font.size": 9.5,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "legend.handlelength": 3.0,  # long enough to show the dash pattern on both sides of the marker
    "lines.linewidth": 1.6,
    "lines.markeredgecolor": PAPER,
    "lines.markeredgewidth": 0.8,
    "lines.markersize": 7,
    "svg.fonttype": "none",
    "svg.hashsalt": "lacuna",
    "text.color": INK,
    "text.parse_math": False,  # names may contain dollar signs
    "xtick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.color": MUTED,
    "ytick.major.size": 0,
}

_BAR_GROUP = 0.8  # width of all bars at one position
_CHARACTERS = 84  # characters that fit in the width of a figure
_MAX_NAME_LENGTH = 40  # characters of a shortened name; the label of a point has the full name


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawn table.

    :param inline: The SVG as markup inside HTML, with the CSS variables of :data:`THEME` as colors.
    """

    svg: bytes
    png: bytes
    inline: str


def draw(table: Table, plot: Plot) -> Figure | None:
    """Draw the plot of a table; ``None`` if the table has no values.

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
            rows = _add_legend(canvas, handles, [series.name for series in chart.series])
            canvas.set_figheight(_INCHES[1] + (rows - 1) * _ROW_INCHES)
        svg, png = io.BytesIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        canvas.savefig(png, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    titles = {
        _point_id(number, index): point.label
        for number, series in enumerate(chart.series)
        for index, point in enumerate(series.points)
    }
    finished = finish(svg.getvalue(), f"figure-{table.name}-", titles, f"{table.title} ({plot.kind})")
    return Figure(finished.as_file(), png.getvalue(), finished.inline(THEME))


def _point_id(series: int, point: int) -> str:
    return f"point-{series}-{point}"


def _draw_bars(axes: Axes, chart: Chart) -> list[BarContainer]:
    width = _BAR_GROUP / len(chart.series)
    widths = [len(point.value) + 1 for series in chart.series for point in series.points]
    labeled = len(widths) * max(widths) <= _CHARACTERS  # otherwise the labels would overlap
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
        for index, bar in enumerate(bars):
            bar.set_gid(_point_id(number, index))
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
        for index, point in enumerate(series.points):  # one by one, because each marker has its own id
            axes.plot([point.x], [point.y], **look, linestyle="none", gid=_point_id(number, index))
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
    width = max(_CHARACTERS // len(names) - 2, 1)
    wrapped = [textwrap.fill(name, width, break_long_words=False) for name in names]
    slanted = any(len(line) > width for name in wrapped for line in name.splitlines())
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


def _add_legend(canvas: Canvas, handles: list[Any], names: list[str]) -> int:
    """Add a legend above the axes and return the number of its rows."""
    columns = max(1, min(len(names), _CHARACTERS // (max(len(_short(name)) for name in names) + 12)))
    # Of the whole figure and not of the axes, which would shrink to half their width beside a wide legend.
    legend = canvas.legend(handles, [""] * len(names), loc="outside upper left", ncols=columns)
    # Set afterwards: matplotlib omits labels that begin with an underscore.
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(_short(name))
    return -(-len(names) // columns)


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1]}…"
