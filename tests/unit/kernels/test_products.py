"""Products with packed weights: exact for the numbers that they round to, and those are near the given ones."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.kernels.products import (
    MAX_INPUT,
    MAX_WEIGHT,
    PART,
    PackedLinear,
    bfloat16_bits,
    make_codes,
    pack,
    product,
    round_inputs,
    supports,
)
from lacuna.kernels.tiles import COLUMNS

EPS = float(np.finfo(np.float32).eps)
INTEGERS = ["int16", "int8"]


@numba.njit
def rounded_rows(x: Any, weight: Any) -> Any:
    """The codes and units of some rows, as kernels have them."""
    codes, units = make_codes(len(x), x.shape[1])
    round_inputs(x, weight, codes, units)
    return codes, units


def unpacked(linear: PackedLinear, *, pairs: bool) -> np.ndarray:
    """The weights in the order of a matrix: (outputs, inputs)."""
    blocks, inputs, columns = linear.weight.shape
    if not pairs:
        return linear.weight.transpose(0, 2, 1).reshape(-1, inputs)
    each = linear.weight.reshape(blocks, inputs // 2, columns, 2)
    return each.transpose(0, 2, 1, 3).reshape(-1, inputs)


def sums_of_parts(x: np.ndarray, linear: PackedLinear) -> tuple[np.ndarray, np.ndarray]:
    """The exact sums of the integers, and the units of all outputs: (parts, rows, outputs) and (rows, outputs)."""
    codes, row_units = rounded_rows(x, linear.weight)
    weights = unpacked(linear, pairs=True).astype(np.int64)
    parts = [slice(start, start + PART) for start in range(0, x.shape[1], PART)]
    sums = np.stack([codes[:, part].astype(np.int64) @ weights[:, part].T for part in parts])
    assert np.abs(sums).max(initial=0) < 2**31
    return sums, row_units[:, None].astype(np.float64) * linear.units


def exact_product(x: np.ndarray, linear: PackedLinear) -> np.ndarray:
    """What an integer product gives if all units are powers of two, which change no digits: bit for bit."""
    sums, units = sums_of_parts(x, linear)
    out = np.tile(linear.bias, (len(x), 1))
    for part in sums:
        out = out + part.astype(np.float32) * units.astype(np.float32)
    return out


def rounding_bound(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, largest: int) -> np.ndarray:
    """Half a unit for each input and each weight, and what sums in float32 lose."""
    x, weight = np.abs(x.astype(np.float64)), np.abs(weight.astype(np.float64))
    x_unit = np.maximum(x.max(1, keepdims=True), 1e-30) / MAX_INPUT
    w_unit = weight.max(1) / largest
    of_rounding = 0.5 * (x.sum(1, keepdims=True) * w_unit + x_unit * weight.sum(1)) + x.shape[1] * x_unit * w_unit / 4
    parts = -(-x.shape[1] // PART)
    return 1.01 * of_rounding + 4 * (parts + 1) * EPS * (x @ weight.T + np.abs(bias) + of_rounding)


@st.composite
def factors(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, weights and biases of any scale, some of them zero."""
    rows, outputs = draw(st.integers(1, 20)), draw(st.integers(1, 70))
    inputs = 2 * draw(st.integers(1, 40) | st.sampled_from([255, 256, 257, 515]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scales = st.sampled_from([1e-12, 1e-3, 1.0, 100.0, 1e12])
    x = rng.standard_normal((rows, inputs)) * draw(scales)
    weight = rng.standard_normal((outputs, inputs)) * draw(scales)
    if draw(st.booleans()):  # each row and each output has a scale of its own
        x, weight = x * 10.0 ** rng.integers(-6, 6, (rows, 1)), weight * 10.0 ** rng.integers(-6, 6, (outputs, 1))
    if draw(st.booleans()):  # one large number makes all others coarse
        x[:, 0], weight[:, -1] = 1000 * x[:, 0], -1000 * weight[:, -1]
    x[rng.random(rows) < 0.1] = 0.0
    weight[rng.random(outputs) < 0.1] = 0.0
    bias = rng.standard_normal(outputs) * draw(st.sampled_from([0.0, 1.0]))
    made = x.astype(np.float32), weight.astype(np.float32), bias.astype(np.float32)
    return made


Factors = tuple[np.ndarray, np.ndarray, np.ndarray]


@settings(max_examples=60)
@given(factors())
def test_a_float_product_is_that_of_float64(made: Factors) -> None:
    x, weight, bias = made
    found = product(x, pack(weight, bias))
    expected = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    # Rounding errors grow with the sizes of the terms, not with their sum, which may be near 0.
    sizes = np.abs(x).astype(np.float64) @ np.abs(weight.T) + np.abs(bias)
    assert (np.abs(found[:, : len(weight)] - expected) <= (8 + x.shape[1] / 8) * EPS * sizes).all()
    assert not found[:, len(weight) :].any()


@settings(max_examples=60)
@pytest.mark.parametrize("precision", INTEGERS)
@given(made=factors())
def test_an_integer_product_is_exact_for_rounded_numbers(precision: str, made: Factors) -> None:
    x, weight, bias = made
    linear = pack(weight, bias, precision)
    found = product(x, linear)
    sums, units = sums_of_parts(x, linear)
    sizes = np.abs(sums * units).sum(0) + np.abs(linear.bias)
    # Scaled and added up in float32, a few operations for each part; the product of two tiny units may underflow.
    underflow = np.finfo(np.float32).tiny * np.abs(sums).sum(0)
    found_error = np.abs(found - ((sums * units).sum(0) + linear.bias))
    assert (found_error <= (3 + len(sums)) * EPS * sizes + underflow).all()
    assert not found[:, len(weight) :].any()
    expected = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    bound = rounding_bound(x, weight, bias, MAX_WEIGHT[precision])
    assert (np.abs(found[:, : len(weight)] - expected) <= bound).all()


@settings(max_examples=60)
@pytest.mark.parametrize("precision", INTEGERS)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 20),
    outputs=st.integers(1, 70),
    inputs=st.integers(1, 700).map(lambda half: 2 * half),
    power=st.integers(-20, 20),
)
def test_an_integer_product_of_integers_has_no_error_before_it_is_scaled(
    precision: str, seed: int, rows: int, outputs: int, inputs: int, power: int
) -> None:
    rng = np.random.default_rng(seed)
    largest = MAX_WEIGHT[precision]
    x, weight = rng.integers(-MAX_INPUT, MAX_INPUT, (rows, inputs)), rng.integers(-largest, largest, (outputs, inputs))
    x[:, inputs // 2], weight[:, -1] = MAX_INPUT, -largest  # so that units are powers of two
    bias = rng.standard_normal(outputs).astype(np.float32)
    linear = pack((weight * 2.0**-power).astype(np.float32), bias, precision)
    scaled = (x * 2.0**power).astype(np.float32)
    np.testing.assert_array_equal(rounded_rows(scaled, linear.weight)[0], x)
    np.testing.assert_array_equal(unpacked(linear, pairs=True)[:outputs], weight)
    found = product(scaled, linear)
    np.testing.assert_array_equal(found, exact_product(scaled, linear))


@settings(max_examples=40)
@pytest.mark.parametrize("precision", INTEGERS)
@given(made=factors())
def test_numbers_are_rounded_to_the_nearest_multiple_of_a_unit(precision: str, made: Factors) -> None:
    x, weight, _ = made
    linear = pack(weight, None, precision)
    codes, units = rounded_rows(x, linear.weight)
    np.testing.assert_allclose(units, np.maximum(np.abs(x).max(1), 1e-30) / MAX_INPUT, rtol=3 * EPS)
    assert np.abs(codes).max() <= MAX_INPUT
    tie = 3 * EPS * MAX_INPUT  # numbers between two multiples may go to either
    assert (np.abs(x.astype(np.float64) / units[:, None] - codes) <= 0.5 + tie).all()
    largest, wide = MAX_WEIGHT[precision], np.zeros((len(linear.units), x.shape[1]))
    wide[: len(weight)] = weight
    weights = unpacked(linear, pairs=True).astype(np.int64)
    assert np.abs(weights).max() <= largest
    smallest = largest * np.finfo(np.float32).tiny
    expected = np.maximum(np.abs(weight).max(1), smallest)
    np.testing.assert_allclose(linear.units[: len(weight)] * largest, expected, rtol=3 * EPS)
    assert (np.abs(wide / linear.units[:, None].astype(np.float64) - weights) <= 0.5 + tie).all()


@pytest.mark.parametrize("precision", INTEGERS)
@pytest.mark.parametrize("inputs", [2, PART - 2, PART, PART + 2, 2 * PART, 1030])
@pytest.mark.parametrize("signs", ["plus", "minus", "mixed"])
def test_no_sum_overflows_however_large_all_numbers_are(precision: str, inputs: int, signs: str) -> None:
    assert MAX_INPUT * MAX_WEIGHT[precision] * PART < 2**31
    sign = {"plus": 1.0, "minus": -1.0, "mixed": np.where(np.arange(inputs) % 2, 1.0, -1.0)}[signs]
    x = np.full((9, inputs), MAX_INPUT, np.float32)
    weight = (np.full((COLUMNS + 1, inputs), MAX_WEIGHT[precision]) * sign).astype(np.float32)
    linear = pack(weight, None, precision)
    found = product(x, linear)
    np.testing.assert_array_equal(found, exact_product(x, linear))
    expected = x.astype(np.float64) @ weight.T.astype(np.float64)
    np.testing.assert_allclose(found[:, : COLUMNS + 1], expected, rtol=4 * EPS)


@pytest.mark.parametrize("precision", ["float32", *INTEGERS])
def test_zeros_give_the_bias(precision: str) -> None:
    bias = np.arange(5, dtype=np.float32)
    for x, weight in ((np.zeros((3, 8)), np.ones((5, 8))), (np.ones((3, 8)), np.zeros((5, 8)))):
        found = product(x.astype(np.float32), pack(weight.astype(np.float32), bias, precision))
        np.testing.assert_array_equal(found[:, :5], np.tile(bias, (3, 1)))


@pytest.mark.parametrize("precision", ["float32", *INTEGERS])
def test_rows_do_not_depend_on_their_neighbors_nor_on_where_they_are(precision: str) -> None:
    rng = np.random.default_rng(5)
    wide, weight = rng.standard_normal((300, 70)).astype(np.float32), rng.standard_normal((40, 64)).astype(np.float32)
    linear = pack(weight, None, precision)
    together = product(wide[:, :64], linear)  # rows that are not adjacent
    alone = np.concatenate([product(np.ascontiguousarray(row[None, :64]), linear) for row in wide])
    np.testing.assert_array_equal(together, alone)


@pytest.mark.skipif(not supports("bfloat16"), reason="this processor has no AVX-512 BF16")
@settings(max_examples=30)
@given(factors())
def test_a_bfloat16_product_is_exact_for_rounded_numbers(made: Factors) -> None:
    x, weight, bias = made
    linear = pack(weight, bias, "bfloat16")
    found = product(x, linear)

    def widened(numbers: np.ndarray) -> np.ndarray:
        return (bfloat16_bits(numbers).astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    expected = widened(x) @ widened(weight).T + bias
    sizes = np.abs(widened(x)) @ np.abs(widened(weight)).T + np.abs(bias)
    # The instruction takes numbers below the smallest normal one for 0.
    assert (np.abs(found[:, : len(weight)] - expected) <= (8 + x.shape[1] / 8) * EPS * sizes + 1e-30).all()


def test_bfloat16_is_the_nearest_with_even_ties() -> None:
    import torch

    rng = np.random.default_rng(2)
    bits = rng.integers(0, 2**32, 5000, dtype=np.uint32)
    ties = (bits & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    numbers = np.concatenate([bits, ties]).view(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    expected = torch.from_numpy(numbers).bfloat16().view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(bfloat16_bits(numbers), expected)
