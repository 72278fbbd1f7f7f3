"""Tables with typed columns, checked on creation, and their files: CSV, JSON and LaTeX.

LaTeX is written with booktabs, and all text is escaped. Other scripts than Latin need XeLaTeX or LuaLaTeX.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lacuna.artifacts.files import write_json, write_text
from lacuna.errors import ReportError

Cell = str | int | float | None
Kind = Literal["text", "count", "share", "score", "number"]
# Text between these is underlined.
OPEN, CLOSE = "⟦", "⟧"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    :param kind: Type of its cells: ``text``; ``count`` (616,374); ``share``, a fraction shown in percent (22.8 %);
        ``score`` (22.53); or any other ``number``.
    :param digits: Digits after the decimal point; by default 1 for a share, 2 for a score, all for a number.
    :param help: Meaning of the column, in a sentence.
    """

    name: str
    kind: Kind = "text"
    digits: int | None = None
    help: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """The figure of a table.

    :param x: Column of the x axis.
    :param y: Columns with the values.
    :param group: Column whose values name the series.
    """

    kind: Literal["bars", "lines"]
    x: str
    y: tuple[str, ...]
    group: str | None = None
    x_label: str = ""
    y_label: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    :param name: Also the name of its files: lower-case letters, digits, ``-`` and ``_``.
    :param rows: One cell per column; ``None`` for no value. Text between ``⟦`` and ``⟧`` is underlined.
    :param note: Text below the table.
    :param marks: Marks by row and column; ``*`` is a significant decline.
    :param paper: The table or figure of the paper that this one corresponds to.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    plot: Plot | None = None
    paper: str = ""

    def __post_init__(self) -> None:
        _check(self)

    def as_json(self) -> dict[str, Any]:
        """Return the table as JSON, with marks as ``[row, column, mark]``."""
        marks = tuple((*cell, self.marks[cell]) for cell in sorted(self.marks))
        content = {each.name: getattr(self, each.name) for each in fields(self)} | {"marks": marks}
        return _TableFile(**content).model_dump(mode="json")

    @classmethod
    def from_json(cls, content: Any) -> Table:  # noqa: ANN401 - any JSON
        """Read the result of :meth:`as_json` strictly.

        :raises ReportError: The content is not a table.
        """
        try:
            record = _TableFile.model_validate_json(json.dumps(content))
        except ValidationError as error:
            first = error.errors()[0]
            path = ".".join(map(str, first["loc"])) or "content"
            raise ReportError(f"table: {path}: {first['msg']}; make it again") from error
        parts = {each.name: getattr(record, each.name) for each in fields(cls)}
        return cls(**parts | {"marks": {(row, column): mark for row, column, mark in record.marks}})

    def to_csv(self) -> str:
        """Return column names and raw values as CSV."""
        text = io.StringIO()
        writer = csv.writer(text)  # line ends of RFC 4180, so that a lone "\r" in a cell is quoted too
        writer.writerow([column.name for column in self.columns])
        writer.writerows(self.rows)
        return text.getvalue()

    def to_latex(self) -> str:
        """Return the formatted table as LaTeX with booktabs; marks are superscripts."""
        return _latex_table(
            caption=latex_escape(self.title),
            label=f"tab:{self.name.replace('_', '-')}",
            columns=_alignment(self),
            header=[latex_escape(column.name) for column in self.columns],
            rows=[self._latex_row(number) for number in range(len(self.rows))],
            note=latex_escape(self.note),
        )

    def _latex_row(self, number: int) -> list[str]:
        return [
            _latex_cell(cell, column, self.marks.get((number, index)))
            for index, (cell, column) in enumerate(zip(self.rows[number], self.columns, strict=True))
        ]


