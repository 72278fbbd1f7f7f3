"""Packed weights: the same keys as without, and all weights shared but the packed ones."""

from __future__ import annotations

import pytest
import torch

from lacuna.models import adapter, linears
from lacuna.models.linears import FastLinear, with_fast_linears
from unit.models.tiny_models import Zoo, in_torch

SOURCES, TARGETS = ["ein kleines haus", "der hund"], ["a small house", "the dog sleeps"]


@pytest.mark.parametrize("name", ["marian", "fsmt", "m2m100", "mbart", "bart", "t5", "mt5"])
def test_keys_with_packed_layers_are_those_of_the_plain_model(
    name: str, zoo: Zoo, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = in_torch(zoo.model(name))
    sources, targets = model.encode_sources(SOURCES), model.encode_targets(TARGETS)
    monkeypatch.setattr(linears, "_WORTH_PACKING", 1)
    packed = model.teacher_force(sources, targets)
    assert any(isinstance(module, FastLinear) for module in model.fast_forward.hf.modules())
    model = in_torch(model)
    monkeypatch.setattr(adapter, "_MAX_PACKED", 0)
    plain = model.teacher_force(sources, targets)
    assert model.fast_forward.hf is model.hf
    torch.testing.assert_close(packed.keys, plain.keys, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(packed.log_p_gold, plain.log_p_gold, rtol=1e-4, atol=1e-5)


def test_weights_are_shared_and_the_projection_is_left_alone(zoo: Zoo) -> None:
    model = zoo.model("marian")
    copied = with_fast_linears(model.hf, leave_out=model.projection.weight)
    assert {id(weight) for weight in copied.parameters()} == {id(weight) for weight in model.hf.parameters()}
    assert type(copied.lm_head) is torch.nn.Linear
    assert not any(isinstance(module, FastLinear) for module in model.hf.modules())
