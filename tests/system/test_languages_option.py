"""Verbs that load a model of many languages take the direction from ``--languages``."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path

import pytest

from commands import Refuse, Run
from lacuna.datastore import build_store
from lacuna.models import load_model
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import DE_EN, make_m2m100

COMMANDS = {
    "inspect a sentence": "inspect store --sentence 1 --model many",
    "inspect a token": "inspect store --token </s> --model many",
    "verify the keys": "verify store --keys --model many",
    "tune an index on dev": "index store --tune --dev dev.tsv --sample 40 --k 2 --least-recall 0.1 --model many",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a model of many languages, a store of one direction, and dev pairs."""
    world = tmp_path_factory.mktemp("world")
    with chdir(world):
        make_m2m100(Path("many"))
        write_pairs(Path("dev.tsv"), make_pairs(10, seed=1))
        build_store(load_model("many", languages=DE_EN, device="cpu"), make_pairs(30), "store")
    return world


@pytest.mark.parametrize("name", COMMANDS)
def test_the_direction_can_be_given(name: str, world: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(world)
    arguments = [*COMMANDS[name].split(), "--languages", "de-en", "--json"]
    content = json.loads(run(arguments))
    checks = {
        "inspect a sentence": lambda: {entry["sentence"] for entry in content["entries"]} == {1},
        "inspect a token": lambda: len(content["entries"]) == 30,
        "verify the keys": lambda: content["predictions"]["mismatches"] == 0,
        "tune an index on dev": lambda: len(content["tried"]) > 1,
    }
    assert checks[name](), content


@pytest.mark.parametrize("name", COMMANDS)
def test_without_it_the_error_names_the_option(name: str, world: Path, refuse: Refuse) -> None:
    refused = refuse(COMMANDS[name].split(), world)
    assert "say which, as in languages de-en" in refused.line
