"""Compiled kernels against NumPy in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuna import kernels as package
from lacuna.decoding.beam import top_k
from lacuna.kernels import compiled as kernels
from lacuna.kernels import load_kernels

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("rows", [1, 2, 5, 7, 8, 9, 23, 300])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (7, 31), (32, 32), (65, 100), (300, 1)])
def test_a_projection_is_a_product(rows: int, inputs: int, outputs: int) -> None:
    x, weight = (RNG.standard_normal(shape).astype(np.float32) for shape in ((rows, inputs), (outputs, inputs)))
    bias = RNG.standard_normal(outputs).astype(np.float32)
    packed = kernels.pack(weight, bias)
    out = np.full((rows, len(packed.bias)), np.nan, np.float32)
    kernels.project(x, packed.weight, packed.bias, 0, out)
    expected = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    # Rounding errors grow with the sizes of the terms, not with their sum, which may be near 0.
    sizes = np.abs(x) @ np.abs(weight.T) + np.abs(bias)
    assert (np.abs(out[:, :outputs] - expected) <= 4 * np.finfo(np.float32).eps * sizes).all()
    assert not out[:, outputs:].any()


def test_blocks_of_a_projection_do_not_touch_each_other() -> None:
    x, weight = (RNG.standard_normal(shape).astype(np.float32) for shape in ((3, 8), (4 * kernels.COLUMNS, 8)))
    packed = kernels.pack(weight, None)
    out = np.full((3, 4 * kernels.COLUMNS), np.nan, np.float32)
    inner = slice(kernels.COLUMNS, 3 * kernels.COLUMNS)
    kernels.project(x, packed.weight[1:3], packed.bias[inner], 1, out)
    np.testing.assert_allclose(out[:, inner], (x @ weight.T)[:, inner], rtol=1e-5, atol=1e-5)
    assert np.isnan(np.delete(out, np.arange(inner.start, inner.stop), axis=1)).all()


@given(st.lists(st.floats(-200, 200, width=32), min_size=1, max_size=80), st.integers(0, 3))
def test_log_softmax_is_that_of_float64(line: list[float], ruled_out: int) -> None:
    numbers = np.array([[*line, *[-math.inf] * ruled_out, 7.0]], np.float32)
    wide = numbers[0, :-1].astype(np.float64)
    kernels.log_softmax(numbers, len(wide))
    largest = wide.max()
    expected = wide - largest - np.log(np.exp(wide - largest).sum())
    np.testing.assert_allclose(numbers[0, :-1], expected, rtol=2e-6, atol=2e-6)
    assert numbers[0, -1] == 7.0  # beyond the columns


def test_exponential_and_activations_are_those_of_float64() -> None:
    x = np.linspace(-30, 30, 20_001, dtype=np.float32)
    below = -np.abs(x)
    exponentials = np.array([kernels._exp(value) for value in below[::50]])
    np.testing.assert_allclose(exponentials, np.exp(below[::50].astype(np.float64)), rtol=3e-7)
    wide = x.astype(np.float64)
    shares = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in wide])
    for kind, expected in (
        (kernels.RELU, np.maximum(wide, 0)),
        (kernels.SILU, wide / (1 + np.exp(-wide))),
        (kernels.GELU, wide * shares),
    ):
        found = x[None].copy()
        kernels._activate(found, kind)
        np.testing.assert_allclose(found[0], expected, rtol=1e-6, atol=4e-7)


NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(-10, 10, width=32), st.just(-math.inf))


@given(st.lists(NUMBERS, min_size=6, max_size=200), st.integers(1, 6))
def test_top_k_is_the_start_of_a_stable_sort(line: list[float], k: int) -> None:
    numbers = np.array([line, line[::-1]], np.float32)
    values, columns = (part.numpy() for part in top_k(torch.from_numpy(numbers), k))
    order = np.argsort(-numbers, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(columns, order)
    np.testing.assert_array_equal(values, np.take_along_axis(numbers, order, axis=1))


def test_a_row_of_nan_is_found_as_infinity() -> None:
    values, _ = top_k(torch.full((1, 100), torch.nan), 2)
    assert values.isinf().all()


def test_top_k_reads_rows_that_are_not_adjacent() -> None:
    numbers = torch.from_numpy(RNG.standard_normal((4, 300)).astype(np.float32))[:, :257]
    values, columns = top_k(numbers, 9)
    expected = numbers.topk(9)
    assert torch.equal(values, expected.values)
    assert torch.equal(columns, expected.indices)


def test_without_numba_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    load_kernels.cache_clear()
    try:
        assert load_kernels() is None
        numbers = torch.from_numpy(RNG.standard_normal((4, 3000)).astype(np.float32))
        assert torch.equal(top_k(numbers, 10)[1], numbers.topk(10).indices)
    finally:
        load_kernels.cache_clear()
