"""Communication with the Python of COMET, with a script in place of the real worker."""

import io
import json
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lacuna.errors import EvaluationError, MissingExtra, SettingError
from lacuna.evaluation import CometScorer
from lacuna.evaluation.comet import find_checkpoint, find_python
from lacuna.evaluation.comet_worker import placement, predict
from lacuna.progress import Silent

pytestmark = pytest.mark.posix

SOURCES, REFERENCES = ["eins", "zwei", "drei"], ["one", "two", "three"]
SYSTEMS = [["one", "too", "tree"], ["one", "two", "tree"]]
LENGTHS = """
scores = [len(s["mt"]) - len(s["ref"]) + len(s["src"]) / 100 for s in request["samples"]]
print("noise on stdout", file=sys.stdout)
print("noise on stderr", file=sys.stderr)
for done in range(1, len(scores) + 1):
    print(done)
answer.write_text(json.dumps({"comet": "9.9", "scores": scores}))
"""


class Counting(Silent):
    """Progress that remembers."""

    def __init__(self) -> None:
        self.total, self.done, self.pieces = 0.0, 0.0, 0

    def start(self, what: str, total: float | None = None, unit: str = "") -> None:
        self.total, self.pieces = total or 0.0, self.pieces + 1

    def advance(self, amount: float = 1.0, note: str = "") -> None:
        self.done += amount


def fake_python(folder: Path, body: str) -> Path:
    """Write a program that takes the arguments of a Python; ``body`` has ``request``, ``answer`` and ``folder``."""
    program = folder / "python"
    opening = (
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "from pathlib import Path\n"
        f"folder = Path({str(folder)!r})\n"
        "assert sys.argv[1] == '-I' and sys.argv[2].endswith('comet_worker.py')\n"
        "request, answer = json.loads(Path(sys.argv[3]).read_text()), Path(sys.argv[4])\n"
        "(folder / 'seen.json').write_text(json.dumps({**request, 'env': dict(os.environ), 'at': sys.argv[3]}))\n"
    )
    program.write_text(opening + body)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def seen(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "seen.json").read_text()))


def make_checkpoint(folder: Path) -> Path:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "hparams.yaml").touch()
    checkpoint = folder / "checkpoints" / "model.ckpt"
    checkpoint.touch()
    return checkpoint


def test_scores_come_back_in_place_and_equal_segments_are_sent_once(tmp_path: Path) -> None:
    progress = Counting()
    scorer = CometScorer("wmt22-comet-da", python=fake_python(tmp_path, LENGTHS), device="cpu", threads=3)
    found = scorer.score(SOURCES, REFERENCES, SYSTEMS, progress=progress)
    assert found.values == pytest.approx(np.array([[0.04, 0.04, -0.96], [0.04, 0.04, -0.96]]))
    assert found.signature == "nrefs:1|model:Unbabel/wmt22-comet-da|comet:9.9|precision:32|batch:independent"
    request = seen(tmp_path)
    assert [sample["mt"] for sample in request["samples"]] == ["one", "too", "tree", "two"]
    assert (request["device"], request["threads"], request["checkpoint"]) == ("cpu", 3, None)
    assert not Path(request["at"]).parent.exists()
    assert (progress.pieces, progress.total, progress.done) == (1, 4, 4)


def test_its_noise_is_kept_from_us(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    CometScorer("any/model", python=fake_python(tmp_path, LENGTHS)).score(SOURCES, REFERENCES, SYSTEMS)
    assert capfd.readouterr() == ("", "")


def test_torch_is_told_to_run_no_code_unless_the_user_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", raising=False)
    scorer = CometScorer("any/model", python=fake_python(tmp_path, LENGTHS))
    scorer.score(SOURCES, REFERENCES, SYSTEMS)
    assert seen(tmp_path)["env"]["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] == "1"
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    scorer.score(SOURCES, REFERENCES, SYSTEMS)
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in seen(tmp_path)["env"]  # torch refuses both


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("sys.exit('first\\nthe last line\\n\\n')", "COMET any/model: the last line"),
        ("raise ValueError('a traceback')", "ValueError: a traceback"),
        ("os._exit(7)", "ended with status 7"),
        ("os.kill(os.getpid(), 9)", "ended with status -9"),
        ("", "no usable answer"),
        ("answer.write_text('no JSON')", "no usable answer"),
        ("answer.write_text('[1, 2]')", "no usable answer"),
        ("answer.write_text('{\"scores\": [1, 2, 3, 4]}')", "no usable answer"),
        ('answer.write_text(\'{"comet": "1", "scores": [1, 2, 3]}\')', "got 3 scores for 4 segments"),
        ('answer.write_text(\'{"comet": "1", "scores": [1, 2, 3, NaN]}\')', "not finite"),
    ],
)
def test_failures_are_told_in_one_line(tmp_path: Path, body: str, says: str) -> None:
    scorer = CometScorer("any/model", python=fake_python(tmp_path, body))
    with pytest.raises(EvaluationError) as caught:
        scorer.score(SOURCES, REFERENCES, SYSTEMS)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_breaking_off_ends_the_worker(tmp_path: Path) -> None:
    class Breaking(Silent):
        def advance(self, amount: float = 1.0, note: str = "") -> None:
            raise KeyboardInterrupt

    body = "print(1, flush=True)\nimport time\ntime.sleep(60)\n(folder / 'went-on').touch()"
    with pytest.raises(KeyboardInterrupt):
        CometScorer("any/model", python=fake_python(tmp_path, body)).score(
            SOURCES, REFERENCES, SYSTEMS, progress=Breaking()
        )
    assert not (tmp_path / "went-on").exists()
    assert not Path(seen(tmp_path)["at"]).exists()


