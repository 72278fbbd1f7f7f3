"""Options that are made from signatures, bundles and strategies."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from commands import Refuse, Run, path_of
from lacuna.cli.commands import Settings, SettingsOf, add_verb
from lacuna.cli.main import app
from lacuna.datastore import build_store, open_store
from lacuna.pruning import PRUNERS, EntryTable, Pruning
from lacuna.pruning.base import count_groups
from lacuna.strategies import make_strategy
from made_up import make_pairs
from unit.datastore.numpy_model import NumpyModel


@dataclass(frozen=True, slots=True)
class EveryNth:
    """Drops every n-th entry.

    :param its_option: Distance between
        dropped entries. The first entry is dropped.
    """

    name: ClassVar[str] = "every_nth"
    reads_margins: ClassVar[bool] = False
    changes_keys: ClassVar[bool] = False
    its_option: int = 2

    def prune(self, entries: EntryTable, *, ratio: float | None, seed: int, clamp: bool = False) -> Pruning:
        """Keep the others."""
        keep = np.arange(len(entries.values)) % self.its_option != 0
        return Pruning(keep, count_groups(keep, {"any": np.ones_like(keep)}))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRUNERS, EveryNth.name, EveryNth)


@pytest.mark.usefixtures("registered")
def test_a_new_pruner_has_its_options(tmp_path: Path, run: Run) -> None:
    store = build_store(NumpyModel(), make_pairs(20), tmp_path / "store")
    words = ["prune", str(store.path), "--method", "every_nth", "--kind", "none", "--json", "--into"]
    shown = json.loads(run([*words, str(tmp_path / "thirds"), "--its-option", "3"]))
    assert shown["dropped"] == len(range(0, store.entries, 3))
    assert open_store(tmp_path / "thirds").entries == shown["kept"]
    shown = json.loads(run([*words, str(tmp_path / "halves")]))
    assert shown["dropped"] == len(range(0, store.entries, 2))  # its own default


@pytest.mark.usefixtures("registered")
def test_its_options_are_in_the_help() -> None:
    shown = CliRunner().invoke(app, ["prune", "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"}).output
    text = " ".join(shown.split())
    assert "plac, random, known, all_known, cluster, merge, distill, reverse or every_nth (docs/prune.md)" in text
    assert "--its-option <int> Distance between dropped entries (every_nth) (default 2)." in text


@pytest.mark.usefixtures("registered")
def test_an_option_of_another_strategy_is_refused(tmp_path: Path, refuse: Refuse) -> None:
    store = build_store(NumpyModel(), make_pairs(5), tmp_path / "store")
    refusal = refuse(["prune", str(store.path), "--into", "small", "--its-option", "3"], tmp_path)
    assert refusal.line == "lacuna: --its-option: got 3, but plac takes only min_margin, order; leave it out"


@dataclass(frozen=True)
class Ball:
    """A shape.

    :param size: Radius.
    :param color: red or blue: its color. Green is not there.
    """

    size: float = 0.5
    color: Literal["red", "blue"] = "red"


@dataclass(frozen=True)
class Box:
    """Another shape.

    :param size: Length of an edge; default: the best.
    :param color: red or blue: its color.
    :param nprobe: Lists.
    """

    size: float | None = None
    color: Literal["red", "blue"] = "red"
    nprobe: int | None = None


SHAPES: dict[str, type] = {"ball": Ball, "box": Box}


@dataclass(frozen=True, kw_only=True)
class Bundle:
    first: Annotated[int, typer.Option(help="The first.")] = 1
    more: Annotated[list[str], typer.Option(help="More.")] = ()  # type: ignore[assignment]


def draw(
    shape: Annotated[str, typer.Argument(help="The shape.")],
    bundle: Bundle,
    *,
    flag: Annotated[bool, typer.Option("--flag")] = False,
    settings: Annotated[Settings, SettingsOf(f"{__name__}:SHAPES")],
) -> None:
    """Draw."""
    typer.echo(repr((make_strategy(SHAPES, "shape", shape, settings), bundle.first, list(bundle.more), flag)))


def drawing() -> typer.Typer:
    made = typer.Typer(add_completion=False)
    add_verb(made, path_of(draw))
    return made


def test_values_reach_the_strategy_and_the_bundle() -> None:
    shown = CliRunner().invoke(drawing(), ["box", "--size", "2", "--probes", "3", "--first", "7", "--more", "a"])
    assert shown.output == repr((Box(2.0, "red", 3), 7, ["a"], False)) + "\n"
    shown = CliRunner().invoke(drawing(), ["ball", "--color", "blue", "--flag"])
    assert shown.output == repr((Ball(0.5, "blue"), 1, [], True)) + "\n"


def test_help_groups_strategies_by_text_and_default() -> None:
    options = {parameter.name: parameter for parameter in get_command(drawing()).params}
    assert list(options) == ["shape", "first", "more", "flag", "size", "color", "nprobe"]
    assert options["size"].help == (
        f"Radius (ball) (default {{{__name__}:Ball.size}}). Length of an edge; default: the best (box)."
    )
    assert options["color"].help == f"red or blue: its color (ball, box) (default {{{__name__}:Ball.color}})."
    assert options["nprobe"].opts == ["--probes", "--nprobe"]


def test_the_list_of_verbs_reads_no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.cli.commands._expand", None)  # fails if it is called
    shown = CliRunner().invoke(app, ["--help"])
    assert shown.exit_code == 0
    assert "prune" in shown.output
    assert isinstance(CliRunner().invoke(app, ["prune", "--help"]).exception, TypeError)


def test_help_and_version_import_no_verb() -> None:
    """They would wait for torch, faiss and others, which take seconds to import."""
    code = "import sys; from lacuna.__main__ import main\ntry:\n  main()\nfinally:\n  print(sorted(sys.modules))"
    for option in ("--version", "--help"):
        done = subprocess.run([sys.executable, "-c", code, option], capture_output=True, text=True, check=True)
        loaded = ast.literal_eval(done.stdout.splitlines()[-1])
        assert not {"torch", "numpy", "faiss", "transformers", "numba"} & set(loaded)
        assert [name for name in loaded if name.startswith("lacuna.cli.")] == [
            "lacuna.cli.commands",
            "lacuna.cli.error_text",
            "lacuna.cli.main",
            "lacuna.cli.render",
        ]
