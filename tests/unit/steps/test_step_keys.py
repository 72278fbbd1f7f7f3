"""Keys of steps, most of them computed with version 0.2: results in existing caches are found again.

If a key changes on purpose, say so in the changelog: results of that step are computed again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lacuna.combiners import Vanilla
from lacuna.domain import adapt, work_plan
from lacuna.evaluation.noninferiority import NonInferiority
from lacuna.fitting import FitAdaptive, FitKster, FitVanilla, PruningLoss
from lacuna.fitting.pruning_choice import PruningChoice, PruningTrial
from lacuna.models import Model, load_model
from lacuna.pruning import PRUNERS, Plac, make_pruner
from lacuna.records import Languages
from lacuna.reproduction.experiment import Experiment, as_sentences
from lacuna.reproduction.systems import ExperimentSystems, PlannedSystem
from lacuna.steps import CachedStep, StepCache, cached_steps
from lacuna.steps.handles import RatioChoice, SafeRatio
from lacuna.steps.step_cache import step_key
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian

LOSS = PruningLoss(gain=0.5, loss=0.005, share=0.01, low=0.005, high=0.018, bound=0.017)
DROPS = NonInferiority("BLEU", 1.1, 1.0, -0.4, 1.0), NonInferiority("chrF2", 9.0, 9.0, -0.2, 1.0)
TRIAL = PruningTrial(min_margin=1, ratio=0.3, log_p=-1.0, loss=LOSS, drops=DROPS)
CHOICE = PruningChoice(Plac(1), 0.3, 0.02, 1.0, 0.5, True, Vanilla(), -1.0, 1.1, 200, (TRIAL,), 0)

FITTED: dict[str, list[str]] = {
    "plan": ["5fab23c86d4c9cc3"],
    "store": ["8f57cc21f3e39e6d"],
    "index": ["ecbc270f30c02ff0"],
    "margin": ["90829b1fe2631293"],
    "safe": ["0649e16bd317212c"],
    "prune": ["689e541d9e55c043"],
    "loss": ["f55707acb7aab566"],
    "fit": ["a5dab2ec1d69ee9d"],
    "gate": ["ce107f38a992970b"],
    "calibrate": ["bdce12418226a51a"],
    "translate": ["fc222a4bee190eaa", "83cd11850c6abdcd"],
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
    "index": ["91d00bac9054e7da", "d829f38dd1842ad4"],
    "margin": ["5595939f3ed43d38", "80e19546864dee6c"],
    "mask-plac": ["22bf5164db7a4ada"],
    "mask-random": ["ebcceb08b3ad5108"],
    "mask-known": ["6970a413fcbd24ec"],
    "mask-all_known": ["091cbd0494ab6ac6"],
    "mask-cluster": ["487857598c8832f0"],
    "mask-merge": ["64953d824b2c39af"],
    "prune-distill": ["bdf4592bcef993e1"],
    "mask-reverse": ["44141e77b52fce65"],
    "indexsize": ["7ab165c805bbe29f"],
    "sample": ["552b832a7748c02a"],
    "safe": ["dfea19b8d02eb47c"],
    "finetune-full": ["8adac14442347c93"],
    "finetune-lora": ["c18e9b6e9b1f1219"],
    "run": ["0e90ef2b062efd9e", "4c5c737c8fc1d547", "e022883108067f9e", "3cc76e75fef89337"],
    "translate": ["f85fdf2ef739962e", "369e2909327c57b1", "3415d51be95e87ad", "f0e43c25d2e191ad", "98f7d417c1d8241f"],
    "fit-vanilla": ["7b33564853e6c613", "fd69e23e0bcf10f5"],
    "fit-adaptive": ["d0079b7e1a3181d2"],
    "fit-kster": ["bf7875327ba7f58e"],
    "terms": ["9c5dfb03ae7fe4d4"],
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
    make, make_portable = StepCache.make, StepCache.make_portable

    def record(
        cache: StepCache, name: str, inputs: Mapping[str, Any], work: Callable[[Path], None], *, resumes: bool = False
    ) -> CachedStep:
        step = make(cache, name, inputs, work, resumes=resumes)
        if name != "score":
            recorded.setdefault(name, []).append(step.key)
        return step

    def record_portable(cache: StepCache, name: str, inputs: Mapping[str, Any], compute: Callable[[], Any]) -> object:
        recorded.setdefault(name, []).append(step_key(name, inputs))
        return make_portable(cache, name, inputs, compute)

    monkeypatch.setattr(StepCache, "make", record)
    monkeypatch.setattr(StepCache, "make_portable", record_portable)
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
        assert steps.prune(whole, pruner, None if name == "all_known" else 0.1, 2).entries < whole.entries
    assert steps.index_size(steps.prune(whole, Plac(1), 0.1, 2)).entries < whole.entries
    assert 5 <= steps.sample(whole, 5).entries < whole.entries
    expected = SafeRatio(1, 0.3, 0.02, 1.0, LOSS, DROPS, Vanilla())
    assert steps.choose_ratio(whole, steps.dev) == RatioChoice(expected)
    for method in ("full", "lora"):
        assert systems.finetune(method).path.name == "model"
    fitters = (FitVanilla(), FitAdaptive(k=2, temperature=10.0), FitKster())
    for planned in (PlannedSystem(), *(PlannedSystem(whole, fitter, 2) for fitter in fitters)):
        systems.run(planned, sentences["test"])
    systems.term_accuracy("base", "whole", {"base": PlannedSystem(), "whole": PlannedSystem(whole, fitters[0])})
    assert {name: list(dict.fromkeys(found)) for name, found in keys.items()} == EXPERIMENT


def test_a_choice_without_a_ratio_keeps_its_reason() -> None:
    choice = replace(CHOICE, pruner=None, ratio=0.0, adds=False)
    saved = RatioChoice.of(choice)
    assert saved.safe is None
    assert saved.why == choice.why != ""
    assert RatioChoice.from_json(json.loads(json.dumps(saved.as_json()))) == saved


def test_results_of_another_precision_are_others(model: str) -> None:
    loaded = load_model(model, device="cpu", languages=Languages("de", "en"))
    plain = cached_steps.model_inputs(loaded, 1)
    assert plain == {"model": loaded.fingerprint, "languages": "de-en", "seed": 1}
    assert cached_steps.model_inputs(replace(loaded, precision="bfloat16"), 1) == plain | {"precision": "bfloat16"}
