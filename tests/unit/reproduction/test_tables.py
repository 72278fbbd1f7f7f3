"""Tables: files can be read back, and no text breaks LaTeX."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.errors import ReportError
from lacuna.reproduction.tables import (
    Cell,
    Column,
    Kind,
    Plot,
    Table,
    format_cell,
    latex_escape,
    read_table,
    write_table,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(2**53), 2**53)
HOSTILE = st.text(alphabet="⟦⟧%_&#${}~^\\\"'`<>|[]*-,?! \n\tabé中文0", max_size=30)
CELLS: dict[Kind, st.SearchStrategy[Cell]] = {
    "text": st.none() | st.text(max_size=10) | HOSTILE,
    "count": st.none() | WHOLE,
    "share": st.none() | WHOLE | FINITE,
    "score": st.none() | WHOLE | FINITE,
    "number": st.none() | WHOLE | FINITE,
}

EXAMPLE = Table(
    name="main",
    title="Cost of 45 % & more",
    columns=(
        Column("system"),
        Column("entries", "count"),
        Column("ratio", "share", 0, help="Dropped."),
        Column("BLEU", "score"),
        Column("COMET", "number", 4),
    ),
    rows=(("whole_memory", 616_374, 0.0, 22.534, -0.0097), ("⟦all known⟧", None, 0.2278, 4.0, None)),
    note="*: significant",
    marks={(1, 3): "*"},
    plot=Plot("bars", "system", ("BLEU",), y_label="BLEU"),
    paper="Table 5",
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    names = draw(st.lists(st.text(max_size=8), min_size=1, max_size=4, unique=True))
    kinds = [draw(st.sampled_from(list(CELLS))) for _ in names]
    columns = [
        Column(name, kind, draw(st.none() | st.integers(0, 5)), draw(st.text(max_size=5)))
        for name, kind in zip(names, kinds, strict=True)
    ]
    rows = draw(st.lists(st.tuples(*(CELLS[kind] for kind in kinds)), max_size=4))
    places = st.tuples(st.integers(0, len(rows) - 1), st.integers(0, len(names) - 1))
    marks = draw(st.dictionaries(places, st.just("*"))) if rows else {}
    column = st.sampled_from(names)
    plots = st.builds(Plot, st.sampled_from(["bars", "lines"]), column, st.tuples(column), st.none() | column)
    plot = draw(st.none() | plots)
    return Table("t", draw(HOSTILE), tuple(columns), tuple(rows), draw(HOSTILE), marks, plot)


@settings(max_examples=40)
@given(tables())
def test_json_round_trip(table: Table) -> None:
    again = Table.from_json(json.loads(json.dumps(table.as_json())))
    assert again == table
    # 1 and 1.0 are equal, but not the same.
    assert [[type(cell) for cell in row] for row in again.rows] == [[type(cell) for cell in row] for row in table.rows]


@settings(max_examples=40)
@given(tables())
def test_csv_has_the_raw_values(table: Table) -> None:
    names, *rows = csv.reader(io.StringIO(table.to_csv(), newline=""))
    assert names == [column.name for column in table.columns]
    for written, row in zip([row or [""] for row in rows], table.rows, strict=True):
        for text, cell in zip(written, row, strict=True):
            assert (float(text) == cell) if isinstance(cell, int | float) else (text == (cell or ""))


# Every way to write what is not itself, by what it stands for; all else must be harmless.
WRITTEN = {
    r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", r"\textless{}": "<",
    r"\textgreater{}": ">", r"\textbar{}": "|", r"{\char34}": '"', r"{\char96}": "`", "{[}": "[", "{]}": "]",
    "{*}": "*", r"\%": "%", r"\_": "_", r"\&": "&", r"\#": "#", r"\$": "$", r"\{": "{", r"\}": "}", "{}": "",
    r"\underline{": "⟦", "}": "⟧",
}  # fmt: skip
TOKEN = re.compile("|".join(map(re.escape, WRITTEN)) + r"|[^\\{}$&#^_%~\"`<>|\[\]*⟦⟧\n\t]")


def typeset(text: str) -> str:
    """Set escaped text as TeX would, and fail where it is anything but text."""
    shown, place = "", 0
    while place < len(text):
        token = TOKEN.match(text, place)
        assert token, f"{text[place : place + 12]!r} in {text!r} is not plain"
        shown += WRITTEN.get(token[0], token[0])
        place = token.end()
    return shown


@given(HOSTILE)
def test_latex_shows_the_text_and_nothing_else(text: str) -> None:
    written = latex_escape(text)
    assert not re.search("--|''|,,", written)  # these would become one character
    parts = re.split("(⟦[^⟦⟧]*⟧)", " ".join(text.split()))
    unpaired = [part if part[:1] + part[-1:] == "⟦⟧" else re.sub("⟧", "]]", re.sub("⟦", "[[", part)) for part in parts]
    assert typeset(written) == "".join(unpaired)


@settings(max_examples=40)
@given(tables())
def test_latex_has_a_line_for_each_row(table: Table) -> None:
    written = table.to_latex()
    lines = written.splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert len(body) == len(table.rows)
    for line in [*body, lines[lines.index(r"\toprule") + 1]]:
        assert line.endswith(r" \\")
        assert len(re.findall(r"(?<!\\)&", line)) == len(table.columns) - 1
    bare = re.sub(r"\\[\\{}]", "", written)
    assert bare.count("{") == bare.count("}")


def test_latex_of_an_example() -> None:
    lines = EXAMPLE.to_latex().splitlines()
    assert r"\caption{Cost of 45 \% \& more}" in lines
    assert r"\begin{tabular}{lrrrr}" in lines
    assert r"whole\_memory & 616,374 & 0\,\% & 22.53 & $-$0.0097 \\" in lines
    assert r"\underline{all known} & – & 23\,\% & 4.00$^*$ & – \\" in lines
    assert any("{*}: significant" in line for line in lines)


def test_long_text_is_set_in_lines() -> None:
    table = Table("cases", "", (Column("a"), Column("b"), Column("c", "count")), (("x" * 40, "short", 1),))
    assert r"\begin{tabular}{p{0.80\linewidth}lr}" in table.to_latex()


@pytest.mark.parametrize(
    ("cell", "column", "shown"),
    [
        (616_374, Column("n", "count"), "616,374"),
        (0.228, Column("n", "share"), "22.8 %"),
        (0.22786, Column("n", "share", 2), "22.79 %"),
        (22.534, Column("n", "score"), "22.53"),
        (22.534, Column("n", "score", 1), "22.5"),
        (0.125, Column("n", "number"), "0.125"),
        (1327.88, Column("n", "number", 1), "1,327.9"),
        (8, Column("n"), "8"),
        ("%", Column("n"), "%"),
        (None, Column("n"), ""),
        (None, Column("n", "score"), "–"),
    ],
)
def test_cells_for_people(cell: Cell, column: Column, shown: str) -> None:
    assert format_cell(cell, column) == shown


def test_files(tmp_path: Path) -> None:
    write_table(EXAMPLE, tmp_path / "tables")
    folder = tmp_path / "tables"
    assert sorted(path.name for path in folder.iterdir()) == ["main.csv", "main.json", "main.tex"]
    assert read_table(folder / "main.json") == EXAMPLE
    assert (folder / "main.csv").read_text(encoding="utf-8").splitlines()[2] == "⟦all known⟧,,0.2278,4.0,"
    assert (folder / "main.tex").read_text(encoding="utf-8") == EXAMPLE.to_latex()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"more": 1}, "more"),
        ({"title": None}, "title"),
        ({"rows": [["a", 1, 0.5, "high", None]]}, "row 0, BLEU: got 'high'"),
        ({"rows": [["a", 1, 0.5, True, None]]}, "rows.0.3"),
        ({"rows": [["a", 1.5, 0.5, 1, None]]}, "row 0, entries: got 1.5"),
        ({"rows": [["a", 1, 0.5]]}, "row 0 has 3 cells; it needs 5"),
        ({"rows": [["a", 1, float("nan"), 1, 1]]}, "rows.0.2"),
        ({"columns": [{"name": "a", "kind": "money"}], "rows": []}, "columns.0.kind"),
        ({"columns": [{"name": "a", "width": 3}], "rows": []}, "columns.0.width"),
        ({"marks": [[2, 0, "*"]]}, "no row 2"),
        ({"plot": {"kind": "bars", "x": "system", "y": ["TER"]}}, "no column 'TER'"),
        ({"plot": {"kind": "pie", "x": "system", "y": ["BLEU"]}}, "plot.kind"),
        ({"name": "../main"}, "'../main'"),
    ],
)
def test_what_is_not_a_table_is_refused_in_one_line(change: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "main.json"
    path.write_text(json.dumps(EXAMPLE.as_json() | change), encoding="utf-8")
    with pytest.raises(ReportError) as caught:
        read_table(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert complaint in message
    assert "\n" not in message


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff{}", b"null"])
def test_files_that_hold_something_else(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "main.json"
    path.write_bytes(content)
    with pytest.raises(ReportError, match=r"main\.json: .*again$"):
        read_table(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"none\.json: cannot be read \(No such file"):
        read_table(tmp_path / "none.json")


def test_two_columns_of_one_name() -> None:
    with pytest.raises(ReportError, match="two have the same name"):
        Table("t", "", (Column("a"), Column("a")), ())
