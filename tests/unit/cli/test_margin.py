"""``lacuna margin``: output and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from commands import path_of
from lacuna.cli.commands import add_verb
from lacuna.cli.margin import margin
from lacuna.datastore import Store
from lacuna.errors import SettingError, StoreError
from lacuna.margin.reference import reference_margins
from unit.margin.stores import clustered, make_store

KEYS, KNOWN = clustered(300, 8, 0.8)
app = typer.Typer(pretty_exceptions_enable=False)
add_verb(app, path_of(margin))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path / "store", KEYS, KNOWN)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_table(store: Store) -> None:
    shown = run(store.path, "--threads", 1)
    assert "known entries" in shown
    assert "1024 to 2047" in shown
    assert "written in" in shown
    assert "nothing to do" in run(store.path)


def test_json(store: Store) -> None:
    content = json.loads(run(store.path, "--max-margin", 5, "--json"))
    assert (content["method"], content["max_margin"], content["measured"]) == ("exact", 5, True)
    fives = sum(content["margin_histogram"]["4"].values())
    assert fives == sum(margin >= 4 for margin in reference_margins(KEYS, KNOWN, 5).tolist())
    assert json.loads(run(store.path, "--max-margin", 5, "--json"))["measured"] is False


def test_approximate(store: Store) -> None:
    assert "have the exact margin" in run(store.path, "--approximate", "--probes", 1)
    content = json.loads(run(store.path, "--approximate", "--json"))
    assert content["approximate"]["probes"] == 32
    assert 0.8 < content["agreement"]["equal"] < 1  # all lists are searched, but codes are rounded


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["--probes", 3], SettingError, "without --approximate"),
        (["--approximate", "--probes", 0], SettingError, "nprobe: got 0; allowed: 1 or more"),
        (["--max-margin", 0], SettingError, "max_margin: got 0"),
        (["--threads", 0], SettingError, "threads"),
    ],
)
def test_refusals(store: Store, words: list[object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(store.path, *words)
    assert not (store.path / "margin").exists()


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such store"):
        run(tmp_path / "nowhere")


def test_help_has_an_example() -> None:
    assert "lacuna margin it/store" in run("--help")
