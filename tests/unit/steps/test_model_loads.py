"""An adaptation and an experiment load their model once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from lacuna.domain import adapt
from lacuna.models import Model, load_model
from lacuna.reproduction import Experiment, reproduce
from made_up import make_pairs, write_pairs
from unit.models.tiny_models import make_marian


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Paths of the models that are loaded, by whichever module."""
    torch.set_num_threads(1)
    make_marian(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    for name, count, seed in (("train", 60, 0), ("dev", 60, 1), ("test", 3, 2)):
        write_pairs(tmp_path / f"{name}.tsv", make_pairs(count, seed=seed))
    loaded: list[object] = []

    def load(path: str | Path | None = None, **settings: object) -> Model:
        loaded.append(path)
        return load_model(path, **settings)  # type: ignore[arg-type]

    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "lacuna"]
    for module in modules:
        if vars(module).get("load_model") is load_model:
            monkeypatch.setattr(module, "load_model", load)
    return loaded


def test_adapt(loads: list[object]) -> None:
    domain = adapt("train.tsv", "new", dev="dev.tsv", test="test.tsv", model="model", device="cpu")
    assert domain.translate(["Wir sehen drei Hunde."])[0].text is not None
    assert loads == ["model"]
    adapt("train.tsv", "new", dev="dev.tsv", test="test.tsv", model="model", device="cpu")  # finished already
    assert loads == ["model", "model"]


def test_reproduce(loads: list[object], tmp_path: Path) -> None:
    experiment = Experiment.model_validate(
        {
            "title": "Made up",
            "languages": "de-en",
            "model": "model",
            "corpus": {"train": "train", "dev": "dev", "test": "test", "clean": False},
            "limits": {"dev": 4, "curve": 2},
            "margin": {"max_margin": 4},
            "pruning": {"min_margin": 1, "ratio": 0.2, "min_margins": [1], "ratios": [0.1], "curve_methods": []},
            "adaptive": {"k": 2, "temperature": 10, "ks": [2]},
            "variants": [],
            "finetune": {"methods": []},
            "seeds": [1, 2],
        }
    )
    reproduce(experiment, tmp_path / "out", data=tmp_path, device="cpu")
    assert loads == ["model"]
