"""``--domain`` of every verb that translates: the same results as with the parts of the domain, given one by one."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path

import pytest

from commands import Run
from lacuna.cli import serve
from lacuna.cli.options import ModelOptions
from lacuna.domain import Domain, adapt
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian

PARTS = "--model model --memory domain/memory --combiner domain/combiner"
OPTIONS = "--device cpu --threads 1"
SENTENCE = "Wir.sehen.Hunde."


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = tmp_path_factory.mktemp("world")
    with chdir(world):
        make_marian(Path("model"))
        write_pairs(Path("corpus.tsv"), make_pairs(40))
        write_pairs(Path("dev.tsv"), make_pairs(60, seed=1))
        write_pairs(Path("test.tsv"), make_pairs(5, seed=2))
        Path("in.txt").write_text("Wir sehen drei Hunde.\nWir sehen.\n")
        adapt("corpus.tsv", "domain", dev="dev.tsv", test="test.tsv", model="model", device="cpu")
    return world


@pytest.fixture
def domain(world: Path) -> Domain:
    from lacuna.domain import open_domain

    return open_domain(world / "domain", device="cpu")


def calibration(domain: Domain) -> str:
    return "--calibration domain/calibration" if domain.manifest.calibrated else ""


def test_translate(world: Path, domain: Domain, run: Run) -> None:
    found = run(f"translate in.txt --domain domain {OPTIONS}", world)
    assert found == run(f"translate in.txt {PARTS} {OPTIONS}", world)
    assert found.splitlines() == [one.text for one in domain.translate(["Wir sehen drei Hunde.", "Wir sehen."])]


def test_settings_of_beam_search_stay_free(world: Path, run: Run) -> None:
    beam = f"--beam 2 --length-penalty 0.5 {OPTIONS}"
    found = run(f"translate in.txt --domain domain {beam}", world)
    assert found == run(f"translate in.txt {PARTS} {beam}", world)


def test_explain(world: Path, domain: Domain, run: Run) -> None:
    given = run(f"explain {SENTENCE} --domain domain --json {OPTIONS}", world)
    parts = run(f"explain {SENTENCE} {PARTS} {calibration(domain)} --json {OPTIONS}", world)
    found = json.loads(given)
    assert found == json.loads(parts.replace('"memory": "memory"', '"memory": "domain"'))
    assert (found["confidence"] is not None) == domain.manifest.calibrated


def test_gaps(world: Path, domain: Domain, run: Run) -> None:
    found = run(f"gaps in.txt --domain domain --json {OPTIONS}", world)
    parts = f"gaps in.txt {PARTS} {calibration(domain)} --json {OPTIONS}"
    assert found == run(parts, world)


def test_evaluate(world: Path, domain: Domain, run: Run) -> None:
    found = json.loads(run(f"evaluate test.tsv --domain domain --json {OPTIONS}", world))
    assert [one["name"] for one in found["systems"]] == ["model alone", "domain"]
    assert [one["bleu"] for one in found["systems"]] == pytest.approx([one.bleu for one in domain.manifest.scores])


@pytest.mark.parametrize(("given", "name"), [("domain", "domain"), ("it=domain", "it")])
def test_serve(given: str, name: str, world: Path, domain: Domain) -> None:
    with chdir(world):
        [engine] = serve._open_domains(ModelOptions(device="cpu"), [given], [], fallback=False)
    assert list(engine.memories) == list(engine.combiners) == [name]
    assert engine.resolve_options().combiner == name
    assert bool(engine.calibrations) == domain.manifest.calibrated


def test_adapt_prints_scores_and_decisions(world: Path, domain: Domain, run: Run) -> None:
    command = f"adapt corpus.tsv --dev dev.tsv --test test.tsv --model model --into domain {OPTIONS}"
    text = run(command, world)
    assert "5 test sentences" in text
    assert "domain: done in" in text
    found = json.loads(run(f"{command} --json", world))
    assert found["into"] == "domain"
    assert found["pairs"] == domain.manifest.pairs.model_dump()
