"""``lacuna finetune`` at the command line: what it says, and what it refuses in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import Attempt, Refuse, Run
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_m2m100, make_marian


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_marian(tmp_path / "base")
    write_pairs(tmp_path / "toy.tsv", [*make_pairs(40), *make_pairs(5)])
    return tmp_path


def arguments(*more: str, corpus: str = "toy.tsv", model: str = "base") -> list[str]:
    return ["finetune", corpus, "--model", model, "--into", "new", "--threads", "1", "--steps", "2", *more]


def many_languages(folder: Path) -> list[str]:
    make_m2m100(folder / "many")
    return arguments(model="many")


CASES: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "missing corpus": (lambda f: arguments(corpus="none.tsv"), "none.tsv"),
    "missing dev": (lambda f: arguments("--dev", "none.tsv"), "none.tsv"),
    "missing model": (lambda f: arguments(model="./none"), "none does not exist"),
    "model without a direction": (many_languages, "say which, as in languages de-en"),
    "rank without adapters": (lambda f: arguments("--rank", "4"), "add --lora"),
    "rank of nothing": (lambda f: arguments("--lora", "--rank", "0"), "rank: got 0; allowed is 1 or more"),
    "learning rate of nothing": (lambda f: arguments("--learning-rate", "0"), "more than 0"),
    "malformed languages": (lambda f: arguments("--languages", "german"), "de-en"),
    "other direction": (lambda f: arguments("--languages", "fr-en"), "translates from de, not fr"),
    "unknown device": (lambda f: arguments("--device", "tpu"), "available: auto, cpu"),
    "too few pairs": (lambda f: arguments(corpus=str(write_pairs(f / "few.tsv", make_pairs(3)))), "give --dev"),
    "into the model itself": (lambda f: [*arguments(), "--into", "base"], "name a new folder"),
}  # fmt: skip


@pytest.mark.parametrize(("prepare", "says"), CASES.values(), ids=CASES)
def test_refused_in_one_line(prepare: Callable[[Path], list[str]], says: str, folder: Path, refuse: Refuse) -> None:
    assert says in refuse(prepare(folder), folder).line


def test_says_what_it_did_and_the_second_time_that_it_is_done(folder: Path, run: Run, attempt: Attempt) -> None:
    code, out, err = attempt(arguments("--lora", "--rank", "2", "--json"), folder)
    assert code == 0, err
    assert "shards" not in err
    first = json.loads(out)
    assert (first["steps"], first["pairs"], first["held_out"]) == (2, first["cleaning"]["kept"] - 3, 3)
    assert first["cleaning"]["dropped"]["duplicate"] >= 5
    assert first["trained_parameters"] < first["parameters"]
    assert json.loads(run(arguments("--lora", "--rank", "2", "--json"))) == first | {"finished_before": True}
    out = run(arguments("--lora", "--rank", "2"))
    assert out.startswith("new: this run is finished")
    assert "held out 3" in out
    assert (folder / "new" / "adapter" / "adapter_model.safetensors").exists()
