"""Scores of gold tokens against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lacuna.kernels import compiled as kernels
from lacuna.kernels.products import bfloat16_bits

PRECISIONS = [name for name in ("float32", "bfloat16", "int8") if kernels.supports(name)]


def score(
    x: NDArray[np.float32],
    weight: NDArray[np.float32],
    bias: NDArray[np.float32],
    gold: NDArray[np.int64],
    precision: str,
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    head = kernels.pack(weight, bias, precision)
    table = weight[:0] if precision == "float32" else weight
    outputs = np.empty(len(x), np.int64), np.empty(len(x), np.float32), np.empty(len(x), np.float32)
    kernels.score_gold(x, head, len(weight), table, gold, *outputs)
    return outputs


def naive(logits: NDArray[np.float64], gold: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    log_p = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    p = np.exp(log_p)
    terms = np.where(p > 0, p * np.where(p > 0, log_p, 0), 0)
    return log_p[np.arange(len(gold)), gold], -terms.sum(1)


def as_bfloat16(x: NDArray[np.float32]) -> NDArray[np.float64]:
    return (bfloat16_bits(x).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 9, 40]),
    st.sampled_from([2, 6, 64]),
    st.sampled_from([1, 7, 31, 512, 700, 1300]),
    st.floats(0.01, 20),
)
def test_float32_scores_are_those_of_float64(seed: int, rows: int, width: int, vocabulary: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    x, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, width), (vocabulary, width)))
    bias, gold = rng.standard_normal(vocabulary).astype(np.float32), rng.integers(0, vocabulary, rows)
    x *= np.float32(scale)
    predictions, log_p, entropy = score(x, weight, bias, gold, "float32")
    logits = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    error = 1e-6 * (np.abs(x) @ np.abs(weight.T) + np.abs(bias)).max(1)
    assert (logits[np.arange(rows), predictions] >= logits.max(1) - 2 * error).all()
    expected_log_p, expected_entropy = naive(logits, gold)
    assert (np.abs(log_p - expected_log_p) <= 4 * error + 1e-5).all()
    assert (np.abs(entropy - expected_entropy) <= 1e-4 + 1e-5 * error / 1e-6).all()


@pytest.mark.skipif("bfloat16" not in PRECISIONS, reason="needs AVX-512 BF16")
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 9, 40]), st.sampled_from([20, 700, 1300]))
def test_bfloat16_logits_that_matter_are_exact(seed: int, rows: int, vocabulary: int) -> None:
    """Logits are those of rounded factors, except for the best ones of each row and the gold one."""
    rng = np.random.default_rng(seed)
    x, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, 32), (vocabulary, 32)))
    bias, gold = rng.standard_normal(vocabulary).astype(np.float32), rng.integers(0, vocabulary, rows)
    predictions, log_p, entropy = score(x, weight, bias, gold, "bfloat16")
    exact = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    logits = as_bfloat16(x) @ as_bfloat16(weight).T + bias
    corrected = np.concatenate([np.argsort(-logits, axis=1)[:, :7], gold[:, None]], axis=1)
    np.put_along_axis(logits, corrected, np.take_along_axis(exact, corrected, 1), 1)
    assert (exact[np.arange(rows), predictions] >= exact.max(1) - 1e-4).all()
    expected_log_p, expected_entropy = naive(logits, gold)
    np.testing.assert_allclose(log_p, expected_log_p, atol=2e-4)
    np.testing.assert_allclose(entropy, expected_entropy, atol=2e-3)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_of_equal_logits_the_lowest_token_is_predicted(precision: str) -> None:
    x, weight = np.ones((3, 4), np.float32), np.zeros((900, 4), np.float32)
    weight[[33, 40, 600]] = 1.0
    predictions, log_p, entropy = score(x, weight, np.zeros(900, np.float32), np.array([600, 33, 5]), precision)
    assert predictions.tolist() == [33, 33, 33]
    total = 3 * np.exp(4.0) + 897
    np.testing.assert_allclose(log_p, [4 - np.log(total), 4 - np.log(total), -np.log(total)], rtol=1e-5)
    np.testing.assert_allclose(entropy, np.log(total) - 12 * np.exp(4.0) / total, rtol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_gold_token_that_rounding_hides_is_still_predicted(precision: str) -> None:
    """Hundreds of logits are equal in bfloat16; the gold one is the largest in float32."""
    weight = np.full((800, 2), 1.0, np.float32)
    weight[777] = 1.0005
    x = np.ones((1, 2), np.float32)
    predictions, log_p, _ = score(x, weight, np.zeros(800, np.float32), np.array([777]), precision)
    assert predictions.tolist() == [777]
    np.testing.assert_allclose(log_p, -np.log(800), atol=2e-3)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_ruled_out_tokens_count_nothing_and_rows_that_are_not_finite_give_nan(precision: str) -> None:
    bias = np.zeros(40, np.float32)
    bias[2:] = -np.inf
    x = np.array([[1, 0], [np.nan, 1], [np.inf, 1]], np.float32)
    weight = np.zeros((40, 2), np.float32)
    weight[1, 0] = 1.0
    predictions, log_p, entropy = score(x, weight, bias, np.array([0, 0, 0]), precision)
    assert predictions[0] == 1
    np.testing.assert_allclose(log_p[0], -np.log(1 + np.e), rtol=1e-5)
    p = np.e / (1 + np.e)
    np.testing.assert_allclose(entropy[0], -p * np.log(p) - (1 - p) * np.log(1 - p), rtol=1e-5)
    assert np.isnan(log_p[1:]).all()
    assert np.isnan(entropy[1:]).all()
