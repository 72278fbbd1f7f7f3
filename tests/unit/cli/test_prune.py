"""``lacuna prune --auto``: output and refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from commands import Refuse, Run
from lacuna.cli import prune as verb
from lacuna.combiners import Vanilla
from lacuna.datastore import open_store
from lacuna.evaluation.noninferiority import NonInferiority
from lacuna.fitting import PruningChoice, PruningLoss
from lacuna.fitting.pruning_choice import PruningTrial
from lacuna.memory import Memory
from lacuna.pruning import Plac
from lacuna.records import SentencePair
from made_up import write_pairs

LOSS = PruningLoss(gain=0.5, loss=0.005, share=0.01, low=0.005, high=0.018, bound=0.017)
DROPS = NonInferiority("BLEU", 30.0, 29.9, -0.4, 1.0), NonInferiority("chrF2", 50.0, 50.1, -0.2, 1.0)
TRIALS = (
    PruningTrial(4, 0.05, -1.0, LOSS),
    PruningTrial(4, 0.06, -1.0, LOSS, DROPS),
    PruningTrial(4, 0.07, -1.25, PruningLoss(0.5, 0.02, 0.04, 0.01, None, None)),
)
CHOICE = PruningChoice(Plac(4), 0.06, 0.02, 1.0, 0.5, True, Vanilla(), -1.0, 30.0, 200, TRIALS, 0)


@pytest.fixture
def dev(pairs: list[SentencePair], tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "dev.tsv", pairs)


def test_the_whole_command(memory: Memory, dev: Path, tmp_path: Path, run: Run) -> None:
    command = f"prune {memory.place} --auto --max-loss 0.9 --max-drop 99 --dev {dev} --kind none --json --into new"
    content = json.loads(run(command, tmp_path))
    choice = content["choice"]
    assert (choice["max_loss"], choice["max_drop"]) == (0.9, 99)
    assert content["settings"]["min_margin"] == choice["pruner"]["min_margin"]
    assert content["dropped"] == round(choice["ratio"] * memory.entries)
    assert open_store(tmp_path / "new").entries == content["kept"]
    taken = (choice["pruner"]["min_margin"], choice["ratio"])
    [trial] = [each for each in choice["trials"] if (each["min_margin"], each["ratio"]) == taken]
    assert trial["loss"]["bound"] <= 0.9
    assert [drop["metric"] for drop in trial["drops"]] == ["BLEU", "chrF2"]
    assert trial["drops"][0]["baseline"] == choice["bleu"]


def test_the_table_says_what_is_promised(capsys: pytest.CaptureFixture[str]) -> None:
    verb._print_choice(CHOICE)
    shown = " ".join(capsys.readouterr().out.split())
    assert "│ * 0.06 │ 4 │ 1.00% │ 1.70% │ -0.10 │ -0.40 │ +0.10 │ -0.20 │" in shown
    assert "0.05" in shown
    assert "0.07" not in shown
    assert "at most 2.0% of what the memory adds to the log-probability (+0.5000 per token) is lost" in shown
    assert "BLEU and chrF drop by less than 1 (BLEU 30.00 with the whole memory, 200 dev pairs translated)" in shown


def test_nothing_to_drop_is_one_line(
    memory: Memory, dev: Path, tmp_path: Path, refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = replace(CHOICE, pruner=None, ratio=0.0, adds=False, gain=-0.01, trials=())
    monkeypatch.setattr("lacuna.fitting.choose_pruning", lambda *_, **__: nothing)
    refusal = refuse(f"prune {memory.place} --auto --dev {dev} --into new", tmp_path)
    assert "nothing is dropped: " in refusal.line
    assert "--max-loss" in refusal.line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--max-loss 0.02 --ratio 0.1", "--max-loss and --max-drop are for --auto"),
        ("--max-drop 1 --ratio 0.1", "--max-loss and --max-drop are for --auto"),
        ("--auto --dev none.tsv --max-loss 2", "--max-loss: got 2; allowed is a share above 0 and below 1"),
        ("--auto --dev none.tsv --max-drop 0", "--max-drop: got 0; allowed is a number of points above 0"),
        ("--auto --max-loss 0.02", "--auto chooses ratio and min_margin of plac: give --dev"),
    ],
)
def test_refusals(memory: Memory, tmp_path: Path, refuse: Refuse, words: str, message: str) -> None:
    assert message in refuse(f"prune {memory.place} {words} --into new", tmp_path).line