def test_the_python_is_found_by_name_then_variable_then_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LACUNA_COMET_PYTHON", raising=False)
    with pytest.raises(MissingExtra, match="make comet"):
        find_python(None)
    for name in ("named", "variable", ".venv-comet/bin"):
        Path(name).mkdir(parents=True)
        fake_python(Path(name), "")
    assert find_python(None) == tmp_path / ".venv-comet" / "bin" / "python"
    monkeypatch.setenv("LACUNA_COMET_PYTHON", "variable/python")
    assert find_python(None) == tmp_path / "variable" / "python"
    assert find_python("named/python") == tmp_path / "named" / "python"
    with pytest.raises(SettingError, match="none/python: no such program"):
        find_python("none/python")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    # A virtual environment's python is a link to the system's, which would not find COMET.
    (tmp_path / "python").symlink_to(sys.executable)
    assert find_python(tmp_path / "python") == tmp_path / "python"


def test_a_program_that_does_not_run_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_bytes(b"\x00\x01")
    program.chmod(0o700)
    with pytest.raises(SettingError, match="does not run"):
        CometScorer("any/model", python=program).score(SOURCES, REFERENCES, SYSTEMS)


def test_names_without_a_publisher_are_unbabels(tmp_path: Path) -> None:
    python = fake_python(tmp_path, "")
    assert CometScorer("wmt20-comet-da", python=python).model == "Unbabel/wmt20-comet-da"
    assert CometScorer("Unbabel/wmt20-comet-da", python=python).model == "Unbabel/wmt20-comet-da"


def test_a_checkpoint_on_disk_is_taken_by_file_or_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint = make_checkpoint(tmp_path / "model")
    assert find_checkpoint("model") == checkpoint
    assert find_checkpoint("model/checkpoints/model.ckpt") == checkpoint
    assert find_checkpoint("wmt22-comet-da") is None
    scorer = CometScorer("model", python=fake_python(tmp_path, LENGTHS))
    scorer.score(SOURCES, REFERENCES, SYSTEMS)
    assert scorer.model == "model"
    assert seen(tmp_path)["checkpoint"] == str(checkpoint)


@pytest.mark.parametrize("name", ["./none", "/none/at/all", "none.ckpt", "a/b/c", "~/none"])
def test_a_path_to_nothing_is_not_sought_on_the_hub(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError, match="no such file or folder"):
        find_checkpoint(name)


@pytest.mark.parametrize("lost", ["hparams.yaml", "checkpoints/model.ckpt"])
def test_a_folder_that_is_no_model_is_refused(lost: str, tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "model")
    (tmp_path / "model" / lost).unlink()
    with pytest.raises(SettingError, match=lost):
        find_checkpoint(str(tmp_path / "model"))


def test_the_worker_keeps_scores_in_their_places_and_counts_them() -> None:
    asked: list[int] = []

    def answer(samples: list[dict[str, str]], **settings: object) -> SimpleNamespace:
        asked.append(len(samples))
        return SimpleNamespace(scores=[float(sample["mt"]) for sample in samples])

    rng = np.random.default_rng(1)
    samples = [{"src": "s" * int(length), "mt": str(n)} for n, length in enumerate(rng.integers(1, 9, 150))]
    said = io.StringIO()
    assert predict(SimpleNamespace(predict=answer), samples, {"gpus": 0}, said) == list(range(150))
    assert asked == [64, 64, 22]
    assert said.getvalue() == "64\n128\n150\n"


@pytest.mark.parametrize(
    ("device", "has_cuda", "where"),
    [
        ("cpu", True, {"gpus": 0}),
        ("auto", False, {"gpus": 0}),
        ("auto", True, {"gpus": 1, "devices": [0], "accelerator": "cuda"}),
        ("cuda:1", True, {"gpus": 1, "devices": [1], "accelerator": "cuda"}),
        ("mps", False, {"gpus": 1, "devices": [0], "accelerator": "mps"}),
    ],
)
def test_devices_in_the_words_of_comet(device: str, has_cuda: bool, where: dict[str, object]) -> None:
    assert placement(device, has_cuda) == where
