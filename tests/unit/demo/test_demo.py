"""The demo with a tiny model and made-up sentences: which artifacts a second run reuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lacuna import demo
from lacuna.demo import DemoSettings, run_demo
from lacuna.errors import SettingError
from lacuna.models import Model
from lacuna.reproduction import step_cache
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import Zoo

SMALL = DemoSettings(train=40, dev=12, test=4, min_margin=1)
ARTIFACTS = ("store", "pruned", "adaptive", "adaptive-pruned")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    torch.set_num_threads(1)
    return Zoo(tmp_path_factory.mktemp("zoo"))


@pytest.fixture(scope="module")
def model(zoo: Zoo) -> Model:
    return zoo.model("marian")


@pytest.fixture(autouse=True)
def corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(domain: str, languages: object, into: Path, **rest: Any) -> None:
        into.mkdir(parents=True, exist_ok=True)
        for seed, part in enumerate(("train", "dev", "test")):
            write_pairs(into / f"{part}.tsv", make_pairs(60, seed=seed))

    monkeypatch.setattr(demo, "fetch_domain", fetch)


def states(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The identity of each artifact's manifest: another inode means that it was written again."""
    paths = {name: folder / name / "manifest.json" for name in ARTIFACTS}
    return {name: (path.stat().st_ino, path.read_bytes()) for name, path in paths.items()}


def remade(before: dict[str, tuple[int, bytes]], after: dict[str, tuple[int, bytes]]) -> set[str]:
    return {name for name in ARTIFACTS if before[name] != after[name]}


def test_the_same_demo_reuses_every_artifact(model: Model, tmp_path: Path) -> None:
    first = run_demo(model, tmp_path, SMALL)
    before = states(tmp_path)
    again = run_demo(model, tmp_path, SMALL)
    assert states(tmp_path) == before
    assert [score.as_json() for score in again.scores] == [score.as_json() for score in first.scores]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"test": 3}, set()),
        ({"dev": 9}, {"adaptive", "adaptive-pruned"}),
        ({"min_margin": 2}, {"pruned", "adaptive-pruned"}),
        ({"train": 50}, set(ARTIFACTS)),
    ],
)
def test_changed_settings_make_again_what_depends_on_them(
    changed: dict[str, int], expected: set[str], model: Model, tmp_path: Path
) -> None:
    run_demo(model, tmp_path / "demo", SMALL)
    before = states(tmp_path / "demo")
    mixed = run_demo(model, tmp_path / "demo", replace(SMALL, **changed))  # type: ignore[arg-type]
    assert remade(before, states(tmp_path / "demo")) == expected
    fresh = run_demo(model, tmp_path / "fresh", replace(SMALL, **changed))  # type: ignore[arg-type]
    assert [score.as_json() for score in mixed.scores] == [score.as_json() for score in fresh.scores]
    assert mixed.pruned_entries == fresh.pruned_entries


def test_another_version_of_a_step_makes_its_artifacts_again(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_demo(model, tmp_path, SMALL)
    before = states(tmp_path)
    versions = {**step_cache.STEP_VERSIONS, "fit": step_cache.STEP_VERSIONS["fit"] + 1}
    monkeypatch.setattr(step_cache, "STEP_VERSIONS", versions)
    run_demo(model, tmp_path, SMALL)
    assert remade(before, states(tmp_path)) == {"adaptive", "adaptive-pruned"}


def test_artifacts_without_a_record_are_refused_and_kept(model: Model, tmp_path: Path) -> None:
    run_demo(model, tmp_path, SMALL)
    before = states(tmp_path)
    (tmp_path / "demo.json").unlink()  # as in a folder of an earlier version
    with pytest.raises(SettingError, match="does not say how it was made; remove"):
        run_demo(model, tmp_path, SMALL)
    assert states(tmp_path) == before
