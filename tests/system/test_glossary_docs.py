"""The examples of docs/glossaries.md, run with the bundled model, and its table of stems."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from commands import Run
from lacuna.glossaries.stemming import Stemmer

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, start: str) -> str:
    """Return the only block of a page that starts like this."""
    [block] = [block for block in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")) if block.startswith(start)]
    return block


def test_the_example_prints_what_the_docs_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("pottery.tsv").write_text(blocks("explain.md", "Der Ofen ist heiß."), encoding="utf-8")
    build, suggest = blocks("glossaries.md", "lacuna build").splitlines()
    run(build.removeprefix("lacuna"))
    printed = [line.rstrip() for line in run(suggest.removeprefix("lacuna")).splitlines()]
    assert printed == blocks("glossaries.md", "pottery\n").splitlines()


def test_translations_are_those_that_the_docs_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pottery.tsv").write_text(blocks("explain.md", "Der Ofen ist heiß."), encoding="utf-8")
    Path("terms.tsv").write_text(blocks("glossaries.md", "source\ttarget"), encoding="utf-8")
    made, *commands = blocks("glossaries.md", "printf").splitlines()
    Path("new.txt").write_text(made.split("'")[1].replace("\\n", "\n"), encoding="utf-8")
    build = blocks("glossaries.md", "lacuna build").splitlines()[0]
    run(build.removeprefix("lacuna"))
    run("index pottery")
    printed = [run(command.removeprefix("lacuna")) for command in commands]
    assert printed == [blocks("glossaries.md", "The rudes"), blocks("glossaries.md", "The pitchers")]


@pytest.mark.parametrize(("row", "code"), [("German", "de"), ("English", "en")])
def test_the_table_of_stems(row: str, code: str) -> None:
    page = (DOCS / "glossaries.md").read_text(encoding="utf-8")
    [line] = [line for line in page.splitlines() if line.startswith(f"| {row} ")]
    same, different, mistaken = (re.findall(r"`(\w+)` and `(\w+)`", cell) for cell in line.split("|")[2:5])
    stem = Stemmer(code).stem
    assert same
    assert [stem(one) == stem(other) for one, other in same + mistaken] == [True] * (len(same) + len(mistaken))
    assert [stem(one) == stem(other) for one, other in different] == [False]
