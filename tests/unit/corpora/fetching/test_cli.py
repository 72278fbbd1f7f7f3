import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lacuna.cli import fetch as verb
from lacuna.cli.main import app
from lacuna.corpora.fetching import fetch_domain
from lacuna.errors import SettingError

from .conftest import Shelf

runner = CliRunner()


def test_without_a_name_the_domains_are_listed() -> None:
    assert "medical" in runner.invoke(app, ["fetch"]).stdout
    listed = json.loads(runner.invoke(app, ["fetch", "--list", "--json"]).stdout)["domains"]
    assert [domain["name"] for domain in listed] == ["it", "medical", "smart-home"]


def test_a_missing_option_is_named() -> None:
    result = runner.invoke(app, ["fetch", "it", "--languages", "de-en"])
    assert isinstance(result.exception, SettingError)
    assert "--into" in str(result.exception)


def test_the_verb_prints_a_table_or_json(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stubbed(*args: object, **settings: object) -> object:
        return fetch_domain(*args, **settings, download=shelf.download, registry=shelf.registry)  # type: ignore[arg-type]

    monkeypatch.setattr(verb, "fetch_domain", stubbed)
    words = ["fetch", "toy", "--languages", "de-en", "--into", str(tmp_path / "out"), "--cache", str(tmp_path / "c")]
    words += ["--dev", "5", "--test", "5", "--show", "2"]
    shown = runner.invoke(app, words)
    assert "pairs: 102 (train 92, dev 5, test 5)" in shown.stdout
    assert shown.stdout.count("    = ") == 2
    content = json.loads(runner.invoke(app, [*words, "--json"]).stdout)
    assert content["already_there"] is True
    assert content["total"] == 102
    assert len(content["show"]) == 2
    content = json.loads(runner.invoke(app, [*words, "--package", "app", "--json"]).stdout)
    assert [package["name"] for package in content["packages"]] == ["app"]
    assert content["total"] == 101
