"""Cached steps: run once, run again only if inputs or version change, and after an interruption."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.steps import step_cache
from lacuna.steps.step_cache import STEP_VERSIONS, StepCache, step_key

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5)


class KilledError(Exception):
    """Stands for a kill."""


def write(text: str, log: list[str]) -> object:
    def work(folder: Path) -> None:
        log.append(text)
        (folder / "result").write_text(text)

    return work


def chain(folder: Path, first: int, second: int) -> list[str]:
    """Run two steps, the second of which depends on the first; return those that ran."""
    log: list[str] = []
    cache = StepCache(folder)
    one = cache.make("store", {"number": first}, write(f"store {first}", log))  # type: ignore[arg-type]
    two = cache.make("index", {"one": one.key, "number": second}, write(f"index {second}", log))  # type: ignore[arg-type]
    assert (one.folder / "result").read_text() == f"store {first}"
    assert (two.folder / "result").read_text() == f"index {second}"
    assert cache.made == [line.split()[0] for line in log]
    return log


def test_a_changed_setting_repeats_only_what_depends_on_it(tmp_path: Path) -> None:
    assert chain(tmp_path, 1, 1) == ["store 1", "index 1"]
    assert chain(tmp_path, 1, 1) == []
    assert chain(tmp_path, 1, 2) == ["index 2"]
    assert chain(tmp_path, 2, 2) == ["store 2", "index 2"]
    assert chain(tmp_path, 1, 1) == []  # the results of the old settings are still there


@pytest.mark.parametrize("name", ["done.json", "result"])
@pytest.mark.parametrize("damaged", ["", "{", "{}", "[]", "other"])
def test_a_step_with_damaged_results_runs_again(tmp_path: Path, name: str, damaged: str) -> None:
    chain(tmp_path, 1, 1)
    [path] = tmp_path.glob(f"index-*/{name}")
    path.write_text(damaged)
    assert chain(tmp_path, 1, 1) == ["index 1"]
    assert chain(tmp_path, 1, 1) == []


def test_results_of_earlier_versions_have_no_hashes(tmp_path: Path) -> None:
    chain(tmp_path, 1, 1)
    for path in tmp_path.glob("*/done.json"):
        path.write_text(json.dumps({"inputs": {}, "seconds": 1.5}))
    assert chain(tmp_path, 1, 1) == []


@pytest.mark.parametrize("resumes", [True, False])
def test_an_interrupted_step_runs_again(tmp_path: Path, resumes: bool) -> None:
    def breaks(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise KilledError

    with pytest.raises(KilledError):
        StepCache(tmp_path).make("store", {}, breaks, resumes=resumes)
    seen: list[bool] = []
    step = StepCache(tmp_path).make(
        "store", {}, lambda folder: seen.append((folder / "half").exists()), resumes=resumes
    )
    assert seen == [resumes]
    StepCache(tmp_path).make("store", {}, breaks, resumes=resumes)  # cached, so not called
    assert step.seconds >= 0


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3), st.dictionaries(st.text(max_size=3), JSON, max_size=3))
def test_keys_are_equal_where_inputs_are(one: dict[str, object], other: dict[str, object]) -> None:
    turned = dict(reversed(one.items()))
    assert step_key("store", one) == step_key("store", turned)
    # 1 and True are equal to Python but not in JSON
    assert (step_key("store", one) == step_key("store", other)) == (
        repr(sorted(one.items())) == repr(sorted(other.items()))
    )
    assert step_key("store", one) != step_key("index", one)


def test_a_new_step_version_repeats_that_step_and_what_depends_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chain(tmp_path, 1, 1) == ["store 1", "index 1"]
    monkeypatch.setattr(step_cache, "STEP_VERSIONS", {**STEP_VERSIONS, "index": STEP_VERSIONS["index"] + 1})
    assert chain(tmp_path, 1, 1) == ["index 1"]
    monkeypatch.setattr(step_cache, "STEP_VERSIONS", {**STEP_VERSIONS, "store": STEP_VERSIONS["store"] + 1})
    assert chain(tmp_path, 1, 1) == ["store 1", "index 1"]


def test_variants_of_a_step_share_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: step_key(name, {}) for name in ("prune-plac", "prune-random", "fit-vanilla")}
    monkeypatch.setattr(step_cache, "STEP_VERSIONS", {**STEP_VERSIONS, "prune": STEP_VERSIONS["prune"] + 1})
    changed = {name: step_key(name, {}) != key for name, key in before.items()}
    assert changed == {"prune-plac": True, "prune-random": True, "fit-vanilla": False}


def test_a_step_must_declare_its_version(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="unheard"):
        StepCache(tmp_path).make("unheard", {}, lambda folder: None)
