"""Ctrl-C in the middle of a verb: what is said about the next run is true."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import chdir
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.main import get_command

from commands import Attempt, Run, snapshot
from lacuna.cli.commands import commands_of
from lacuna.cli.main import VERBS, app
from lacuna.cli.render import BarProgress
from lacuna.corpora import read_corpus
from lacuna.datastore import build_store
from lacuna.index import build_index
from lacuna.models import load_model
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian

MEMORY = "--model model --memory store --device cpu --threads 1"


SMALL = {"encoder_layers": 1, "decoder_layers": 1, "dimension": 16, "feed_forward": 32, "heads": 2}


class Case(NamedTuple):
    """A command, the call of ``advance`` that is interrupted, and what the message says about the next run."""

    command: str
    call: int
    says: str


RESUMES, STARTS_OVER = "the same command resumes", "the same command starts from the beginning"
CASES = {
    "adapt": Case("adapt corpus.tsv --model model --into new --threads 1 --device cpu", 3, RESUMES),
    "build": Case("build corpus.tsv --model model --into new --shard-rows 100 --device cpu", 4, RESUMES),
    "add": Case("add new corpus.tsv --model model --device cpu", 1, RESUMES),
    "margin": Case("margin bare", 1, RESUMES),
    "finetune": Case("finetune corpus.tsv --model model --into new --threads 1 --steps 9", 3, RESUMES),
    "train": Case("train corpus.tsv --languages de-en --into new --steps 9 --threads 1 --settings s.json", 2, RESUMES),
    "index": Case("index store --kind IVF4,Flat", 1, STARTS_OVER),
    "prune": Case("prune store --method random --ratio 0.5 --into new", 1, STARTS_OVER),
    "tune": Case(f"tune dev.tsv {MEMORY}", 1, STARTS_OVER),
    "fit": Case(f"fit adaptive dev.tsv {MEMORY} --k 2 --into new", 1, STARTS_OVER),
    "calibrate": Case(f"calibrate --dev dev.tsv {MEMORY} --into new", 1, STARTS_OVER),
    "gaps": Case(f"gaps in.txt {MEMORY}", 1, STARTS_OVER),
    "explain": Case(f"explain Wir.sehen. {MEMORY}", 1, STARTS_OVER),
    "evaluate": Case("evaluate corpus.tsv --model model --device cpu --threads 1", 1, STARTS_OVER),
    "verify": Case("verify store", 1, STARTS_OVER),
    "translate": Case(f"translate in.txt {MEMORY}", 1, "all translations printed so far are complete"),
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a model, a corpus, a store with an index and one without, dev pairs, and text to translate."""
    world = tmp_path_factory.mktemp("world")
    with chdir(world):
        make_marian(Path("model"))
        write_pairs(Path("corpus.tsv"), make_pairs(40))
        write_pairs(Path("dev.tsv"), make_pairs(6, seed=1))
        Path("s.json").write_text(json.dumps({"shape": {"vocabulary": 365, **SMALL}, "dev_pairs": 5}))
        Path("in.txt").write_text("Wir sehen.\nDrei Hunde.\n")
        model = load_model("model", device="cpu")
        for name in ("store", "bare"):
            build_store(model, read_corpus("corpus.tsv"), name, shard_rows=100)
        build_index(build_store(model, read_corpus("corpus.tsv"), "store", shard_rows=100))
    return world


def interrupting(at: int) -> Callable[..., None]:
    """Return a method that is interrupted at one of its calls."""
    calls = count(1)

    def advance(self: BarProgress, amount: float = 1.0, note: str = "") -> None:
        if next(calls) == at:
            raise KeyboardInterrupt

    return advance


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_after_an_interrupt_is_true(
    name: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: Attempt
) -> None:
    case, folder = CASES[name], tmp_path / "copy"
    shutil.copytree(world, folder)
    monkeypatch.setattr(BarProgress, "advance", interrupting(case.call))
    before = {path: content for path, (_, _, content) in snapshot(folder).items()}
    ended = attempt(case.command, folder)
    assert ended.code == 130
    line = ended.err.splitlines()[-1]
    assert line.startswith(f"lacuna: interrupted; {case.says}"), line
    if case.says != RESUMES:
        assert {path: content for path, (_, _, content) in snapshot(folder).items()} == before


def test_an_interrupted_build_resumes(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, attempt: Attempt
) -> None:
    monkeypatch.setattr(BarProgress, "advance", interrupting(4))
    command = f"build corpus.tsv --model model --into {tmp_path / 'new'} --shard-rows 100 --device cpu"
    assert attempt(command, world).code == 130
    first = tmp_path / "new/shards/00000/keys.npy"
    written = first.stat().st_mtime_ns
    run(command)
    assert first.stat().st_mtime_ns == written


@pytest.mark.parametrize("name", VERBS)
def test_only_verbs_that_keep_finished_work_claim_to_resume(
    name: str, monkeypatch: pytest.MonkeyPatch, attempt: Attempt
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    command = type(commands_of(get_command(app))[name])
    monkeypatch.setattr(command, "load", staticmethod(lambda path: interrupt))
    ended = attempt(name)
    assert ended.code == 130
    resumes = {"adapt", "add", "build", "margin", "train", "finetune", "reproduce", "demo"}
    assert (RESUMES in ended.err) == (name in resumes)


# Sends Ctrl-C when a module is imported.
INTERRUPTED_IMPORT = """
import signal, sys
class Interrupt:
    def find_spec(self, name, *rest):
        if name == module:
            signal.raise_signal(signal.SIGINT)
module = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupt())
from lacuna.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["lacuna.cli.main", "typer", "lacuna.cli.adapt", "numpy"])
def test_an_interrupt_while_the_command_line_is_imported_is_one_line(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module, "adapt", "corpus.tsv", "--into", "new"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    begun = module not in ("lacuna.cli.main", "typer")
    said = f"{RESUMES} from the work that is finished" if begun else "nothing was begun"
    assert (done.returncode, done.stderr) == (130, f"lacuna: interrupted; {said}\n")


def test_the_console_script_starts_where_imports_are_guarded() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"lacuna": "lacuna.__main__:main"}


def test_an_interrupt_that_typer_does_not_see_is_one_line(monkeypatch: pytest.MonkeyPatch, attempt: Attempt) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt  # such as a second one, while the first is handled

    monkeypatch.setattr("lacuna.cli.main.app", interrupt)
    assert attempt("verify store") == (130, "", f"lacuna: interrupted; {STARTS_OVER}\n")
