"""Names, defaults and words agree between code and documentation, and the checks notice when they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import consistency


@pytest.mark.parametrize("check", consistency.CHECKS, ids=lambda check: check.__name__)
def test_nothing_is_found(check: Callable[[], Iterator[str]]) -> None:
    assert list(check()) == []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project of two modules and two pages, with one mistake of each kind."""
    for name, path in {"ROOT": "", "SOURCE": "src", "DOCS": "docs", "GLOSSARY": "docs/glossary.md"}.items():
        monkeypatch.setattr(consistency, name, tmp_path / path)
    for package in ("one", "two"):
        (tmp_path / "src" / package).mkdir(parents=True)
        (tmp_path / "src" / package / "thing.py").write_text(
            "class Twice:\n    pass\n\n# a phrase of so\n# many words\n"
        )
    (tmp_path / "docs").mkdir()
    rows = "\n## Words we do not use\n\n| not | but |\n|---|---|\n| so many, anew | again |\n"
    (tmp_path / "docs" / "glossary.md").write_text(rows)
    (tmp_path / "README.md").write_text("renewed\n")
    (tmp_path / "docs" / "page.md").write_text(
        "Built anew.\n\n<!-- defaults: lacuna.combiners.Vanilla -->\n| setting | default | meaning |\n|---|---|---|\n"
        "| `k` | 12,345 | neighbors |\n| `knn_weight` | 0.5 | share |\n| `width` | 1 | none such |\n"
    )
    return tmp_path


@pytest.mark.usefixtures("project")
def test_a_class_defined_twice_is_found() -> None:
    assert list(consistency.double_classes()) == [
        "class Twice is defined 2 times: src/one/thing.py:1, src/two/thing.py:1"
    ]


@pytest.mark.usefixtures("project")
def test_two_modules_of_one_name_are_found() -> None:
    assert list(consistency.double_modules()) == ["module thing is defined 2 times: src/one/thing.py, src/two/thing.py"]


@pytest.mark.usefixtures("project")
def test_a_wrong_default_and_an_unknown_setting_are_found() -> None:
    wrong, unknown = consistency.wrong_defaults()
    assert wrong.startswith("docs/page.md, lacuna.combiners.Vanilla: k is ")
    assert wrong.endswith("'12,345' on the page")
    assert unknown.startswith("docs/page.md, lacuna.combiners.Vanilla: width is not a field")


@pytest.mark.usefixtures("project")
def test_forbidden_words_are_found_across_lines_and_only_as_whole_words() -> None:
    assert [finding.rsplit(" is ", 1)[0] for finding in consistency.forbidden_words()] == [
        "docs/page.md:1: 'anew'",
        "src/one/thing.py:4: 'so many'",
        "src/two/thing.py:4: 'so many'",
    ]
