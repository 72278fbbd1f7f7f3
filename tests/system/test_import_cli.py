"""``lacuna import``: a store of another toolkit from end to end, and every refusal in one line with nothing changed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import types
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from commands import Refuse, Run
from lacuna.models import load_model
from unit.datastore.foreign_stores import read_pairs, teach, write_adaptive, write_knn_box, write_knn_transformers
from unit.models.tiny_models import make_marian, make_t5

Spoil = Callable[[Path], object]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a taught model, stores of it in all formats, two other models, and folders that are no stores."""
    torch.set_num_threads(1)
    world = tmp_path_factory.mktemp("world")
    with chdir(world):
        make_marian(Path("model"))
        teach(Path("model"))
        make_marian(Path("other"), separate=True)
        make_t5(Path("t5"))
        table = read_pairs(load_model("model", device="cpu"))
        write_knn_box(Path("box"), table.out, table.values, mt_preds=table.predictions)
        write_adaptive(Path("adaptive"), table.out, table.values, ghosts=3)
        write_knn_transformers(Path("dstore"), table.ffn_in, table.values)
        Path("empty").mkdir()
        Path("used").mkdir()
        Path("used/mine.txt").write_text("mine")
        Path("notes.txt").write_text("no store\n")
    return world


def test_a_store_from_import_to_inspect(world: Path, tmp_path: Path, run: Run) -> None:
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    commands = [
        "import adaptive --model model --into store --device cpu",
        "index store",
        "margin store",
        "prune store --min-margin 1 --ratio 0.1 --clamp --into less",
        "verify less --keys --model model --device cpu",
        "inspect store",
        "inspect store --sentence 0 --model model",
    ]
    imported, _, _, pruned, verified, inspected, listed = (
        json.loads(run(f"{command} --json", tmp_path)) for command in commands
    )
    assert (imported["kind"], imported["key"], imported["ghosts"]) == ("adaptive-knn-mt", "out", 3)
    assert imported["entries"] == (tmp_path / "adaptive/vals.npy").stat().st_size // 8 - 3
    assert pruned["entries"] == imported["entries"]
    assert verified["sound"] is True
    assert inspected["known"] == imported["known"]
    assert inspected["parent"]["made_by"] == "import"
    assert sum(sum(some.values()) for some in inspected["margin_histogram"].values()) == imported["entries"]
    assert listed["entries"][0]["pair"]["source"] == ""
    assert listed["entries"][0]["pair"]["target"] == "the small house stands by the lake"


BOX = "import box --model model --into new"
ADAPTIVE = "import adaptive --model model --into new"
DSTORE = "import dstore --model model --into new"


