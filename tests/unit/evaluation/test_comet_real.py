"""COMET with a tiny model: needs no network, but the environment of ``make comet``."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from lacuna.errors import EvaluationError
from lacuna.evaluation import CometScorer, evaluate_systems
from lacuna.evaluation.comet import find_python

pytestmark = pytest.mark.comet

SOURCES = ["Wir sehen drei Hunde und einen Baum.", "Er hat ein Buch.", "Sie kommt."]
REFERENCES = ["We see three dogs and a tree.", "He has a book.", "She comes."]
SYSTEMS = {"one": ["We see dogs and a tree.", "He has a book.", ""], "two": REFERENCES}
SCRIPT = Path(__file__).with_name("tiny_comet.py")


def run_script(*arguments: object) -> None:
    command = [str(find_python(None)), "-I", str(SCRIPT), *map(str, arguments)]
    trusting = {**os.environ, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}  # it loads only what it made itself
    subprocess.run(command, check=True, capture_output=True, env=trusting)


@pytest.fixture(scope="module")
def comet_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    run_script("make", folder)
    return folder


def test_scores_are_those_of_the_model_asked_one_by_one(comet_folder: Path, tmp_path: Path) -> None:
    samples = [
        {"src": source, "mt": line, "ref": reference}
        for lines in SYSTEMS.values()
        for source, line, reference in zip(SOURCES, lines, REFERENCES, strict=True)
    ]
    (tmp_path / "request.json").write_text(json.dumps(samples))
    run_script("score", comet_folder, tmp_path / "request.json", tmp_path / "answer.json")
    direct = json.loads((tmp_path / "answer.json").read_text())

    scorer = CometScorer(str(comet_folder), device="cpu", threads=1)
    found = scorer.score(SOURCES, REFERENCES, list(SYSTEMS.values()))
    assert found.values.ravel().tolist() == pytest.approx(direct, abs=1e-5)  # whatever shares a batch
    assert len({round(score, 3) for score in direct}) > 3  # the model does tell them apart
    assert "|comet:2." in found.signature


def test_a_whole_evaluation(comet_folder: Path) -> None:
    scorer = CometScorer(str(comet_folder), device="cpu", threads=1)
    one, two = evaluate_systems(REFERENCES, SYSTEMS, comet=scorer, sources=SOURCES, samples=50)
    assert one.comet is not None
    assert two.comet is not None
    assert one.comet.value != two.comet.value
    assert two.comet_p_value is not None


def test_code_in_a_checkpoint_does_not_run(comet_folder: Path, tmp_path: Path) -> None:
    spoiled, trace = tmp_path / "spoiled", tmp_path / "trace"
    run_script("spoil", comet_folder, spoiled, trace)
    with pytest.raises(EvaluationError, match=r"holds code .*only if you trust it"):
        CometScorer(str(spoiled), device="cpu", threads=1).score(SOURCES, REFERENCES, [REFERENCES])
    assert not trace.exists()
