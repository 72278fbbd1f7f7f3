"""One page of HTML that needs nothing else: no file, no network, no JavaScript (a little makes hovering nicer).

Every word from files is escaped by the template engine. Knows nothing of drawing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from lacuna.analysis.tables import Column, Table
from lacuna.pages import fit_for_html, own_file, page_environment
from lacuna.reports.experiment import Experiment
from lacuna.reports.words import MARKS, ShownCell, duration, flat, shown_rows

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
