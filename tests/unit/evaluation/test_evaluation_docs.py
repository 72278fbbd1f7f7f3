"""The examples of docs/evaluation.md give the results shown there."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "evaluation.md"


def test_the_examples_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted > 4
    assert result.failed == 0
