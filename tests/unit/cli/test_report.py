"""``lacuna report``: the files it writes, and its errors."""

from __future__ import annotations

import doctest
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from commands import Refuse, Run, snapshot
from unit.reports.experiments import ACCURACY, STATISTICS, record, write_experiment


def test_files(tmp_path: Path, run: Run) -> None:
    folder = write_experiment(tmp_path / "koran", STATISTICS, ACCURACY)
    assert run(["report", str(folder)]) == f"{folder}/report.html: written, with 2 files of figures\n"
    new = {str(path.relative_to(folder)) for path in folder.rglob("*") if "tables" not in path.parts}
    assert new == {"experiment.json", "report.html", "figures", "figures/accuracy.svg", "figures/accuracy.png"}


def test_json_and_same_bytes_again(tmp_path: Path, run: Run) -> None:
    folders = [write_experiment(tmp_path / name, STATISTICS, ACCURACY) for name in ("one", "other")]
    written = []
    for folder in folders:
        shown = json.loads(run(["report", str(folder), "--json"]))
        assert shown["report"] == str(folder / "report.html")
        assert shown["figures"] == [str(folder / "figures" / f"accuracy.{suffix}") for suffix in ("svg", "png")]
        written.append({path.relative_to(folder): state[2] for path, state in snapshot(folder).items()})
    assert written[0] == written[1]


def broken(**changes: Any) -> dict[str, Any]:
    return record("accuracy") | changes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "experiment.json: not JSON"),
        ("[]", "experiment.json: content: got list"),
        (broken(format=2, new="field"), "has format 2, this version of Lacuna knows format 1"),
        (broken(kind="store"), "experiment.json: of kind 'store', not 'experiment'"),
        (broken(surprise=1), "experiment.json: surprise: Extra inputs are not permitted"),
        (broken(seconds=-1), "experiment.json: seconds: Input should be greater than or equal to 0"),
        (broken(tables=["accuracy", "main"]), "main.json: missing, although experiment.json lists this table"),
        (broken(tables=["../accuracy"]), "tables.0: String should match pattern"),
        (broken(tables=["accuracy", "accuracy"]), "tables: a name occurs twice"),
        (broken(tables=["alias"]), "alias.json: contains a table named 'accuracy'"),
    ],
)
def test_bad_experiments(content: str | dict[str, Any], message: str, tmp_path: Path, refuse: Refuse) -> None:
    write_experiment(tmp_path, ACCURACY)
    (tmp_path / "tables" / "alias.json").write_bytes((tmp_path / "tables" / "accuracy.json").read_bytes())
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / "experiment.json").write_text(text, encoding="utf-8")
    assert message in refuse(["report", str(tmp_path)], tmp_path).line


def test_other_bad_input(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for name in ("nowhere", "file", "."):
        line = refuse(["report", name], tmp_path).line
        assert "no experiment, experiment.json is missing; name a folder written by lacuna reproduce" in line


def test_a_plot_that_does_not_fit(tmp_path: Path, refuse: Refuse) -> None:
    path = write_experiment(tmp_path, STATISTICS, ACCURACY) / "tables" / "accuracy.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    assert table["plot"]["y"] == ["Accuracy"]
    table["plot"]["y"] = ["Margin"]
    path.write_text(json.dumps(table), encoding="utf-8")
    line = refuse(["report", str(tmp_path)], tmp_path).line
    assert "table accuracy: its plot has the value '0: 0'; allowed are numbers" in line


def test_without_matplotlib_the_error_names_the_extra_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuse: Refuse
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "lacuna.reports.figures", raising=False)
    folder = write_experiment(tmp_path / "koran", STATISTICS, ACCURACY)
    before = snapshot(folder)
    line = refuse(["report", str(folder)], tmp_path).line
    assert line.endswith('drawing figures needs the package matplotlib; pip install "lacuna-mt[reports]"')
    assert snapshot(folder) == before


def test_a_report_without_figures_needs_no_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "lacuna.reports.figures", raising=False)
    folder = write_experiment(tmp_path / "koran", STATISTICS)
    run(["report", str(folder)])
    assert STATISTICS.title in (folder / "report.html").read_text(encoding="utf-8")


def test_examples_of_the_docs_run() -> None:
    page = Path(__file__).parents[3] / "docs" / "report.md"
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert (result.attempted, result.failed) == (2, 0)
