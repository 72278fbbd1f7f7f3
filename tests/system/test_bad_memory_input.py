"""Bad input for the verbs that make and use a memory: one line with the way out, exit code 2, nothing changed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

import pytest

from commands import Refuse
from lacuna.cli.main import main
from lacuna.corpora import read_corpus
from lacuna.datastore import build_store
from lacuna.domain import adapt
from lacuna.index import build_index
from lacuna.models import load_model
from lacuna.progress import Silent
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian

Spoil = Callable[[Path], object]


class Interrupting(Silent):
    """Progress that ends a build after its first shard."""

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        if Path("unfinished/shards/00000").exists():
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a model, another one, a corpus, its store with an index, a store half built, and text to translate."""
    world = tmp_path_factory.mktemp("world")
    with chdir(world):
        make_marian(Path("model"))
        make_marian(Path("other"), separate=True)
        write_pairs(Path("corpus.tsv"), make_pairs(30))
        write_pairs(Path("more.tsv"), make_pairs(31))
        write_pairs(Path("dev.tsv"), make_pairs(5, seed=1))
        Path("in.txt").write_text("Wir sehen drei Hunde.\n")
        Path("short.en").write_text("We see.\n")
        Path("short.de").write_text("Wir sehen.\n")
        model = load_model("model", device="cpu")
        build_index(build_store(model, read_corpus("corpus.tsv"), "store", shard_rows=300), "IVF4,Flat")
        adapt("corpus.tsv", "domain", model="model", device="cpu")
        with pytest.raises(KeyboardInterrupt):
            build_store(model, read_corpus("corpus.tsv"), "unfinished", shard_rows=300, progress=Interrupting())
    return world


def untouched(folder: Path) -> None:
    """Leave all as it is: the command itself is the bad input."""


