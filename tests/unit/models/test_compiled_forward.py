"""Teacher forcing by compiled kernels: the outputs of torch, to rounding; bfloat16 only where it was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lacuna.errors import SettingError
from lacuna.kernels import compiled as kernels
from lacuna.models import Model, compiled_decoder, load_model
from lacuna.models.compiled_decoder import CompiledModel
from lacuna.models.sharing import reopen_model
from lacuna.models.teacher_forcing import TeacherForced
from unit.models.tiny_models import Zoo, in_torch

SOURCES = ["ein kleines haus", "der hund", "ein hund und ein haus und der kleine hund"]
TARGETS = ["a small house", "the dog sleeps and the house sleeps", "a dog and a house"]
COMPILED = ["marian", "fsmt", "m2m100", "mbart", "bart"]

needs_bfloat16 = pytest.mark.skipif(not kernels.supports("bfloat16"), reason="needs AVX-512 BF16")


def by_torch(model: Model) -> TeacherForced:
    return in_torch(model).teacher_force(model.encode_sources(SOURCES), model.encode_targets(TARGETS))


@pytest.mark.parametrize("name", COMPILED)
def test_float32_gives_what_torch_gives(name: str, zoo: Zoo) -> None:
    model = zoo.model(name)
    assert not model.runs_compiled
    expected, compiled = by_torch(model), CompiledModel.of(model)
    assert compiled is not None
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    found = compiled.teacher_force(sources, targets, model.start_ids)
    assert found.lengths == expected.lengths
    assert torch.equal(found.predictions, expected.predictions)
    for part in ("keys", "log_p_gold", "entropy"):
        torch.testing.assert_close(getattr(found, part), getattr(expected, part), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["marian", "m2m100"])
def test_a_key_does_not_depend_on_its_batch(name: str, zoo: Zoo) -> None:
    model = zoo.model(name)
    compiled, start = CompiledModel.of(model), model.start_ids
    assert compiled is not None
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    together = compiled.teacher_force(sources, targets, start)
    alone = [compiled.teacher_force([source], [target], start) for source, target in zip(sources, targets, strict=True)]
    assert torch.equal(together.keys, torch.cat([each.keys for each in alone]))
    assert torch.equal(together.log_p_gold, torch.cat([each.log_p_gold for each in alone]))


@needs_bfloat16
@pytest.mark.parametrize("name", COMPILED)
def test_bfloat16_is_near_and_its_predictions_are_those_of_its_keys(name: str, zoo: Zoo) -> None:
    model = load_model(zoo.folder(name), device="cpu", languages=zoo.model(name).languages, precision="bfloat16")
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    found, expected = model.teacher_force(sources, targets), by_torch(zoo.model(name))
    assert found.keys.dtype == torch.float32
    distances = (found.keys - expected.keys).norm(dim=1) / expected.keys.norm(dim=1)
    assert 0 < distances.max() < 0.05
    gold = np.array([token for target in targets for token in target])
    predictions, log_p_gold, _ = model.score_keys(found.keys.numpy(), gold)
    assert (found.predictions.numpy() == predictions).all()
    np.testing.assert_allclose(found.log_p_gold, log_p_gold, atol=0.05)
    assert model.fingerprint == zoo.model(name).fingerprint


@needs_bfloat16
def test_another_process_loads_the_model_in_the_same_precision(zoo: Zoo) -> None:
    model = load_model(zoo.folder("marian"), device="cpu", precision="bfloat16")
    load, arguments = model.reopening()
    assert load is reopen_model
    assert load(*arguments).precision == "bfloat16"


def test_bfloat16_is_refused_where_it_cannot_run(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(folder: Path) -> str:
        with pytest.raises(SettingError) as caught:
            load_model(folder, device="cpu", precision="bfloat16")
        assert "\n" not in str(caught.value)
        return str(caught.value)

    if kernels.supports("bfloat16"):
        assert "needs a model with BART-like layers" in refusal(zoo.folder("mt5"))
    monkeypatch.setattr(kernels, "supports", lambda precision: precision != "bfloat16")
    assert "needs a processor with AVX-512 BF16; use float32" in refusal(zoo.folder("marian"))
    monkeypatch.setattr(compiled_decoder, "load_kernels", lambda: None)
    assert "needs numba (pip install lacuna-mt[fast])" in refusal(zoo.folder("marian"))


@pytest.mark.parametrize("name", ["t5", "mt5"])
def test_other_models_run_in_torch(name: str, zoo: Zoo) -> None:
    assert not zoo.model(name).runs_compiled
    assert zoo.model(name).compiled_forward is None
