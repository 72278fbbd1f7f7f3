"""The demo with a tiny model and made-up sentences: what it shows, and that a second run uses what is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lacuna import demo
from lacuna.cli.main import app
from lacuna.datastore import inspect_store, open_store
from lacuna.datastore.log import read_log
from lacuna.demo import DemoReport, DemoSettings, run_demo
from lacuna.errors import DomainError
from lacuna.margin import read_margins
from made_up import make_pairs, write_pairs

SMALL = DemoSettings(train=40, dev=12, test=6)


def fetch(domain: str, languages: object, into: Path, **rest: Any) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for seed, part in enumerate(("train", "dev", "test")):
        write_pairs(into / f"{part}.tsv", make_pairs(60, seed=seed))


@pytest.fixture(autouse=True)
def corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "fetch_domain", fetch)


@pytest.fixture(scope="module")
def report(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> DemoReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "fetch_domain", fetch)
        return run_demo(model_folder, tmp_path_factory.mktemp("demo") / "demo", SMALL)


def test_what_it_shows(report: DemoReport) -> None:
    assert [score.name for score in report.scores] == ["model alone", "domain"]
    assert len(report.example.steps) == report.example.tokens
    correction = report.correction
    assert correction.before != correction.pair.target
    [tokens] = report.domain.model.encode_targets([correction.pair.target])
    assert correction.after == report.domain.model.decode(tokens)  # the tiny vocabulary lacks some letters
    assert correction.forgotten == correction.before
    content = json.loads((report.domain.path.parent / "report.json").read_text())
    assert content["correction"]["after"] == correction.after
    assert 30 < content["domain"]["pairs"]["train"] <= 40  # without duplicates and sources of dev and test


def test_nothing_of_the_correction_stays(report: DemoReport) -> None:
    store = open_store(report.domain.memory)
    assert report.correction.pair.source not in [pair.source for pair in store.sentences]
    assert [entry.action for entry in read_log(report.domain.memory)] == ["add", "forget"]


def test_the_domain_stays_measured(report: DemoReport) -> None:
    store = open_store(report.domain.memory)
    assert read_margins(store).manifest.entries == store.entries
    assert inspect_store(store.path).unmeasured == 0


def test_a_second_run_uses_the_domain(report: DemoReport, model_folder: Path) -> None:
    manifest = report.domain.path / "domain.json"
    before = manifest.stat().st_mtime_ns
    again = run_demo(model_folder, report.domain.path.parent, SMALL)
    assert manifest.stat().st_mtime_ns == before
    assert [score.as_json() for score in again.scores] == [score.as_json() for score in report.scores]
    assert again.correction == report.correction


def test_other_settings_need_another_folder(report: DemoReport, model_folder: Path) -> None:
    with pytest.raises(DomainError, match="name a new folder, or remove this one"):
        run_demo(model_folder, report.domain.path.parent, DemoSettings(train=30, dev=12, test=6))


def test_the_verb(report: DemoReport, model_folder: Path) -> None:
    words = ["demo", "--into", str(report.domain.path.parent), "--model", str(model_folder)]
    words += ["--train", "40", "--dev", "12", "--test", "6"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    for text in ("A correction", "after forgetting it", "Token by token", "lacuna translate --domain"):
        assert text in shown.stdout
