"""The report of an experiment: one HTML page, and its figures as files."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from lacuna.artifacts.files import atomic_path, write_text
from lacuna.artifacts.pages import fit_for_html, own_file, page_environment
from lacuna.progress import duration
from lacuna.reports.record import ExperimentResults, read_results
from lacuna.reproduction.tables import CLOSE, OPEN, Column, Table, format_cell

if TYPE_CHECKING:
    from lacuna.reports.figures import Figure

PAGE = "report.html"
FIGURES = "figures"
MARKS = {"*": "significant decline"}

_UNDERLINED = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
_LONG = 40  # characters; longer text is wrapped
_LARGE = 12  # rows; a larger table below its figure is collapsible
_SIGNS = {"holds": "✓", "does not hold": "✗", "within noise": "≈", "not measured": "–"}


@dataclass(frozen=True, slots=True)
class Report:
    """A written report.

    :param page: The HTML file.
    :param figures: The SVG and PNG files.
    """

    page: Path
    figures: tuple[Path, ...]


def write_report(folder: str | Path) -> Report:
    """Write the page and the figures of an experiment; the same experiment gives the same bytes.

    :param folder: Folder of ``lacuna reproduce``.
    :raises ReportError: The folder has no experiment or an incomplete one, or a plot does not fit its table.
    :raises MissingExtra: There are figures to draw, and matplotlib is not installed. Nothing is written then.
    """
    folder = Path(folder)
    experiment = read_results(folder)
    figures = _draw_figures(experiment)
    page = render_page(experiment, {name: figure.inline for name, figure in figures.items()})
    files = []
    for name, figure in figures.items():
        for suffix, content in (("svg", figure.svg), ("png", figure.png)):
            files.append(folder / FIGURES / f"{name}.{suffix}")
            with atomic_path(files[-1]) as temporary:
                temporary.write_bytes(content)
    write_text(folder / PAGE, page)
    return Report(folder / PAGE, tuple(files))


def _draw_figures(experiment: ExperimentResults) -> dict[str, Figure]:
    """Draw all plots; matplotlib is imported only if there are any."""
    plots = [(table, table.plot) for table in experiment.tables if table.plot is not None]
    if not plots:
        return {}
    from lacuna.reports.figures import draw

    drawn = ((table.name, draw(table, plot)) for table, plot in plots)
    return {name: figure for name, figure in drawn if figure is not None}


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A table of the page.

    :param figure: Markup of its figure, if it has one.
    :param figure_number: Number of the figure on the page.
    :param folded: Whether the table is collapsible.
    :param helped: Columns with a help text.
    :param marks: Meaning of the marks that the note does not explain.
    """

    table: Table
    number: int
    figure: Markup | None
    figure_number: int
    folded: bool
    rows: list[list[ShownCell]]
    helped: list[Column]
    marks: dict[str, str]


def render_page(experiment: ExperimentResults, figures: Mapping[str, str]) -> str:
    """Render the page.

    :param figures: SVG markup by the name of the table.
    """
    environment = page_environment("lacuna.reports")
    environment.filters["duration"] = duration
    script = own_file(environment, "page.js")
    record = experiment.record
    page = environment.get_template("page.html").render(
        record=record,
        sections=_sections(experiment, figures),
        signs=_SIGNS,
        settings=list(flat(record.settings)) if record.settings else [],
        style=own_file(environment, "style.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return fit_for_html(page)


def _sections(experiment: ExperimentResults, figures: Mapping[str, str]) -> list[ReportSection]:
    sections: list[ReportSection] = []
    drawn = 0
    for number, table in enumerate(experiment.tables, 1):
        figure = Markup(figures[table.name]) if table.name in figures else None  # noqa: S704 - made by our own code
        drawn += figure is not None
        sections.append(
            ReportSection(
                table=table,
                number=number,
                figure=figure,
                figure_number=drawn,
                folded=figure is not None and len(table.rows) > _LARGE,
                rows=shown_rows(table),
                helped=[column for column in table.columns if column.help],
                marks={mark: MARKS[mark] for mark in MARKS if mark in table.marks.values() and mark not in table.note},
            )
        )
    return sections


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A formatted cell; ``text`` is ``None`` for a missing number."""

    text: Markup | None
    mark: str
    look: str


def shown_rows(table: Table) -> list[list[ShownCell]]:
    """Format every cell; the look of a column is ``number``, ``prose`` (wrapped text) or ``text``."""
    looks = [_look(table, column) for column in range(len(table.columns))]
    return [
        [
            ShownCell(
                None
                if cell is None and looks[column] == "number"
                else underline(format_cell(cell, table.columns[column])),
                table.marks.get((number, column), ""),
                looks[column],
            )
            for column, cell in enumerate(row)
        ]
        for number, row in enumerate(table.rows)
    ]


def _look(table: Table, column: int) -> str:
    if table.columns[column].kind != "text":
        return "number"
    return "prose" if any(len(str(row[column])) > _LONG for row in table.rows) else "text"


def underline(text: str) -> Markup:
    """Escape text for HTML and underline the parts between ``⟦`` and ``⟧``."""
    parts = _UNDERLINED.split(text)  # every second part was between brackets
    return Markup().join(Markup("<u>{}</u>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts))


def flat(content: Any, name: str = "") -> Iterator[tuple[str, str]]:  # noqa: ANN401 - JSON is any
    """List nested settings as dotted names with their values; a list of plain values is one line."""
    if isinstance(content, dict):
        if not content:
            yield name, _scalar(None)
        for key, value in content.items():
            yield from flat(value, f"{name}.{key}" if name else str(key))
    elif isinstance(content, list) and any(isinstance(value, dict | list) for value in content):
        for number, value in enumerate(content, 1):
            yield from flat(value, f"{name}.{number}")
    elif isinstance(content, list):
        yield name, ", ".join(map(_scalar, content))
    else:
        yield name, _scalar(content)


def _scalar(value: Any) -> str:  # noqa: ANN401 - JSON is any
    words = {None: "none", True: "yes", False: "no"}
    return words[value] if value is None or isinstance(value, bool) else str(value)
