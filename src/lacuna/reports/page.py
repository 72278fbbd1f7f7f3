"""Turning what is in the files into words for the page: cells, settings, times. Knows no HTML but ``<u>``."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from lacuna.analysis.tables import CLOSE, OPEN, Column, Table, format_cell
from lacuna.files import atomic_path, write_text
from lacuna.pages import fit_for_html, own_file, page_environment
from lacuna.reports.experiment import Experiment, read_experiment
from lacuna.reports.figures import Figure, draw

MARKS = {"*": "significant decline"}

_UNDERLINED = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
_LONG = 40  # characters; longer text is set in lines


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A cell of a table; ``text`` is ``None`` where a number is missing."""

    text: Markup | None
    mark: str
    look: str


def shown_rows(table: Table) -> list[list[ShownCell]]:
    """Write every cell for people; the look of a column is number, prose (text in lines) or text."""
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
    """Escape text for HTML; stretches between double brackets are underlined."""
    parts = _UNDERLINED.split(text)  # every second one stood between brackets
    return Markup().join(Markup("<u>{}</u>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts))


def flat(content: Any, name: str = "") -> Iterator[tuple[str, str]]:  # noqa: ANN401 - JSON is any
    """List nested settings as dotted names with their values; plain lists stay in one line."""
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


def duration(seconds: float) -> str:
    """Write a time as people say it: 56.1 s, 12 min 5 s, 1 h 18 min."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min"


_LARGE = 12  # rows; a larger table beside its figure can be folded
_SIGNS = {"holds": "✓", "does not hold": "✗", "within noise": "≈", "not measured": "–"}


@dataclass(frozen=True, slots=True)
class Section:
    """A table as the page shows it.

    :param figure: Markup of its figure, if it has one.
    :param figure_number: Counted through the page.
    :param folded: Whether the table may be folded away.
    :param marks: The meaning of marks in it that its note says nothing of.
    """

    table: Table
    number: int
    figure: Markup | None
    figure_number: int
    folded: bool
    rows: list[list[ShownCell]]
    helped: list[Column]
    marks: dict[str, str]


def render_page(experiment: Experiment, figures: Mapping[str, str]) -> str:
    """Write the page.

    :param figures: By the name of a table, the SVG of its figure, as markup for inside HTML.
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


def _sections(experiment: Experiment, figures: Mapping[str, str]) -> list[Section]:
    sections: list[Section] = []
    drawn = 0
    for number, table in enumerate(experiment.tables, 1):
        figure = Markup(figures[table.name]) if table.name in figures else None  # noqa: S704 - made by our own code
        drawn += figure is not None
        sections.append(
            Section(
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


PAGE = "report.html"
FIGURES = "figures"


@dataclass(frozen=True, slots=True)
class Report:
    """The files that were written."""

    page: Path
    figures: tuple[Path, ...]


def write_report(folder: str | Path) -> Report:
    """Write the page and the figures of an experiment; the same experiment gives the same bytes.

    :param folder: As ``lacuna reproduce`` left it.
    :raises ReportError: It holds no experiment, or not a whole one, or a plot that does not fit its table.
    """
    folder = Path(folder)
    experiment = read_experiment(folder)
    drawn = ((table.name, draw(table, table.plot)) for table in experiment.tables if table.plot is not None)
    figures: dict[str, Figure] = {name: figure for name, figure in drawn if figure is not None}
    page = render_page(experiment, {name: figure.inline for name, figure in figures.items()})
    files = []
    for name, figure in figures.items():
        for suffix, content in (("svg", figure.svg), ("png", figure.png)):
            files.append(folder / FIGURES / f"{name}.{suffix}")
            with atomic_path(files[-1]) as temporary:
                temporary.write_bytes(content)
    write_text(folder / PAGE, page)
    return Report(folder / PAGE, tuple(files))
