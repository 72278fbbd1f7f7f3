"""Optional packages: ordinary models work without them, and a missing one is an error that names its extra."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import pytest

from lacuna.models.tokenization.tokenizer import learn_tokenization
from lacuna.models.training.network import make_network
from lacuna.models.training.settings import Shape
from lacuna.records import Languages
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import SOURCES, Zoo
from unit.models.tokenization.sentences import chinese_pairs

OPTIONAL = ("jieba", "matplotlib", "peft", "sacremoses", "subword_nmt")
SHAPE = Shape(1, 1, 32, 64, 2, vocabulary=400, max_positions=64)
# One process runs all programs, since it takes seconds to import torch. To the import system, a package whose entry in
# sys.modules is None is not installed.
SERVER = f"""
import contextlib, io, json, sys, traceback
for line in sys.stdin:
    sys.modules.update(dict.fromkeys({OPTIONAL}))
    program, *sys.argv[1:] = json.loads(line)
    code, out, err = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            exec(program, {{"sys": sys}})
        except SystemExit as ended:
            code = ended.code or 0
        except Exception:
            code = 1
            traceback.print_exc()
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str


class WithoutExtras:
    """Runs programs in a process without optional packages."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, program: str, *arguments: str) -> Result:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([program, *arguments]) + "\n")
        self._process.stdin.flush()
        return Result(*json.loads(self._process.stdout.readline()))

    def refusal(self, program: str, *arguments: str) -> str:
        """Return the last line of the error, which must be ours."""
        result = self.run(program, *arguments)
        assert result.code == 1
        kind, _, message = result.err.strip().splitlines()[-1].partition(": ")
        assert kind == "lacuna.errors.MissingExtra"
        return message


@pytest.fixture(scope="module")
def without_extras() -> Iterator[WithoutExtras]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=pipe, stdout=pipe, text=True) as process:
        yield WithoutExtras(process)


LOAD = "import lacuna; print(lacuna.load_model(sys.argv[1], device='cpu').generate(sys.argv[2:], max_new_tokens=3))"


def test_an_ordinary_model_loads_and_translates_without_extras(zoo: Zoo, without_extras: WithoutExtras) -> None:
    result = without_extras.run(LOAD, str(zoo.folder("marian")), *SOURCES)
    assert (result.code, result.err) == (0, "")
    assert result.out.strip() == str(zoo.model("marian").generate(SOURCES, max_new_tokens=3))


def test_train_with_sentencepiece_needs_no_extras(tmp_path: Path, without_extras: WithoutExtras) -> None:
    corpus = write_pairs(tmp_path / "toy.tsv", make_pairs(300))
    settings = {"shape": asdict(SHAPE) | {"vocabulary": 370}, "dev_pairs": 20, "batch_tokens": 256}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    program = "import lacuna.cli.train as verb; verb._restart_with_malloc_settings = lambda: None\n"
    program += "from lacuna.cli.main import main; main()"
    words = ["train", str(corpus), "--languages", "de-en", "--into", str(tmp_path / "model"), "--steps", "2"]
    result = without_extras.run(program, *words, "--settings", str(tmp_path / "settings.json"), "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["steps"] == 2


def test_fsmt_names_the_extra_of_its_tokenizer(zoo: Zoo, without_extras: WithoutExtras) -> None:
    message = without_extras.refusal(LOAD, str(zoo.folder("fsmt")), "ja")
    assert message.endswith('(FSMT) needs the package sacremoses; pip install "lacuna-mt[bpe]"')


@pytest.mark.parametrize(("direction", "package", "extra"), [("de-en", "sacremoses", "bpe"), ("zh-en", "jieba", "zh")])
def test_a_model_with_words_and_bpe_names_the_extra(
    tmp_path: Path, direction: str, package: str, extra: str, without_extras: WithoutExtras
) -> None:
    pairs = make_pairs(200) if extra == "bpe" else chinese_pairs(200)
    files = learn_tokenization(pairs, 400, Languages.parse(direction), "joint")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    size = len(json.loads(files["vocab.json"]))
    make_network(SHAPE, size, 0, size - 1, 0.0).save_pretrained(tmp_path)
    program = "del sys.modules['subword_nmt']\n"
    expected = f'needs the package {package}; pip install "lacuna-mt[{extra}]"'
    assert without_extras.refusal(program + LOAD, str(tmp_path), "ja").endswith(expected)
    assert without_extras.refusal(LOAD, str(tmp_path), "ja").endswith('subword_nmt; pip install "lacuna-mt[bpe]"')


TRAIN = """
from pathlib import Path
from lacuna.models.training import TrainSettings, WeightedCorpus, train_model
from lacuna.records import Languages

settings = TrainSettings(steps=1, tokenization="bpe")
corpus = WeightedCorpus("never read", lambda: 1 / 0)
train_model([corpus], Languages.parse(sys.argv[1]), settings, Path(sys.argv[2]))
"""


@pytest.mark.parametrize(("direction", "says"), [("de-en", "sacremoses; "), ("zh-en", "jieba; ")])
def test_training_with_bpe_names_the_extra_before_it_reads_a_corpus(
    tmp_path: Path, direction: str, says: str, without_extras: WithoutExtras
) -> None:
    extra = "zh" if says.startswith("jieba") else "bpe"
    message = without_extras.refusal(TRAIN, direction, str(tmp_path / "model"))
    assert message.endswith(f'{says}pip install "lacuna-mt[{extra}]"')
    assert not (tmp_path / "model").exists()


def test_lora_names_its_extra(zoo: Zoo, tmp_path: Path, without_extras: WithoutExtras) -> None:
    program = """
from pathlib import Path
import lacuna
from lacuna.records import Origin, SentencePair

pairs = [SentencePair("ja", "yes", Origin("toy", str(n))) for n in range(20)]
lacuna.finetune_model(sys.argv[1], pairs, Path(sys.argv[2]), lacuna.FinetuneSettings(lora=lacuna.LoraSettings()))
"""
    message = without_extras.refusal(program, str(zoo.folder("marian")), str(tmp_path / "new"))
    assert message == 'fine-tuning with LoRA needs the package peft; pip install "lacuna-mt[lora]"'
    assert not list(tmp_path.iterdir())