class _TableFile(BaseModel):
    """The JSON file of a table."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str
    marks: tuple[tuple[int, int, str], ...]
    plot: Plot | None
    paper: str


def write_table(table: Table, folder: Path) -> None:
    """Write ``NAME.csv``, ``NAME.tex`` and ``NAME.json`` into a folder, each atomically."""
    write_text(folder / f"{table.name}.csv", table.to_csv())
    write_text(folder / f"{table.name}.tex", table.to_latex())
    write_json(folder / f"{table.name}.json", table.as_json())


def read_table(path: Path) -> Table:
    """Read a table from its JSON file.

    :raises ReportError: The file is missing or is not a table.
    """
    try:
        return Table.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ReportError(f"{path}: cannot be read ({error.strerror}); make the table again") from error
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from error
    except ValueError as error:
        raise ReportError(f"{path}: not JSON in UTF-8 ({error}); make the table again") from error


def format_cell(cell: Cell, column: Column) -> str:
    """Format a cell for display."""
    if cell is None:
        return "" if column.kind == "text" else _NOTHING
    if isinstance(cell, str):
        return cell
    return _SHOW[column.kind](cell, column.digits)


_SHOW: dict[Kind, Callable[[float, int | None], str]] = {
    "text": lambda value, digits: str(value),
    "count": lambda value, digits: f"{value:,}",
    "share": lambda value, digits: f"{100 * value:.{1 if digits is None else digits}f} %",
    "score": lambda value, digits: f"{value:.{2 if digits is None else digits}f}",
    "number": lambda value, digits: str(value) if digits is None else f"{value:,.{digits}f}",
}


def _check(table: Table) -> None:
    """Refuse a table that could not be written and read back."""
    if not _NAME.fullmatch(table.name):
        raise ReportError(f"table: name: got {table.name!r}; allowed are a to z, digits, - and _, as in main")
    names = [column.name for column in table.columns]
    if len(set(names)) < len(names):
        raise ReportError(f"table {table.name}: columns: two have the same name in {names}; give them different names")
    for number, row in enumerate(table.rows):
        _check_row(table, number, row)
    for number, column in table.marks:
        if not (0 <= number < len(table.rows) and 0 <= column < len(names)):
            raise ReportError(f"table {table.name}: marks: there is no row {number} with a column {column}")
    drawn = {table.plot.x, *table.plot.y, table.plot.group or table.plot.x} if table.plot else set()
    if missing := sorted(drawn - set(names)):
        raise ReportError(f"table {table.name}: plot: there is no column {missing[0]!r}; allowed: {', '.join(names)}")


def _check_row(table: Table, number: int, row: tuple[Cell, ...]) -> None:
    if len(row) != len(table.columns):
        raise ReportError(f"table {table.name}: row {number} has {len(row)} cells; it needs {len(table.columns)}")
    for cell, column in zip(row, table.columns, strict=True):
        if not _fits(cell, column.kind):
            got = f"row {number}, {column.name}: got {cell!r}"
            raise ReportError(f"table {table.name}: {got}; allowed is {_ALLOWED[column.kind]} or None")


_ALLOWED: dict[Kind, str] = {
    "text": "text, a finite number",
    "count": "a whole number",
    "share": "a finite number",
    "score": "a finite number",
    "number": "a finite number",
}


def _fits(cell: Cell, kind: Kind) -> bool:
    if cell is None or isinstance(cell, bool):
        return cell is None
    if isinstance(cell, str):
        return kind == "text"
    return isinstance(cell, int) or (isinstance(cell, float) and kind != "count" and math.isfinite(cell))


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # By number, because babel may redefine the characters themselves.
    '"': r"{\char34}",
    "`": r"{\char96}",
    # In braces, because LaTeX reads them as options of the line break before them.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
} | {character: f"\\{character}" for character in "%_&#${}"}
_ESCAPES = str.maketrans(_SPECIAL)
_UNDERLINED = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
# TeX joins two of these into a dash or a quotation mark.
_JOINED = re.compile(r"([-',])(?=\1)")
# Text columns with a longer cell become paragraphs, which share this part of the line width.
_LONG, _PARAGRAPHS = 30, 0.8


def latex_escape(text: str) -> str:
    """Escape text for LaTeX, on one line; text between ``⟦`` and ``⟧`` is underlined."""
    parts = _UNDERLINED.split(_one_line(text))
    return "".join(
        rf"\underline{{{_plain(part)}}}" if number % 2 else _plain(part) for number, part in enumerate(parts)
    )


def _latex_table(
    caption: str, label: str, columns: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str
) -> str:
    """Assemble a table from parts that are LaTeX.

    :param columns: Column specification of ``tabular``, such as ``lrr``.
    """
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{{label}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _row(header),
        r"\midrule",
        *map(_row, rows),
        r"\bottomrule",
        r"\end{tabular}",
        *([rf"\par\smallskip{{\footnotesize {note}\par}}"] if note else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(cell: Cell, column: Column, mark: str | None) -> str:
    shown = latex_escape(format_cell(cell, column))
    if column.kind != "text":
        shown = re.sub(r"^-", "$-$", shown.replace(r" \%", r"\,\%"))
    if mark is None:
        return shown
    return shown + ("$^*$" if mark == "*" else rf"\textsuperscript{{{latex_escape(mark)}}}")


def _alignment(table: Table) -> str:
    long = [
        column.kind == "text" and any(len(str(row[index])) > _LONG for row in table.rows)
        for index, column in enumerate(table.columns)
    ]
    width = f"p{{{_PARAGRAPHS / max(1, sum(long)):.2f}\\linewidth}}"
    short = ["l" if column.kind == "text" else "r" for column in table.columns]
    return "".join(width if is_long else letter for is_long, letter in zip(long, short, strict=True))


def _one_line(text: str) -> str:
    """Replace line breaks and control characters, which TeX rejects, by single spaces."""
    return " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in text).split())


def _plain(text: str) -> str:
    unpaired = text.replace(OPEN, "[[").replace(CLOSE, "]]")
    return _JOINED.sub(r"\1{}", unpaired.translate(_ESCAPES))
