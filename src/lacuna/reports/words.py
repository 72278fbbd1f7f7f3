"""Turning what is in the files into words for the page: cells, settings, times. Knows no HTML but ``<u>``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from lacuna.analysis.latex import CLOSE, OPEN
from lacuna.analysis.tables import Table, format_cell

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
