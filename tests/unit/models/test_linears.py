"""Linear layers in every form, against a product written out in float64."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lacuna.models.linears import FastLinear, join_linears, make_linear, with_fast_linears


def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    result = x.double() @ weight.double().T
    return result if bias is None else result + bias.double()


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 9), st.integers(1, 40), st.sampled_from([1, 7, 64, 4096, 4100]), st.booleans(), st.integers(0, 99)
)
def test_every_form_multiplies(rows: int, inputs: int, outputs: int, biased: bool, seed: int) -> None:
    torch.manual_seed(seed)
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
    bias = torch.randn(outputs) if biased else None
    exact = product(x, weight, bias)
    assert torch.allclose(make_linear(weight, bias)(x).double(), exact, atol=1e-4)


def test_joined_layers_stand_side_by_side() -> None:
    torch.manual_seed(1)
    first, second, x = nn.Linear(6, 4), nn.Linear(6, 3, bias=False), torch.randn(5, 6)
    both = join_linears(first, second)(x)
    assert torch.allclose(both, torch.cat([first(x), second(x)], dim=1), atol=1e-6)


def test_only_linear_layers_change_and_the_rest_is_shared() -> None:
    torch.manual_seed(1)
    module = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 8), nn.LayerNorm(8))
    fast = with_fast_linears(module)
    assert isinstance(fast[1], FastLinear)
    assert type(module[1]) is nn.Linear
    assert fast[0].weight is module[0].weight
    tokens = torch.tensor([1, 2, 3])
    with torch.inference_mode():
        assert torch.allclose(fast(tokens), module(tokens), atol=1e-5)


def test_half_precision_is_left_as_it_is() -> None:
    weight = torch.randn(5000, 4, dtype=torch.bfloat16)
    x = torch.randn(2, 4, dtype=torch.bfloat16)
    assert torch.equal(make_linear(weight, None)(x), torch.nn.functional.linear(x, weight))
