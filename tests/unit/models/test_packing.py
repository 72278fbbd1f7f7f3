"""Packed weights: the same keys as without, and all weights shared but the packed ones."""

from __future__ import annotations

import pytest
import torch

from lacuna.models import packing
from lacuna.models.packing import PackedLinear, with_packed_layers
from unit.models.tiny_models import Zoo

SOURCES, TARGETS = ["ein kleines haus", "der hund"], ["a small house", "the dog sleeps"]


@pytest.mark.parametrize("name", ["marian", "fsmt", "m2m100", "mbart", "bart", "t5", "mt5"])
def test_keys_with_packed_layers_are_those_of_the_plain_model(
    name: str, zoo: Zoo, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = zoo.model(name)
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    model.forms.clear()
    packed = model.teacher_force(sources, targets)
    assert any(isinstance(module, PackedLinear) for module in model._forward.hf.modules())
    model.forms.clear()
    monkeypatch.setattr(packing, "_can_pack", lambda: False)
    plain = model.teacher_force(sources, targets)
    assert model._forward.hf is model.hf
    model.forms.clear()
    torch.testing.assert_close(packed.keys, plain.keys, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(packed.log_p_gold, plain.log_p_gold, rtol=1e-4, atol=1e-5)


def test_weights_are_shared_and_the_projection_is_left_alone(zoo: Zoo) -> None:
    model = zoo.model("marian")
    copied = with_packed_layers(model.hf, model.projection.weight)
    assert {id(weight) for weight in copied.parameters()} == {id(weight) for weight in model.hf.parameters()}
    assert type(copied.lm_head) is torch.nn.Linear
    assert not any(isinstance(module, PackedLinear) for module in model.hf.modules())


def test_a_large_model_is_not_packed(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_MAX_PACKED", 1000)
    model = zoo.model("marian")
    assert with_packed_layers(model.hf, model.projection.weight) is model.hf
