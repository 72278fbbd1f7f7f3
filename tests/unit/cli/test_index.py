import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import lacuna.datastore
from commands import path_of
from lacuna.cli.commands import add_verb
from lacuna.cli.index import index
from lacuna.errors import LacunaError
from unit.index.fakes import FakeStore, clustered

runner = CliRunner()
app = typer.Typer()
add_verb(app, path_of(index))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    made = FakeStore(tmp_path / "store", clustered(1500, 16)[0])
    monkeypatch.setattr(lacuna.datastore, "open_store", lambda path: made, raising=False)
    return made


def test_a_table_for_people(store: FakeStore) -> None:
    words = [str(store.path), "--kind", "IVF100,Flat", "--probes", "20", "--recall", "--k", "4", "--k", "16"]
    shown = runner.invoke(app, words)
    assert shown.exit_code == 0, shown.output
    for part in ("IVF100,Flat", "1,500", "probes", "Recall", "queries per second", "note: 1,500 training keys"):
        assert part in shown.stdout


def test_json(store: FakeStore) -> None:
    content = json.loads(runner.invoke(app, [str(store.path), "--json", "--recall", "--threads", "1"]).stdout)
    assert (content["asked"], content["kind"], content["rows"]) == ("auto", "exact", 1500)
    assert content["recall"]["results"][0]["recall"] == 1.0
    assert json.loads(runner.invoke(app, [str(store.path), "--json"]).stdout)["recall"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kind", "nonsense"], "allowed: auto, exact"),
        (["--recall", "--k", "1500"], "k must be 1 to 1,499"),
        (["--threads", "0"], "threads: got 0"),
    ],
)
def test_errors_are_ours(store: FakeStore, words: list[str], message: str) -> None:
    result = runner.invoke(app, [str(store.path), *words])
    assert isinstance(result.exception, LacunaError)
    assert message in str(result.exception)


def test_help_has_an_example() -> None:
    assert "lacuna index it/store" in runner.invoke(app, ["--help"]).stdout