@pytest.mark.parametrize("command", [BOX, ADAPTIVE, DSTORE, f"{BOX} --json", f"{BOX} --languages de-en --entries 50"])
def test_what_is_right_is_imported_and_told(command: str, world: Path, tmp_path: Path, run: Run) -> None:
    """Were it not so, a refusal below might have another reason than the one it is there for."""
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    out = run(command, tmp_path)
    assert "known" in out
    assert (tmp_path / "new/manifest.json").is_file()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_model_goes_to_the_import_of_models(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    calls = []

    class Report(NamedTuple):
        into: Path

        def as_json(self) -> dict[str, object]:
            return {"kind": "fairseq", "into": str(self.into), "parameters": 1234567, "notes": ["one", "two"]}

    def import_model(source: Path, into: Path, **settings: object) -> Report:
        calls.append((source, into, str(settings["languages"]), settings["checkpoint"]))
        return Report(into)

    stand_in = types.ModuleType("lacuna.models.importing")
    stand_in.recognize = lambda source: "fairseq" if source.name == "wmt" else None  # type: ignore[attr-defined]
    stand_in.import_model = import_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lacuna.models.importing", stand_in)
    (tmp_path / "wmt").mkdir()
    command = "import wmt --into new --languages de-en --checkpoint last.pt"
    out = run(command, tmp_path)
    assert calls == [(Path("wmt"), Path("new"), "de-en", "last.pt")]
    assert "1,234,567" in out
    assert json.loads(run(f"{command} --json", tmp_path))["kind"] == "fairseq"


def untouched(folder: Path) -> None:
    """Leave all as it is: the command itself is the bad input."""


def cut(name: str, to: float = 0.5) -> Spoil:
    """Take the end of a file away."""

    def spoil(folder: Path) -> None:
        (path,) = folder.glob(name)
        os.truncate(path, int(path.stat().st_size * to))

    return spoil


def put(name: str, entry: int, value: int) -> Spoil:
    """Change one number of a column of 64-bit ones."""

    def spoil(folder: Path) -> None:
        column = np.fromfile(folder / name, dtype=np.int64)
        column[entry] = value
        column.tofile(folder / name)

    return spoil


def info(**fields: object) -> Spoil:
    """Change what knn-box's config says of the keys."""

    def spoil(folder: Path) -> None:
        config = json.loads((folder / "box/config.json").read_text())
        config["data_infos"]["keys"] |= fields
        (folder / "box/config.json").write_text(json.dumps(config))

    return spoil


def without(name: str) -> Spoil:
    return lambda folder: next(folder.glob(name)).unlink()


def pickled(folder: Path) -> None:
    np.save(folder / "adaptive/vals.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)


def second_dstore(folder: Path) -> None:
    shutil.copy(next(folder.glob("dstore/*_keys.npy")), folder / "dstore/dstore_marian_1_16_keys.npy")


def not_finite(folder: Path) -> None:
    keys = np.fromfile(folder / "box/keys.npy", dtype=np.float16)
    keys[16 * 5 + 2] = np.inf
    keys.tofile(folder / "box/keys.npy")


def values_of_other_keys(folder: Path) -> None:
    values = np.fromfile(folder / "adaptive/vals.npy", dtype=np.int64)
    np.random.default_rng(0).permutation(values).tofile(folder / "adaptive/vals.npy")


def all_empty(folder: Path) -> None:
    for name in ("keys", "vals"):
        path = folder / f"adaptive/{name}.npy"
        path.write_bytes(bytes(path.stat().st_size))


class Case(NamedTuple):
    """A command, words that its complaint must hold, and what is done to the folder before."""

    command: str
    says: str
    spoil: Spoil = untouched


CASES = {
    "no such source": Case("import none --model model --into new", "none: no such file or folder"),
    "an empty folder": Case("import empty --into new", "looked for a store (knn-box: keys.npy, vals.npy and"),
    "a file of no kind": Case("import notes.txt --into new", "CTranslate2: model.bin"),
    "not a store, but a model is named": Case("import empty --model model --into new", "--key and --entries are for"),
    "no model": Case("import box --into new", "needs --model"),
    "no place": Case("import box --model model", "--into"),
    "model that is not there": Case("import box --model ./none --into new", "does not exist"),
    "place in use": Case("import box --model model --into used", "not empty"),
    "place inside the source": Case("import box --model model --into box/new", "is inside box"),
    "checkpoint of a store": Case(f"{BOX} --checkpoint a.pt", "--checkpoint is for models"),
    "key of no kind": Case(f"{BOX} --key ffn_out", "allowed are out and ffn_in"),
    "languages of another model": Case(f"{BOX} --languages fr-en", "from de, not fr"),
    "entries of nothing": Case(f"{BOX} --entries 0", "1 or more"),
    "more entries than there are": Case(f"{BOX} --entries 100000", "entries: got 100,000"),
    "threads of nothing": Case(f"{BOX} --threads 0", "1 or more"),

    "another dimension": Case(BOX, "its keys have dimension 8, those of the model 16", info(shape=[20, 8])),
    "config is not JSON": Case(BOX, "not the config of a knn-box", lambda f: (f / "box/config.json").write_text("{")),
    "config of something else": Case(BOX, "KeyError", lambda f: (f / "box/config.json").write_text("{}")),
    "shape of nothing": Case(BOX, "gives it the shape (0, 16)", info(shape=[0, 16])),
    "type of no kind": Case(BOX, "gives it the type 'complex64'", info(dtype="complex64")),
    "whole numbers as keys": Case(BOX, "keys must be floating", info(dtype="int64", shape=[20, 16])),
    "fewer keys than values": Case(BOX, "not one number for each of the 20 keys", info(shape=[20, 16])),
    "keys cut off": Case(BOX, "it is truncated", cut("box/keys.npy")),
    "values missing": Case(BOX, "box/vals.npy: missing", without("box/vals.npy")),
    "value out of the vocabulary": Case(BOX, "entry 7 has the value 4000", put("box/vals.npy", 7, 4000)),
    "negative value": Case(BOX, "entry 9 has the value -100", put("box/vals.npy", 9, -100)),
    "key that is not finite": Case(BOX, "the key of entry 5 is not finite", not_finite),

    "sizes that do not fit": Case(ADAPTIVE, "not keys of dimension 16", cut("adaptive/keys.npy", 0.7)),
    "sizes of two stores": Case(ADAPTIVE, "not keys of dimension 16", cut("adaptive/vals.npy", 0.25)),
    "pickled objects": Case(ADAPTIVE, "not an array of numbers", pickled),
    "values missing here": Case(ADAPTIVE, "adaptive/vals.npy: missing", without("adaptive/vals.npy")),
    "nothing but empty rows": Case(ADAPTIVE, "keys are zero", all_empty),
    "values of other keys": Case(ADAPTIVE, "not more than by chance", values_of_other_keys),

    "keys cut off here": Case(DSTORE, "it is truncated", cut("dstore/*_keys.npy")),
    "values cut off": Case(DSTORE, "it is truncated", cut("dstore/*_vals.npy")),
    "two stores in a folder": Case(DSTORE, "there must be one", second_dstore),
    "keys of the other kind": Case(f"{DSTORE} --key out", "they look like ffn_in"),
    "keys said to be of the other kind": Case(f"{BOX} --key ffn_in", "they look like out"),
    "another model": Case("import adaptive --model other --into new", "name the model that computed them"),
    "model that normalizes first": Case("import dstore --model t5 --into new", "build the store again"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_line_and_exit_code_2(name: str, world: Path, tmp_path: Path, refuse: Refuse) -> None:
    case = CASES[name]
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    case.spoil(tmp_path)
    refused = refuse(case.command.split(), tmp_path)
    assert case.says in refused.line
    assert refused.out == ""


def test_a_model_that_predicts_something_else_than_was_written_down_is_refused(
    world: Path, tmp_path: Path, refuse: Refuse
) -> None:
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "box/mt_preds.npy"
    predictions = np.fromfile(path, dtype=np.int64)
    predictions[::10] += 1
    predictions.tofile(path)
    refused = refuse(BOX.split(), tmp_path)
    counts = f"{len(predictions[::10])} of {len(predictions)}"
    assert f"mt_preds differs from the predictions of the model for {counts}" in refused.line
