"""The demo with a tiny model and made-up sentences: which artifacts a second run reuses."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lacuna import demo, step_cache
from lacuna.demo import DemoSettings, run_demo
from lacuna.errors import SettingError
from lacuna.models import Model
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


def fetch(domain: str, languages: object, into: Path, **rest: Any) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for seed, part in enumerate(("train", "dev", "test")):
        write_pairs(into / f"{part}.tsv", make_pairs(60, seed=seed))


@pytest.fixture(autouse=True)
def corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "fetch_domain", fetch)


@pytest.fixture(scope="module")
def finished(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "fetch_domain", fetch)
        run_demo(model, folder, SMALL)
    shutil.copytree(folder, folder.with_name("copy"))
    return folder


@pytest.fixture
def folder(finished: Path) -> Path:
    """A demo that ran with SMALL, restored at its path for each test."""
    shutil.rmtree(finished)
    return shutil.copytree(finished.with_name("copy"), finished)


def states(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The manifest of each artifact and when it was written; an inode would not do, the file system reuses them."""
    paths = {name: folder / name / "manifest.json" for name in ARTIFACTS}
    return {name: (path.stat().st_mtime_ns, path.read_bytes()) for name, path in paths.items()}


def remade(before: dict[str, tuple[int, bytes]], after: dict[str, tuple[int, bytes]]) -> set[str]:
    return {name for name in ARTIFACTS if before[name] != after[name]}


def test_the_same_demo_reuses_every_artifact(model: Model, folder: Path) -> None:
    before = states(folder)
    scores = json.loads((folder / "report.json").read_text())["scores"]
    again = run_demo(model, folder, SMALL)
    assert states(folder) == before
    assert [score.as_json() for score in again.scores] == scores


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
    changed: dict[str, int], expected: set[str], model: Model, folder: Path
) -> None:
    before = states(folder)
    run_demo(model, folder, replace(SMALL, **changed))  # type: ignore[arg-type]
    assert remade(before, states(folder)) == expected


def test_a_reused_folder_gives_the_results_of_a_new_one(model: Model, folder: Path, tmp_path: Path) -> None:
    changed = replace(SMALL, dev=9, min_margin=2)
    reused, new = run_demo(model, folder, changed), run_demo(model, tmp_path / "new", changed)
    assert [score.as_json() for score in reused.scores] == [score.as_json() for score in new.scores]
    assert reused.pruned_entries == new.pruned_entries


def test_a_moved_folder_is_made_again(model: Model, folder: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(folder, tmp_path / "moved")  # origins in its store name the other path
    before = states(moved)
    run_demo(model, moved, SMALL)
    assert remade(before, states(moved)) == set(ARTIFACTS)


def test_another_version_of_a_step_makes_its_artifacts_again(
    model: Model, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = states(folder)
    versions = {**step_cache.STEP_VERSIONS, "fit": step_cache.STEP_VERSIONS["fit"] + 1}
    monkeypatch.setattr(step_cache, "STEP_VERSIONS", versions)
    run_demo(model, folder, SMALL)
    assert remade(before, states(folder)) == {"adaptive", "adaptive-pruned"}


def test_artifacts_without_a_record_are_refused_and_kept(model: Model, folder: Path) -> None:
    before = states(folder)
    (folder / "demo.json").unlink()  # as in a folder of an earlier version
    with pytest.raises(SettingError, match="does not say how it was made; remove"):
        run_demo(model, folder, SMALL)
    assert states(folder) == before


def test_a_damaged_record_is_one_line(model: Model, folder: Path) -> None:
    (folder / "demo.json").write_text("{")
    with pytest.raises(SettingError, match="not JSON") as caught:
        run_demo(model, folder, SMALL)
    assert "\n" not in str(caught.value)
