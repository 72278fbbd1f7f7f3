"""Keys of steps, most of them computed with version 0.2: results in existing caches are found again.

If a key changes on purpose, say so in the changelog: results of that step are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lacuna.combiners import Vanilla
from lacuna.domain import adapt, work_plan
from lacuna.fitting import FitAdaptive, FitKster, FitVanilla
from lacuna.fitting.pruning_choice import PruningChoice, PruningTrial
from lacuna.models import Model, load_model
from lacuna.pruning import PRUNERS, Plac, make_pruner
from lacuna.records import Languages
from lacuna.reproduction.experiment import Experiment, as_sentences
from lacuna.reproduction.systems import ExperimentSystems, PlannedSystem
from lacuna.steps import CachedStep, StepCache, cached_steps
from lacuna.steps.handles import SafeRatio
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian

TRIAL = PruningTrial(min_margin=1, ratio=0.3, log_p=-1.0, p_log_p=0.5, bleu=1.0, p_bleu=0.5)
CHOICE = PruningChoice(Plac(1), 0.3, Vanilla(), -1.0, 1.1, (TRIAL,), 0)

FITTED: dict[str, list[str]] = {
    "plan": ["5fab23c86d4c9cc3"],
    "store": ["8f57cc21f3e39e6d"],
    "index": ["ecbc270f30c02ff0"],
    "margin": ["90829b1fe2631293"],
    "safe": ["55efedca4e59c33a"],
    "prune": ["ee5d5de849e77d41"],
    "fit": ["42099ac37589222e"],
    "gate": ["18ea11a1a4847a36"],
    "calibrate": ["3af11d50f4d98113"],
    "translate": ["fc222a4bee190eaa", "e4bb5f0492af6abc"],
}
SAFE: dict[str, list[str]] = {
    "plan": ["e075e3171c3e2e1e"],
    "store": ["f62ba992985659a7"],
    "index": ["7935ff9a189368be"],
    "margin": ["5156a823e3909a39"],
    "fit": ["10d516eff0384f38"],
    "translate": ["cae02d4db0c0c5ce", "f5980882e26adb90"],
}
EXPERIMENT: dict[str, list[str]] = {
    "store": ["ec5bfa1da15b527b"],
    "index": ["91d00bac9054e7da"],
    "margin": ["5595939f3ed43d38"],
    "prune-plac": ["a30b2f01a2ebdfff"],
    "prune-random": ["27b658a7de2b811f"],
    "prune-known": ["0e60e41dd7ebca27"],
    "prune-all_known": ["3bdca67eec4ac7a8"],
    "prune-cluster": ["30ac3a1401ea5310"],
    "prune-merge": ["af9d396d5535dfce"],
    "prune-reverse": ["e77a8f49d36bd86f"],
    "safe": ["522882b955e2ad8b"],
    "finetune-full": ["8adac14442347c93"],
    "finetune-lora": ["c18e9b6e9b1f1219"],
    "translate": ["f85fdf2ef739962e", "52ced3ae32c71032", "989ecb6400b65ed2", "8890a09a0def2d2b"],
    "fit-vanilla": ["dc3fb75744efeaf9"],
    "fit-adaptive": ["d1964613d21b5139"],
    "fit-kster": ["8387adad5f67403e"],
    "compare": ["60b9862adef8b64d"],
    "terms": ["bc8b5983da589993"],
    "score": ["c44756a33c1505ad"],
}


class NoReport:
    def as_json(self) -> dict[str, object]:
        return {}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model whose fingerprint does not depend on the random generator of a version of PyTorch."""
    torch.set_num_threads(1)
    make_marian(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Model, "fingerprint", "f" * 64)
    monkeypatch.setattr(cached_steps, "choose_pruning", lambda *_, **__: CHOICE)
    return "model"


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The keys of all steps, by name. Keys of scores depend on the translations, so they are not recorded."""
    recorded: dict[str, list[str]] = {}
    make = StepCache.make

    def record(
        cache: StepCache, name: str, inputs: Mapping[str, Any], work: Callable[[Path], None], *, resumes: bool = False
    ) -> CachedStep:
        step = make(cache, name, inputs, work, resumes=resumes)
        if name != "score":
            recorded.setdefault(name, []).append(step.key)
        return step

    monkeypatch.setattr(StepCache, "make", record)
    return recorded


def write_parts(folder: Path, train: int) -> None:
    for name, count, seed in (("corpus", train, 0), ("dev", 60, 1), ("test", 3, 2)):
        write_pairs(folder / f"{name}.tsv", make_pairs(count, seed=seed))


def test_an_adaptation_with_every_step(
    model: str, keys: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_plan, "_MIN_PRUNED", 0)
    monkeypatch.setattr(work_plan, "_MIN_GATED", 0)
    write_parts(tmp_path, 60)
    adapt("corpus.tsv", "new", dev="dev.tsv", test="test.tsv", model=model, seed=3, device="cpu")
    assert keys == FITTED


def test_an_adaptation_with_safe_settings(model: str, keys: dict[str, list[str]], tmp_path: Path) -> None:
    write_parts(tmp_path, 5)
    languages = Languages("de", "en")
    adapt("corpus.tsv", "new", test="test.tsv", model=model, languages=languages, budget=10, device="cpu")
    assert keys == SAFE


def test_an_experiment(model: str, keys: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_steps, "finetune_model", lambda *_, **__: NoReport())
    experiment = Experiment.model_validate(
        {
            "title": "Made up",
            "languages": "de-en",
            "corpus": {"train": "train", "dev": "dev", "test": "test"},
            "margin": {"max_margin": 8},
            "finetune": {"methods": ["full", "lora"], "hours": 1, "learning_rates": {"full": 0.001}},
        }
    )
    sentences = {
        part: as_sentences(make_pairs(count, seed))
        for seed, (part, count) in enumerate({"train": 40, "dev": 8, "test": 3}.items())
    }
    loaded = load_model(model, device="cpu", languages=Languages("de", "en"), mask_placeholders=False)
    systems = ExperimentSystems(experiment, loaded, sentences, StepCache(tmp_path / "steps"))
    steps = systems.steps
    whole = steps.build()
    for name in PRUNERS:
        pruner = make_pruner(name, **({"min_margin": 1} if name in ("plac", "reverse") else {}))
        steps.prune(whole, pruner, None if name == "all_known" else 0.1, 2)
    assert steps.choose_ratio(whole, steps.dev) == SafeRatio(1, 0.3, 1.1, 1.0, 0.5)
    for method in ("full", "lora"):
        systems.finetune(method)
    fitters = (FitVanilla(), FitAdaptive(k=2, temperature=10.0), FitKster())
    for planned in (PlannedSystem(), *(PlannedSystem(whole, fitter, 2) for fitter in fitters)):
        systems.translate("any", planned, sentences["test"])
    systems.compare_runs({"one": [["a"] * 3], "other": [["b"] * 3]}, sentences["test"])
    systems.term_accuracy("one", "other", {"one": ["a"] * 3, "other": ["b"] * 3}, sentences["test"])
    systems.score({"one": ["a"] * 3, "other": ["b"] * 3}, sentences["test"])
    assert keys | {"score": [step.key for step in steps.cache.steps if step.name == "score"]} == EXPERIMENT


def test_a_ratio_saved_by_an_adaptation_with_version_0_2() -> None:
    trial = {"min_margin": 4, "ratio": 0.3, "log_p": -1.0, "p_log_p": 0.5, "bleu": 20.5, "p_bleu": 0.25}
    assert SafeRatio.from_json({"ratio": 0.3, "bleu": 21.0, "trial": trial}) == SafeRatio(4, 0.3, 21.0, 20.5, 0.25)
    assert SafeRatio.from_json({"ratio": 0.0, "bleu": 21.0, "trial": None}) is None
    assert SafeRatio.from_json(None) is None


def test_results_of_another_precision_are_others(model: str) -> None:
    loaded = load_model(model, device="cpu", languages=Languages("de", "en"))
    plain = cached_steps.model_inputs(loaded, 1)
    assert plain == {"model": loaded.fingerprint, "languages": "de-en", "seed": 1}
    assert cached_steps.model_inputs(replace(loaded, precision="bfloat16"), 1) == plain | {"precision": "bfloat16"}
