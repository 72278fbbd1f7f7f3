"""One page of HTML that needs nothing else: no file, no network, no JavaScript (a little makes hovering nicer).

Every word from files is escaped by the template engine. Knows nothing of drawing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from lacuna.analysis.tables import Column, Table
from lacuna.reports.experiment import Experiment
from lacuna.reports.words import MARKS, ShownCell, duration, flat, shown_rows

_LARGE = 12  # rows; a larger table beside its figure can be folded
_SIGNS = {"holds": "✓", "does not hold": "✗", "within noise": "≈", "not measured": "–"}
# What HTML cannot hold: control characters, and halves of surrogate pairs, which UTF-8 cannot hold either.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


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
    environment = Environment(
        loader=PackageLoader("lacuna.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["duration"] = duration
    script = _source(environment, "page.js")
    record = experiment.record
    page = environment.get_template("page.html").render(
        record=record,
        sections=_sections(experiment, figures),
        signs=_SIGNS,
        settings=list(flat(record.settings)) if record.settings else [],
        style=Markup(_source(environment, "style.css")),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return _UNFIT.sub("\ufffd", page)


def _source(environment: Environment, name: str) -> str:
    loader: Any = environment.loader
    source: str = loader.get_source(environment, name)[0]
    return source


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