def cut(pattern: str) -> Spoil:
    """Take the second half of a file away."""

    def spoil(folder: Path) -> None:
        (path,) = folder.glob(pattern)
        os.truncate(path, path.stat().st_size // 2)

    return spoil


def write(path: str, content: bytes) -> Spoil:
    """Put something else into a file."""
    return lambda folder: (folder / path).write_bytes(content)


def edit(path: str, **fields: object) -> Spoil:
    """Set fields of a JSON file."""

    def spoil(folder: Path) -> None:
        content = json.loads((folder / path).read_text())
        (folder / path).write_text(json.dumps(content | fields))

    return spoil


def without(path: str) -> Spoil:
    """Remove a file or a folder."""

    def spoil(folder: Path) -> None:
        gone = folder / path
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()

    return spoil


def index_is_a_file(folder: Path) -> None:
    without("store/index")(folder)
    write("store/index", b"mine")(folder)


def index_of_another_store(folder: Path) -> None:
    build_index(build_store(load_model(folder / "model", device="cpu"), make_pairs(3), folder / "second"))
    without("store/index")(folder)
    shutil.copytree(folder / "second/index", folder / "store/index")


class Case(NamedTuple):
    """A command, words that its complaint must hold, and what is done to the folder before."""

    command: str
    says: str
    spoil: Spoil = untouched


TRANSLATE = "translate in.txt --model model --memory store"
TUNE = "tune dev.tsv --model model --memory store"
BUILD = "build corpus.tsv --model model --into new"
AGAIN = "build corpus.tsv --no-clean --shard-rows 300 --model model --into"
KEYS, VALUES = "store/shards/00000/keys.npy", "store/shards/00000/values.npy"
MANIFEST, INDEX = "store/manifest.json", "store/index/manifest.json"
LONG = b"wort " * 100 + b"\t" + b"word " * 100 + b"\n"

CASES = {
    "build: missing corpus": Case("build none.tsv --model model --into new", "none.tsv: no such file"),
    "build: nothing after cleaning": Case(BUILD, "empty after cleaning", write("corpus.tsv", b"eins\t \n")),
    "build: all pairs too long": Case(BUILD, "nothing to store", write("corpus.tsv", LONG)),
    "build: languages of no file": Case("build short --languages fr-it --model model --into new", "no files for fr-it"),
    "build: languages not said": Case("build short --model model --into new", "short.de, short.en"),
    "build: languages of another model": Case(f"{BUILD} --languages fr-en", "from de, not fr"),
    "build: folder that is no model": Case("build corpus.tsv --model store --into new", "no config.json"),
    "build: file that is no model": Case("build corpus.tsv --model in.txt --into new", "in.txt is a file"),
    "build: device that is not here": Case(f"{BUILD} --device quantum", "available: auto"),
    "build: threads of nothing": Case(f"{BUILD} --threads 0", "1 or more"),
    "build: shards of nothing": Case(f"{BUILD} --shard-rows 0", "1 or more"),
    "build: no place": Case("build corpus.tsv --model model", "--into"),
    "build: place below a file": Case(f"{AGAIN} in.txt/new", "in.txt (it is not a folder)"),
    "build: place is a file": Case(f"{AGAIN} in.txt", "not a folder"),
    "build: place is another folder": Case(f"{AGAIN} model", "not a store"),
    "build: store of another corpus": Case(AGAIN.replace("corpus", "more") + " store", "other sentence pairs (30"),
    "build: store of another model": Case(AGAIN.replace("--model model", "--model other") + " store", "another model"),
    "build: store of other settings": Case(AGAIN.replace("300", "100") + " store", "shard_rows 300"),
    "build: begun with another corpus": Case(AGAIN.replace("corpus", "dev") + " unfinished", "other sentence pairs"),
    "build: begun and cut": Case(f"{AGAIN} unfinished", "truncated", cut("unfinished/shards/00000/keys.npy")),

    "index: no such store": Case("index nowhere", "no such store"),
    "index: store not finished": Case("index unfinished", "not finished"),
    "index: keys cut": Case("index store", KEYS, cut(KEYS)),
    "index: manifest is not JSON": Case("index store", "not JSON", write(MANIFEST, b"{")),
    "index: unknown kind": Case("index store --kind nearest", "allowed: auto, exact"),
    "index: codes that do not divide": Case("index store --kind IVF4,PQ5", "must divide the dimension, 16"),
    "index: more lists than entries": Case("index store --kind IVF4096,Flat", "4,096 lists"),
    "index: more code words than entries": Case("index store --kind PQ4x12", "4096); use --kind exact"),
    "index: probes without lists": Case("index store --kind exact --probes 4", "exact has no lists"),
    "index: threads of nothing": Case("index store --threads 0", "1 or more"),
    "index: negative seed": Case("index store --seed -1", "seed: got -1"),
    "index: huge seed": Case("index store --kind IVF4,Flat --seed 99999999999", "0 to 2147483647"),
    "index: recall at k above the store": Case("index store --kind exact --recall --k 1000000", "k must be 1 to "),
    "index: recall without a sample": Case("index store --kind exact --recall --sample 0", "sample: got 0"),
    "index: place is a file": Case("index store --kind IVF8,Flat", "store/index: cannot be written", index_is_a_file),

    "inspect: folder that is no store": Case("inspect model", "not a store"),
    "inspect: file missing": Case("inspect store", f"{VALUES}: missing", without(VALUES)),
    "inspect: newer format": Case("inspect store", "has format 99, this version", edit(MANIFEST, format=99)),
    "inspect: number of entries changed": Case("inspect store", "edited or damaged", edit(MANIFEST, entries=5)),
    "inspect: memory.json missing": Case("inspect store", "copy the memory again", write("store/log.jsonl", b"")),
    "inspect: index manifest is not JSON": Case("inspect store", "build the index again", write(INDEX, b"\xff")),
    "verify: folder that is no store": Case("verify in.txt", "not a store"),
    "verify: memory.json missing": Case("verify store", "copy the memory again", write("store/log.jsonl", b"")),
    "verify: store not finished": Case("verify unfinished", "not finished"),
    "verify: manifest is not text": Case("verify store", "not JSON", write(MANIFEST, b"\xff\xfe")),

    "tune: no memory": Case("tune dev.tsv --model model", "'--memory'"),
    "tune: another model": Case("tune dev.tsv --model other --memory store", "built with another model"),
    "tune: no index": Case(TUNE, "build it with: lacuna index store", without("store/index")),
    "tune: file missing": Case(TUNE, f"{VALUES}: missing", without(VALUES)),
    "tune: empty dev": Case(TUNE, "dev.tsv: empty corpus", write("dev.tsv", b"")),
    "tune: dev too long": Case(TUNE, "none of which fits", write("dev.tsv", LONG)),
    "tune: missing dev": Case(TUNE, "dev.tsv: no such file", without("dev.tsv")),
    "tune: no pairs": Case(f"{TUNE} --pairs 0", "'--pairs'"),

    "translate: another model": Case("translate in.txt --model other --memory store", "built with another model"),
    "translate: store not finished": Case("translate in.txt --model model --memory unfinished", "not finished"),
    "translate: keys cut": Case(TRANSLATE, KEYS, cut(KEYS)),
    "translate: no index": Case(TRANSLATE, "build it with: lacuna index store", without("store/index")),
    "translate: index of another store": Case(TRANSLATE, "of another store", index_of_another_store),
    "translate: index of an earlier state": Case(
        TRANSLATE, "has changed since", edit(INDEX, store="0" * 64, checksum=None)
    ),
    "translate: index with an edited manifest": Case(TRANSLATE, "does not match its checksum", edit(INDEX, probes=1)),
    "translate: index cut": Case(TRANSLATE, "cut short", cut("store/index/*.faiss")),
    "translate: index of a newer format": Case(TRANSLATE, "lacuna index store", edit(INDEX, format=99)),
    "translate: k above the store": Case(f"{TRANSLATE} --k 1000000", "allowed is 1 to "),
    "translate: k of nothing": Case(f"{TRANSLATE} --k 0", "1 or more"),
    "translate: k that is no number": Case(f"{TRANSLATE} --k many", "'--k'"),
    "translate: weight above 1": Case(f"{TRANSLATE} --knn-weight 1.5", "0 (model only) to 1"),
    "translate: weight below 0": Case(f"{TRANSLATE} --knn-weight -0.1", "0 (model only) to 1"),
    "translate: temperature of nothing": Case(f"{TRANSLATE} --temperature 0", "more than 0"),
    "translate: beam of nothing": Case(f"{TRANSLATE} --beam 0", "1 or more"),
    "translate: batches of nothing": Case(f"{TRANSLATE} --batch-size 0", "--batch-size: got 0"),
    "translate: threads of nothing": Case(f"{TRANSLATE} --threads 0", "1 or more"),
    "translate: device that is not here": Case(f"{TRANSLATE} --device cuda:99", "available: auto"),
    "translate: weights cut": Case(TRANSLATE, "weights cannot be loaded", cut("model/model.safetensors")),
    "translate: model that is not there": Case("translate in.txt --model ./none", "does not exist"),
    "translate: missing text": Case(TRANSLATE, "in.txt: cannot be read", without("in.txt")),
    "translate: text is a folder": Case("translate model --model model", "model: cannot be read"),
    "translate: text is not UTF-8": Case(TRANSLATE, "in.txt:2: not UTF-8", write("in.txt", b"gut\nsch\xf6n\n")),
    "translate: unknown option": Case(f"{TRANSLATE} --lambda 0.5", "lacuna translate --help"),

    "evaluate: differing line counts": Case("evaluate in.txt dev.tsv", "5 lines for 1 references"),
    "evaluate: missing system": Case("evaluate in.txt none.txt", "none.txt: no such file"),
    "evaluate: missing reference": Case("evaluate none.txt in.txt", "none.txt: no such file"),
    "evaluate: empty system": Case("evaluate short.en in.txt", "in.txt: empty file", write("in.txt", b"")),
    "evaluate: no system": Case("evaluate in.txt", "no system to evaluate"),
    "evaluate: combiner without memory": Case("evaluate dev.tsv --combiner fit", "without --memory"),
    "evaluate: memory without combiner": Case("evaluate dev.tsv --memory store", "without --combiner"),
    "evaluate: nothing to translate": Case("evaluate in.txt --model model", "nothing to translate"),
    "evaluate: system is not UTF-8": Case("evaluate short.en in.txt", "in.txt:1: not UTF-8", write("in.txt", b"\xf6")),
    "adapt: no corpus": Case("adapt none.tsv --model model --into new", "none.tsv: no such file"),
    "adapt: no folder": Case("adapt corpus.tsv --model model", "'--into'"),
    "adapt: folder in use": Case("adapt corpus.tsv --model model --into store", "already there and not empty"),
    "adapt: folder is a file": Case("adapt corpus.tsv --model model --into in.txt", "already there and not empty"),
    "adapt: folder below a file": Case("adapt corpus.tsv --model model --into in.txt/new", "it is not a folder"),
    "adapt: no model": Case("adapt corpus.tsv --model ./none --into new", "none does not exist"),
    "adapt: no dev corpus": Case("adapt corpus.tsv --model model --into new --dev none.tsv", "none.tsv: no such file"),
    "adapt: all is dev": Case("adapt dev.tsv --model model --into new --dev dev.tsv", "nothing for the memory"),
    "adapt: budget of nothing": Case("adapt corpus.tsv --model model --into new --budget 0", "minutes above 0"),
    "adapt: made from another corpus": Case("adapt more.tsv --model model --into domain", "already a domain"),
    "adapt: made from another model": Case("adapt corpus.tsv --model other --into domain", "already a domain"),
    "adapt: damaged domain": Case("adapt corpus.tsv --model model --into domain", "not JSON",
                                  write("domain/domain.json", b"{")),
    "domain: no domain": Case("translate in.txt --domain store", "no domain there"),
    "domain: damaged": Case("translate in.txt --domain domain", "edited or damaged",
                            edit("domain/domain.json", seed=7)),
    "domain: combiner missing": Case("translate in.txt --domain domain", "no combiner there",
                                     without("domain/combiner")),
    "domain: memory missing": Case("translate in.txt --domain domain", "memory", without("domain/memory")),
    "domain: with a model": Case("translate in.txt --domain domain --model model", "--model: given with --domain"),
    "domain: with a memory and k": Case("translate in.txt --domain domain --memory store --k 4",
                                        "--memory, --k: given with --domain"),
    "domain: with a gate": Case("translate in.txt --domain domain --gate", "--gate: given with --domain"),
    "domain: with languages": Case("gaps in.txt --domain domain --languages de-en", "--languages: given with --domain"),
    "domain: explain with a calibration": Case("explain Hunde --domain domain --calibration c",
                                               "--calibration: given with --domain"),
    "domain: gaps with a combiner": Case("gaps in.txt --domain domain --combiner c", "--combiner: given with --domain"),
    "domain: evaluate with a memory": Case("evaluate dev.tsv --domain domain --memory store",
                                           "--memory: given with --domain"),
    "domain: serve with a memory": Case("serve --domain domain --memory store", "--memory: given with --domain"),
    "domain: serve without a folder": Case("serve --domain it=", "write NAME=FOLDER"),
    "evaluate: samples of nothing": Case("evaluate in.txt in.txt in.txt --samples 0", "1 or more"),
    "evaluate: target that is no code": Case("evaluate in.txt in.txt --target german", "such as en"),
    "evaluate: target of another script": Case("evaluate in.txt in.txt --target cn", "--target zh",
                                               write("in.txt", "我们看见三只狗。".encode())),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_line_and_exit_code_2(name: str, world: Path, tmp_path: Path, refuse: Refuse) -> None:
    case = CASES[name]
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    case.spoil(tmp_path)
    refused = refuse(case.command.split(), tmp_path)
    assert case.says in refused.line
    assert refused.out == ""


@pytest.mark.parametrize(("spoil", "problem"), [(cut(KEYS), f"{KEYS}: has "), (without(VALUES), f"{VALUES}: missing")])
def test_verify_names_each_problem_and_ends_in_one_line(
    spoil: Spoil, problem: str, world: Path, tmp_path: Path, refuse: Refuse
) -> None:
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    spoil(tmp_path)
    refused = refuse(["verify", "store"], tmp_path)
    assert refused.out.startswith(problem)
    assert "copy the store again, or build it again" in refused.line


GOOD = [TRANSLATE, TUNE, BUILD, f"{AGAIN} store", f"{AGAIN} unfinished", "index store --recall", "inspect store",
        "verify store", "evaluate in.txt in.txt", "translate in.txt --domain domain",
        "adapt corpus.tsv --model model --into domain --device cpu"]  # fmt: skip


@pytest.mark.parametrize("command", GOOD)
def test_where_nothing_is_wrong_the_same_commands_do_their_work(
    command: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Were it not so, a refusal above might have another reason than the one it is there for."""
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["lacuna", *command.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    said = capfd.readouterr().err.replace("lacuna: note: ", "")  # a note is no complaint
    assert "lacuna: " not in said
