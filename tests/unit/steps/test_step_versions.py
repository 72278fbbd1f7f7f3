"""Reminder: a step whose results change for the same inputs needs a new number in ``STEP_VERSIONS``.

If a test here fails and the new results are intended, increase the version of the step and record the new results.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import lacuna.domain
import lacuna.reproduction
import lacuna.steps
from lacuna.combiners.storage import CombinerManifest
from lacuna.datastore.manifest import Manifest
from lacuna.evaluation import evaluate_systems
from lacuna.index.manifest import IndexManifest
from lacuna.margin.storage import MarginManifest
from lacuna.pruning import PRUNERS, make_pruner
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
    assert found == {"store": (2, 1), "index": (1, 1), "margin": (1, 1), "fit": (1, 1)}


@pytest.mark.parametrize("method", PRUNERS)
def test_version_1_of_prune_drops_these_entries(method: str) -> None:
    assert STEP_VERSIONS["prune"] == 1
    ratio = None if method == "all_known" else 0.2
    keep = make_pruner(method).prune(entries(), ratio=ratio, seed=3, clamp=True).keep
    assert np.flatnonzero(~keep).tolist() == DROPPED[method]


def test_version_1_of_score_gives_these_numbers() -> None:
    assert STEP_VERSIONS["score"] == 1
    references = ["the cat sat on the mat", "we see three dogs and two books", "one apple"]
    systems = {"first": ["the cat on the mat", "we see three dogs", "one apple"], "second": references}
    scores = [score.as_json() for score in evaluate_systems(references, systems)]
    # 11 of 15 words; of the n-grams of 1 to 4 words match 11 of 11, 7 of 8, 3 of 5 and 1 of 3.
    assert scores[0]["bleu"] == pytest.approx(100 * np.exp(1 - 15 / 11) * (7 / 8 * 3 / 5 * 1 / 3) ** 0.25)
    assert scores[1]["bleu"] == pytest.approx(100)
