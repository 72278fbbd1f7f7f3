"""``lacuna build``, ``inspect`` and ``verify``: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from commands import path_of
from lacuna.cli import store as verbs
from lacuna.cli.commands import add_verb
from lacuna.corpora import CleaningReport, read_corpus
from lacuna.datastore import Store, build_store, open_store
from lacuna.errors import CorpusError, ModelError, SettingError, StoreError
from lacuna.kernels import compiled as kernels
from lacuna.models import load_model
from made_up import make_pairs, write_pairs
from unit.datastore.disk import contents
from unit.datastore.numpy_model import NumpyModel
from unit.models.tiny_models import Zoo

app = typer.Typer(pretty_exceptions_enable=False)
for verb in (verbs.build, verbs.inspect, verbs.verify):
    add_verb(app, path_of(verb))


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code
    return result.stdout


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    pairs = make_pairs(10)
    return write_pairs(tmp_path / "toy.tsv", [*pairs, pairs[0]])


def test_build_inspect_verify(corpus: Path, zoo: Zoo, tmp_path: Path) -> None:
    model, into = zoo.folder("marian"), tmp_path / "store"
    built = json.loads(run("build", corpus, "--model", model, "--into", into, "--device", "cpu", "--json"))
    store = open_store(into)
    assert built["entries"] == store.entries
    assert built["sentences"] == 10
    assert built["cleaning"] == {"kept": 10, "dropped": {"duplicate": 1}}
    inspected = json.loads(run("inspect", into, "--json"))
    wanted = ["entries", "sentences", "dimension", "known", "known_ratio", "bytes", "index", "margin_histogram"]
    assert {name: built[name] for name in wanted} == {name: inspected[name] for name in wanted}
    assert f"{store.entries:,}" in run("inspect", into)
    assert json.loads(run("verify", into, "--json"))["sound"] is True
    assert "sound" in run("verify", into)


@pytest.mark.skipif(not kernels.supports("bfloat16"), reason="needs AVX-512 BF16")
def test_a_store_built_in_bfloat16_says_so(corpus: Path, zoo: Zoo, tmp_path: Path) -> None:
    command = ["build", corpus, "--model", zoo.folder("marian"), "--device", "cpu", "--into", tmp_path / "store"]
    built = json.loads(run(*command, "--precision", "bf16", "--json"))
    assert built["model"]["precision"] == "bfloat16"
    assert "bfloat16" in run("inspect", tmp_path / "store")
    assert "sound" in run("verify", tmp_path / "store", "--keys", "--model", zoo.folder("marian"), "--device", "cpu")
    with pytest.raises(StoreError, match="built in bfloat16, not float32"):
        run(*command)


def test_a_precision_that_the_model_cannot_run_in_is_refused(corpus: Path, zoo: Zoo, tmp_path: Path) -> None:
    for precision, words in {
        "bf16": "bfloat16 on a CPU needs",
        "float16": "is for GPUs",
        "int4": "allowed are",
    }.items():
        with pytest.raises(SettingError, match=words):
            run(
                *("build", corpus, "--model", zoo.folder("mt5"), "--device", "cpu"),
                *("--into", tmp_path / "store", "--precision", precision),
            )
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("cleaning", [True, False])
def test_python_and_the_command_line_build_the_same_store(
    cleaning: bool, corpus: Path, zoo: Zoo, tmp_path: Path
) -> None:
    model = zoo.folder("marian")
    corpus.write_text(corpus.read_text() + "  Ja \tYes\n12\t12\n")
    run("build", corpus, "--model", model, "--into", tmp_path / "cli", *([] if cleaning else ["--no-clean"]))
    settings = {} if cleaning else {"cleaning": None}
    build_store(load_model(str(model), device="cpu"), read_corpus(str(corpus)), tmp_path / "python", **settings)
    assert contents(tmp_path / "cli") == contents(tmp_path / "python")
    assert open_store(tmp_path / "cli").manifest.sentences == (11 if cleaning else 13)


def test_building_counts_what_cleaning_drops(corpus: Path, tmp_path: Path) -> None:
    report = CleaningReport()
    build_store(NumpyModel(), read_corpus(corpus), tmp_path / "store", report=report)
    assert (report.kept, dict(report.dropped)) == (10, {"duplicate": 1})


def test_without_cleaning_all_pairs_stay(corpus: Path, zoo: Zoo, tmp_path: Path) -> None:
    out = run("build", corpus, "--model", zoo.folder("marian"), "--into", tmp_path / "s", "--no-clean", "--json")
    assert json.loads(out)["sentences"] == 11
    assert "cleaning" not in json.loads(out)


def test_what_is_too_long_is_shown(corpus: Path, zoo: Zoo, tmp_path: Path) -> None:
    corpus.write_text(corpus.read_text() + f"{'wort ' * 100}\t{'word ' * 100}\n")
    out = run("build", corpus, "--model", zoo.folder("marian"), "--into", tmp_path / "s")
    assert "left out, too long" in out
    assert open_store(tmp_path / "s").manifest.skipped == 1


def test_problems_are_printed_and_end_in_one_error(small_store: Store) -> None:
    (small_store.path / "mean.npy").write_bytes(b"")
    result = CliRunner().invoke(app, ["verify", str(small_store.path)])
    assert isinstance(result.exception, StoreError)
    assert "1 problems" in str(result.exception)
    assert "mean.npy: has 0 bytes" in result.output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("no.tsv", "--model", "MODEL"), CorpusError),
        (("CORPUS", "--model", "no/such/model/there"), ModelError),
        (("CORPUS", "--model", "MODEL", "--threads", "0"), SettingError),
        (("CORPUS", "--model", "MODEL", "--batch-tokens", "0"), SettingError),
    ],
)
def test_bad_arguments_leave_nothing(
    arguments: tuple[str, ...], error: type[Exception], corpus: Path, zoo: Zoo, tmp_path: Path
) -> None:
    real = {"CORPUS": str(corpus), "MODEL": str(zoo.folder("marian"))}
    with pytest.raises(error):
        run("build", *(real.get(word, word) for word in arguments), "--into", tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_help_has_an_example() -> None:
    for name in ("build", "inspect", "verify"):
        assert f"lacuna {name}" in run(name, "--help")
