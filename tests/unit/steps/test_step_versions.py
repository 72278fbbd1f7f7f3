"""Reminder: a step whose results change for the same inputs needs a new number in ``STEP_VERSIONS``.

If a test here fails and the new results are intended, increase the version of the step and record the new results.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import lacuna.domain
import lacuna.reproduction
import lacuna.steps
from lacuna.combiners.storage import CombinerManifest
from lacuna.datastore.manifest import Manifest
from lacuna.evaluation import evaluate_systems
from lacuna.fitting import adaptive, calibration, gate, kster, pruning_choice, regression, vanilla
from lacuna.fitting.objective import FitRecipe
from lacuna.index.manifest import IndexManifest
from lacuna.margin.storage import MarginManifest
from lacuna.pruning import PRUNERS, make_pruner
from lacuna.steps import combiner_choice
from lacuna.steps.step_cache import STEP_VERSIONS
from unit.pruning.tables import Table

# Entries dropped by version 1 of the step "prune", by method: of 30 entries, with ratio 0.2 and seed 3.
DROPPED: dict[str, list[int]] = {
    "plac": [4, 5, 7, 16, 22, 26],
    "random": [2, 4, 5, 6, 20, 24],
    "known": [2, 5, 7, 19, 25, 28],
    "all_known": [1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26, 28, 29],
    "cluster": [5, 14, 19, 21, 22, 24],
    "merge": [1, 7, 22, 23, 28, 29],
    "distill": [1, 10, 13, 16, 25, 28],
    "reverse": [0, 1, 12, 18, 23, 29],
}

# Of the steps that fit or choose something: the modules whose constants decide the result, the version, and the hash of
# these constants.
SETTINGS: dict[str, tuple[tuple[ModuleType, ...], int, str]] = {
    "fit": ((adaptive, vanilla, kster, combiner_choice), 2, "8c25a469bd8f63c2"),
    "gate": ((gate,), 2, "728886e3d43d1cd1"),
    "calibrate": ((calibration, regression), 1, "6ae121fb7c363d7a"),
    "safe": ((pruning_choice, vanilla), 4, "e20166b85be7cc5b"),
}


def entries() -> Table:
    """A table of 30 entries made by formulas, without a random generator."""
    rows = np.arange(30)
    return Table(
        known=rows % 3 > 0,
        margin=(rows * 7 % 40).astype(np.uint16),
        values=(rows * rows % 3).astype(np.int32),
        log_p_gold=-(rows % 11 / 4).astype(np.float32),
        sentence=(rows // 10).astype(np.int32),
        position=(rows % 10).astype(np.int32),
        near=(rows[:, None] + np.array([1, 7, 2, 11, 3])) % 30,
    )


def test_every_step_in_the_code_has_a_version() -> None:
    packages = (lacuna.steps, lacuna.reproduction, lacuna.domain)
    source = "".join(path.read_text() for package in packages for path in Path(package.__path__[0]).glob("*.py"))
    made = re.findall(r'(?:cache\.make(?:_json|_portable)?\(\s*|\bname = (?=f"[a-z]+-))f?"([a-z]+)', source)
    assert set(made) == set(STEP_VERSIONS)


def test_a_version_stands_for_one_artifact_format() -> None:
    manifests = {"store": Manifest, "index": IndexManifest, "margin": MarginManifest, "fit": CombinerManifest}
    found = {name: (STEP_VERSIONS[name], kind.model_fields["format"].default) for name, kind in manifests.items()}
    assert found == {"store": (2, 1), "index": (1, 1), "margin": (1, 1), "fit": (2, 1)}


@pytest.mark.parametrize("method", PRUNERS)
def test_version_1_of_prune_drops_these_entries(method: str) -> None:
    assert STEP_VERSIONS["prune"] == 1
    ratio = None if method == "all_known" else 0.2
    keep = make_pruner(method).prune(entries(), ratio=ratio, seed=3, clamp=True).keep
    assert np.flatnonzero(~keep).tolist() == DROPPED[method]


def settings_in(*modules: ModuleType) -> str:
    """Hash the constants of modules, except those that bound memory, which change no result."""
    found = {
        f"{module.__name__}.{name}": repr(value)
        for module in modules
        for name, value in vars(module).items()
        if re.fullmatch("_?[A-Z][A-Z_]*", name)
        and not name.endswith(("_AT_ONCE", "_BLOCK"))
        and isinstance(value, int | float | tuple | FitRecipe)
    }
    assert found
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize("step", SETTINGS)
def test_a_version_stands_for_one_set_of_grids_and_recipes(step: str) -> None:
    modules, version, settings = SETTINGS[step]
    assert (STEP_VERSIONS[step], settings_in(*modules)) == (version, settings)


def test_a_changed_grid_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = settings_in(vanilla, adaptive)
    with monkeypatch.context() as changed:
        changed.setattr(vanilla, "KS", (*vanilla.KS, 1024))
        assert settings_in(vanilla, adaptive) != before
    with monkeypatch.context() as changed:
        changed.setattr(adaptive, "RECIPE", replace(adaptive.RECIPE, updates=401))
        assert settings_in(vanilla, adaptive) != before
    assert settings_in(vanilla, adaptive) == before


def test_version_1_of_score_gives_these_numbers() -> None:
    assert STEP_VERSIONS["score"] == 1
    references = ["the cat sat on the mat", "we see three dogs and two books", "one apple"]
    systems = {"first": ["the cat on the mat", "we see three dogs", "one apple"], "second": references}
    scores = [score.as_json() for score in evaluate_systems(references, systems)]
    # 11 of 15 words; of the n-grams of 1 to 4 words match 11 of 11, 7 of 8, 3 of 5 and 1 of 3.
    assert scores[0]["bleu"] == pytest.approx(100 * np.exp(1 - 15 / 11) * (7 / 8 * 3 / 5 * 1 / 3) ** 0.25)
    assert scores[1]["bleu"] == pytest.approx(100)
