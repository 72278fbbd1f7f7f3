"""The examples of docs/explain.md, run with the bundled model: the docs show what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from commands import Run

DOCS = Path(__file__).parents[2] / "docs" / "explain.md"
BLOCKS = re.findall(r"^```\w*\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
NEW_TEXT = "Die Glasur ist noch nass.\nDer Gärtner gießt die Rosen.\nDie Glasur ist trocken.\n"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def block_with(start: str) -> str:
    """Return the only block of the page that starts like this."""
    [block] = [block for block in BLOCKS if block.startswith(start)]
    return block


def assert_begins_with(printed: str, documented: str) -> None:
    """Compare line by line; numbers may differ by rounding, which depends on the processor."""
    lines = documented.rstrip("\n").splitlines()
    for ours, theirs in zip(printed.splitlines()[: len(lines)], lines, strict=True):
        assert NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
        numbers = [[float(number) for number in NUMBER.findall(line)] for line in (ours, theirs)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.02, abs=0.011), theirs


def test_the_examples_print_what_the_docs_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("pottery.tsv").write_text(block_with("Der Ofen ist heiß."), encoding="utf-8")
    Path("new.de").write_text(NEW_TEXT, encoding="utf-8")
    Path("terms.tsv").write_text(block_with("source\ttarget"), encoding="utf-8")
    *preparations, explain = block_with("lacuna build").splitlines()
    for command in preparations:
        run(command.removeprefix("lacuna"))
    full, without, with_terms = (block for block in BLOCKS if block.startswith("Explanation"))
    assert_begins_with(run(explain.removeprefix("lacuna")), full)
    assert_begins_with(run(block_with('lacuna explain "Der Ofen').removeprefix("lacuna")), without)
    assert_begins_with(run(block_with('lacuna explain "Der Krug').removeprefix("lacuna")), with_terms)
    gaps = block_with("lacuna gaps new.de --memory pottery")
    assert_begins_with(run(gaps.removeprefix("lacuna")), block_with("The 3 least known"))
