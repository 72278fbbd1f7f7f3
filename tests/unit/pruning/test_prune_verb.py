"""``lacuna prune``: output and errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from commands import path_of
from lacuna.cli.commands import add_verb
from lacuna.cli.prune import prune
from lacuna.datastore import Store, inspect_store, open_store
from lacuna.errors import LacunaError, SettingError
from lacuna.pruning import PRUNERS, Plac, make_pruner

app = typer.Typer(pretty_exceptions_enable=False)
add_verb(app, path_of(prune))


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_json(store: Store, tmp_path: Path) -> None:
    content = json.loads(
        run(store.path, "--method", "plac", "--min-margin", 8, "--ratio", 0.2, "--seed", 1,
            "--into", tmp_path / "small", "--json")
    )  # fmt: skip
    pruned, dropped = open_store(tmp_path / "small"), round(0.2 * store.entries)
    assert (content["entries"], content["kept"], content["dropped"]) == (store.entries, pruned.entries, dropped)
    assert content["ratio"] == dropped / store.entries
    assert (content["method"], content["seed"], content["into"]) == ("plac", 1, str(tmp_path / "small"))
    candidates = int(np.count_nonzero(store.known & (np.arange(store.entries) % 40 >= 8)))
    assert content["groups"]["known, margin 8 or more"] == {"kept": candidates - dropped, "dropped": dropped}
    assert content["groups"]["unknown"]["dropped"] == 0
    assert inspect_store(pruned.path).as_json()["index"] == {"kind": content["index"], "current": True}


def test_a_table_for_people(store: Store, tmp_path: Path) -> None:
    words = run(store.path, "--method", "all_known", "--into", tmp_path / "small", "--kind", "none")
    known = int(np.count_nonzero(store.known))
    for part in ("unknown", "dropped", f"{known:,}", f"{known / store.entries:.2%}", "no index"):
        assert part in words


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["--method", "plac", "--min-margin", "4", "--order", "highest-margin-first"],
         {"min_margin": 4, "order": "highest-margin-first"}),
        (["--method", "reverse", "--min-margin", "4"], {"min_margin": 4}),
        (["--method", "cluster", "--ngram", "1", "--threshold", "2.5"], {"ngram": 1, "threshold": 2.5}),
        (["--method", "merge", "--k", "7"], {"k": 7}),
        (["--method", "distill", "--k", "7", "--degree-k", "9", "--visits", "corpus"],
         {"k": 7, "degree_k": 9, "visits": "corpus"}),
    ],
)  # fmt: skip
def test_settings_reach_the_method(words: list[str], settings: dict[str, object], store: Store, tmp_path: Path) -> None:
    run(store.path, *words, "--ratio", "0.05", "--into", tmp_path / "small")
    parent = open_store(tmp_path / "small").manifest.parent
    assert parent is not None
    assert settings.items() <= parent.settings.items()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "best"], "allowed: plac, random, known, all_known, cluster, merge, distill, reverse"),
        (["--method", "random", "--ratio", "0.1", "--min-margin", "4"], "min_margin: got 4, but random takes no"),
        (["--method", "merge", "--ratio", "0.1", "--ngram", "4"], "ngram: got 4, but merge takes only k"),
        (["--method", "plac"], "plac needs one"),
        (["--ratio", "2"], "ratio: got 2.0"),
        (["--ratio", "0.9"], "`clamp`"),
    ],
)
def test_bad_arguments_leave_nothing(words: list[str], message: str, store: Store, tmp_path: Path) -> None:
    with pytest.raises(LacunaError) as error:
        run(store.path, *words, "--into", tmp_path / "small")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_clamp_takes_what_can_be_dropped(store: Store, tmp_path: Path) -> None:
    content = json.loads(run(store.path, "--ratio", "0.9", "--clamp", "--into", tmp_path / "small", "--json"))
    assert content["dropped"] == np.count_nonzero(store.known & (np.arange(store.entries) % 40 >= Plac().min_margin))


def test_a_warning_goes_to_stderr_and_into_the_json(store: Store, tmp_path: Path) -> None:
    most = np.count_nonzero(store.known & (np.arange(store.entries) % 40 >= Plac().min_margin)) / store.entries
    for ratio, name in ((most, "all"), (most / 2, "half")):
        arguments = [str(store.path), "--ratio", str(ratio), "--into", str(tmp_path / name), "--json"]
        result = CliRunner().invoke(app, arguments)
        warnings = json.loads(result.stdout)["warnings"]
        notes = [line for line in result.stderr.splitlines() if line.startswith("lacuna: note: ")]
        assert notes == [f"lacuna: note: {each}" for each in warnings]
        assert len(warnings) == (name == "all")


def test_pruners_are_found_by_name() -> None:
    assert set(PRUNERS) == {"plac", "random", "known", "all_known", "cluster", "merge", "distill", "reverse"}
    assert make_pruner("plac", min_margin=4) == Plac(min_margin=4)
    with pytest.raises(SettingError):
        make_pruner("plac", k=4)


def test_help_has_an_example() -> None:
    assert "lacuna prune it/store" in run("--help")
