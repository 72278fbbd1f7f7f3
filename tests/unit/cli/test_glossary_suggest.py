"""``lacuna glossary suggest``: output, file and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lacuna.glossaries.glossary_files import load_glossary
from made_up import NUMBERS, THINGS, make_pairs, write_pairs

Run = Callable[..., str]


@pytest.fixture
def memory(tmp_path: Path, model_folder: Path, run: Run) -> Path:
    """A memory of a model with random weights, which predicts next to nothing."""
    write_pairs(tmp_path / "corpus.tsv", make_pairs(80))
    run(f"build corpus.tsv --model {model_folder} --languages de-en --into store", tmp_path)
    return tmp_path


def test_table_file_and_json(memory: Path, model_folder: Path, run: Run) -> None:
    command = f"glossary suggest store --model {model_folder} --languages de-en"
    shown = run(command, memory)
    assert "sentence pairs" in shown
    content: dict[str, Any] = json.loads(run(f"{command} --into terms.tsv --most 4 --json", memory))
    assert (content["into"], len(content["proposals"])) == ("terms.tsv", 4)
    terms = load_glossary(memory / "terms.tsv")
    assert [term.source for term in terms] == [each["source"] for each in content["proposals"]]
    assert all(each["source"] in shown for each in content["proposals"])
    found = {each["source"]: each["target"] for each in content["proposals"]}
    words = NUMBERS | THINGS
    assert {source: " ".join(words[word] for word in source.split()) for source in found} == found
    assert "0 errors" in run("glossary check terms.tsv", memory)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--min-count 0", "--min-count: got 0; allowed is 1 or more"),
        ("--most 0", "--most: got 0; allowed is 1 or more"),
        ("--into terms.csv", "--into: got terms.csv; a glossary is written as .tsv: change the suffix"),
        ("--into old.tsv", "--into: old.tsv exists, and someone may have edited it; name a new file"),
    ],
)
def test_errors(memory: Path, model_folder: Path, refuse: Callable[..., Any], options: str, message: str) -> None:
    (memory / "old.tsv").write_text("Datei\tfile\n")
    refusal = refuse(f"glossary suggest store --model {model_folder} --languages de-en {options}", memory)
    assert refusal.line == f"lacuna: {message}"
