"""Adapters: where they go, that nothing else is trained, and that merging them changes no translation."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel

from lacuna.errors import SettingError
from lacuna.models.adapter import Model
from lacuna.models.training.lora import add_adapters, choose_targets, merge_adapters, save_adapter
from lacuna.models.training.loss import batch_loss, batch_negative_log_likelihood, model_forward
from lacuna.models.training.network import trained_weights
from lacuna.models.training.settings import LoraSettings
from unit.models.tiny_models import SOURCES, TARGETS, Zoo
from unit.models.training.toy import toy_batch

SMALL = LoraSettings(rank=2)


def adapted_copy(zoo: Zoo, kind: str) -> tuple[Model, PeftModel]:
    model = zoo.model(kind).with_hf(copy.deepcopy(zoo.model(kind).hf))
    torch.manual_seed(3)
    return model, add_adapters(model.hf, SMALL, kind)


def stir(model: Model) -> None:
    """Give the adapters weights that matter; they start at nothing."""
    torch.manual_seed(4)
    with torch.no_grad():
        for weight in trained_weights(model.hf).values():
            weight.normal_(std=0.3)


def logits(model: Model) -> torch.Tensor:
    return model.project(model.teacher_force(model.encode_sources(SOURCES), model.encode_targets(TARGETS)).keys)


def test_adapters_start_at_nothing_and_are_all_that_is_trained(zoo: Zoo, kind: str) -> None:
    model, _ = adapted_copy(zoo, kind)
    weights = trained_weights(model.hf)
    assert weights
    assert all("lora_" in name for name in weights)
    before = {name: weight.clone() for name, weight in model.hf.named_parameters()}
    assert batch_negative_log_likelihood(model_forward(model), toy_batch(model)) == pytest.approx(
        batch_negative_log_likelihood(model_forward(zoo.model(kind)), toy_batch(model)), rel=1e-6
    )
    optimizer = torch.optim.Adam(weights.values(), lr=1e-2)
    for _ in range(2):
        loss, _ = batch_loss(model_forward(model), toy_batch(model), 0.1)
        loss.backward()
        optimizer.step()
    changed = {name for name, weight in model.hf.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == set(weights)


def test_merged_weights_say_what_the_adapters_said(zoo: Zoo, kind: str) -> None:
    model, adapted = adapted_copy(zoo, kind)
    stir(model)
    apart = logits(model)
    merge_adapters(adapted)
    merged = replace(model)
    torch.testing.assert_close(logits(merged), apart, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(apart, logits(zoo.model(kind)), atol=1e-2)
    names = [name for name, _ in zoo.model(kind).hf.named_parameters()]
    assert [name for name, _ in model.hf.named_parameters()] == names


@pytest.mark.parametrize("kind", ["marian", "fsmt", "m2m100", "t5"])
def test_a_saved_adapter_is_one_for_peft(zoo: Zoo, kind: str, tmp_path: Path) -> None:
    model, adapted = adapted_copy(zoo, kind)
    stir(model)
    save_adapter(adapted, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    base = copy.deepcopy(zoo.model(kind).hf)
    PeftModel.from_pretrained(base, str(tmp_path))
    torch.testing.assert_close(logits(zoo.model(kind).with_hf(base)), logits(model), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("marian", ["q_proj", "v_proj", "fc1", "fc2"]),
        ("fsmt", ["q_proj", "v_proj", "fc1", "fc2"]),
        ("m2m100", ["q_proj", "v_proj", "fc1", "fc2"]),
        ("t5", ["q", "v", "wi", "wo"]),
        ("mt5", ["q", "v", "wi_0", "wi_1", "wo"]),
    ],
)
def test_usual_targets_by_family(zoo: Zoo, kind: str, expected: list[str]) -> None:
    assert choose_targets(zoo.model(kind).hf, None) == expected


def test_layers_the_model_lacks_are_refused_with_those_it_has(zoo: Zoo) -> None:
    with pytest.raises(SettingError, match=r"got query; .* are fc1, fc2, k_proj, out_proj, q_proj, v_proj$"):
        choose_targets(zoo.model("marian").hf, ("q_proj", "query"))
    with pytest.raises(SettingError, match="none of the usual names"):
        choose_targets(torch.nn.Sequential(torch.nn.Linear(2, 2)), None)
