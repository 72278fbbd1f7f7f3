"""The table of pruning methods: each line against translating by hand, and nothing done twice."""

import json
from pathlib import Path

import pytest

from lacuna.analysis import Experiment, compare_pruners
from lacuna.analysis.comparing import BASE, WHOLE
from lacuna.combiners import Vanilla
from lacuna.models import Model
from lacuna.pruning import AllKnown, Plac, Random
from lacuna.records import SentencePair
from lacuna.translator import Memory, Translator, open_memory

PRUNERS = {"random half": (Random(), 0.5), "plac all": (Plac(0), 1.0), "all_known": (AllKnown(), None)}


def test_the_table(
    model: Model, memory: Memory, pairs: list[SentencePair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = Experiment(model, pairs[:4], pairs[4:8], tmp_path)
    lines = compare_pruners(experiment, memory, PRUNERS)
    assert [line.name for line in lines] == [WHOLE, BASE, *PRUNERS]
    by_name = {line.name: line for line in lines}
    entries = memory.store.entries
    assert by_name[BASE].entries == 0
    assert by_name["random half"].entries == entries - round(0.5 * entries)
    # Of PLAC without a least margin, as of all_known, what remains is the unknown entries.
    assert by_name["plac all"].entries == by_name["all_known"].entries == entries - int(memory.store.known.sum())
    half = by_name["random half"]
    settings = {name: half.combiner[name] for name in ("k", "knn_weight", "temperature")}
    by_hand = Translator(model, [open_memory(tmp_path / "random-half" / "store")], Vanilla(**settings))
    texts = [result.text for result in by_hand.translate([pair.source for pair in pairs[4:8]])]
    assert half.as_json()["bleu"] == half.score.bleu.value
    assert texts == compare_texts(tmp_path / "random-half")
    monkeypatch.setattr(Translator, "translate", lambda *_: pytest.fail("was done before"))
    assert compare_pruners(experiment, memory, PRUNERS) == lines


def compare_texts(folder: Path) -> list[str]:
    texts: list[str] = json.loads((folder / "translations.json").read_text(encoding="utf-8"))["texts"]
    return texts
