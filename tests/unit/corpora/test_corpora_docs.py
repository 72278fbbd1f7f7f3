"""The examples of docs/corpora.md run and give what they show."""

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "corpora.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted > 15
    assert result.failed == 0
