"""Two processes at the same folder: the second one is told of the first, and changes nothing."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

import pytest

from commands import Refuse
from lacuna.artifacts.locks import work_lock
from lacuna.corpora import read_corpus
from lacuna.datastore import build_store
from lacuna.index import build_index
from lacuna.margin import measure_margin
from lacuna.models import load_model
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian

MODEL = "--model model --device cpu --threads 1"
SMALL = {"encoder_layers": 1, "decoder_layers": 1, "dimension": 16, "feed_forward": 32, "heads": 2}
EXPERIMENT = "title: Made up\nlanguages: de-en\nmodel: model\ncorpus: {train: corpus, dev: dev, test: dev}\n"


class Case(NamedTuple):
    """A command, and the folder that it fills."""

    command: str
    folder: str = "new"


CASES = {
    "adapt": Case(f"adapt corpus.tsv {MODEL} --into new"),
    "build": Case(f"build corpus.tsv {MODEL} --into new"),
    "margin": Case("margin store", "store/margin"),
    "index": Case("index store --kind exact", "store/index"),
    "prune": Case("prune store --method random --ratio 0.5 --into new"),
    "fit": Case(f"fit vanilla dev.tsv {MODEL} --memory store --into new"),
    "calibrate": Case(f"calibrate --dev dev.tsv {MODEL} --memory store --into new"),
    "train": Case("train corpus.tsv --languages de-en --into new --steps 9 --threads 1 --settings s.json"),
    "finetune": Case("finetune corpus.tsv --model model --into new --threads 1 --steps 9"),
    "import": Case("import ct2 --into new"),
    "fetch": Case("fetch it --languages de-en --into new"),
    "reproduce": Case("reproduce experiment.yaml --into new --data ."),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a model, corpora, and a store with an index and margins."""
    world = tmp_path_factory.mktemp("world")
    with chdir(world):
        make_marian(Path("model"))
        write_pairs(Path("corpus.tsv"), make_pairs(40))
        write_pairs(Path("dev.tsv"), make_pairs(6, seed=1))
        Path("s.json").write_text(json.dumps({"shape": {"vocabulary": 365, **SMALL}, "dev_pairs": 5}))
        Path("experiment.yaml").write_text(EXPERIMENT)
        Path("ct2").mkdir()
        for file in ("model.bin", "shared_vocabulary.json"):
            Path("ct2", file).touch()
        store = build_store(load_model("model", device="cpu"), read_corpus("corpus.tsv"), "store")
        build_index(store)
        measure_margin(store)
    return world


@pytest.mark.parametrize("name", CASES)
def test_the_second_process_is_told_of_the_first(name: str, world: Path, tmp_path: Path, refuse: Refuse) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(world, folder)
    case = CASES[name]
    with work_lock(folder / case.folder):
        refused = refuse(case.command.split(), folder)
    assert refused.line == (
        f"lacuna: {case.folder}: another process is at work there (pid {os.getpid()}); wait until it is done, then run "
        "the command again"
    )
