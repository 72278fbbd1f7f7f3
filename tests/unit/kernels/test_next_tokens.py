"""The most probable next tokens against a dense projection in float64."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.kernels.next_tokens import find_next, score_tokens
from lacuna.kernels.products import MAX_INPUT, MAX_WEIGHT, pack
from lacuna.models.compiled_decoder import LikelyTokens, _merge


@dataclass(frozen=True)
class Projection:
    """States, and weights of a vocabulary."""

    x: np.ndarray
    weight: np.ndarray
    bias: np.ndarray

    @property
    def logits(self) -> np.ndarray:
        return self.x.astype(np.float64) @ self.weight.T.astype(np.float64) + self.bias

    @property
    def log_sums(self) -> np.ndarray:
        peaks = self.logits.max(1)
        with np.errstate(divide="ignore"):
            return np.where(
                np.isfinite(peaks), peaks + np.log(np.exp(self.logits - peaks.clip(-1e300)[:, None]).sum(1)), -np.inf
            )

    @property
    def rounding(self) -> np.ndarray:
        """Largest error of a logit with integer weights: (rows, vocabulary)."""
        x, weight = np.abs(self.x.astype(np.float64)), np.abs(self.weight.astype(np.float64))
        x_unit, w_unit = x.max(1, keepdims=True) / MAX_INPUT, weight.max(1) / MAX_WEIGHT["int8"]
        return 0.51 * (x.sum(1, keepdims=True) * w_unit + x_unit * weight.sum(1) + x.shape[1] * x_unit * w_unit) + 1e-4


def made(seed: int, rows: int, vocabulary: int, inputs: int = 24) -> Projection:
    rng = np.random.default_rng(seed)
    x, weight = rng.standard_normal((rows, inputs)), rng.standard_normal((vocabulary, inputs))
    parts = x, weight, rng.standard_normal(vocabulary)
    return Projection(*(part.astype(np.float32) for part in parts))


def find(case: Projection, count: int, banned: list[int] | None = None, precision: str = "float32") -> LikelyTokens:
    table = case.weight if precision == "int8" else case.weight[:0]
    rows = len(case.x)
    found = LikelyTokens(np.full((rows, count), -9), np.full((rows, count), 9, np.float32), np.full(rows, 9.0))
    excluded = np.array(banned or [], np.int64)
    find_next(case.x, pack(case.weight, case.bias, precision), 0, len(case.weight), table, excluded, *found)
    return found


def best(logits: np.ndarray, count: int, banned: list[int] | None = None) -> np.ndarray:
    allowed = logits.copy()
    allowed[:, banned or []] = -np.inf
    return np.argsort(-allowed, axis=1, kind="stable")[:, :count]


VOCABULARIES = st.integers(1, 40) | st.sampled_from([511, 512, 513, 1100])


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(1, 12), VOCABULARIES, st.integers(1, 11), st.integers(0, 3))
def test_tokens_logits_and_sums_are_those_of_a_dense_projection(
    seed: int, rows: int, vocabulary: int, count: int, bans: int
) -> None:
    case, count = made(seed, rows, vocabulary), min(count, vocabulary)
    logits = case.logits
    # The best token of a row is among those that are banned.
    banned = sorted({int(logits[0].argmax()), *range(bans - 1)} & set(range(vocabulary))) if bans else []
    found = find(case, count, banned)
    expected = best(logits, count, banned)
    real = min(count, vocabulary - len(banned))
    np.testing.assert_allclose(found.logits[:, :real], np.take_along_axis(logits, expected, 1)[:, :real], atol=2e-5)
    chosen = np.take_along_axis(logits, found.tokens, 1)[:, :real]
    np.testing.assert_allclose(found.logits[:, :real], chosen, atol=2e-5)
    assert all(len(set(row)) == real for row in found.tokens[:, :real].tolist())
    assert not set(banned) & set(found.tokens[:, :real].ravel().tolist())
    assert not found.tokens[:, real:].any()
    assert (found.logits[:, real:] == -np.inf).all()
    np.testing.assert_allclose(found.log_sums, case.log_sums, atol=1e-5)  # banned tokens included
    np.testing.assert_array_equal(found.log_probs, (found.logits - found.log_sums[:, None]).astype(np.float32))


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(1, 9), VOCABULARIES, st.integers(1, 8), st.booleans())
def test_with_8_bits_the_best_logits_are_exact_and_the_sum_is_near(
    seed: int, rows: int, vocabulary: int, count: int, ban: bool
) -> None:
    case, count = made(seed, rows, vocabulary), min(count, vocabulary)
    banned = [int(case.logits[0].argmax())] if ban else []
    found, exact = find(case, count, banned, "int8"), find(case, count, banned)
    real = min(count, vocabulary - len(banned))
    chosen = np.take_along_axis(case.logits, found.tokens, 1)[:, :real]
    np.testing.assert_allclose(found.logits[:, :real], chosen, atol=2e-5)
    assert all(len(set(row)) == real for row in found.tokens[:, :real].tolist())
    assert (np.diff(found.logits[:, :real], axis=1) <= 0).all()
    assert not set(banned) & set(found.tokens[:, :real].ravel().tolist())
    # A token can only be missed in favor of one whose rounded logit is as large, which few are; there are spare ones.
    missed = exact.logits[:, :real] - found.logits[:, :real]
    assert (missed <= 2 * case.rounding.max(1, keepdims=True)).all()
    assert (np.abs(found.log_sums - case.log_sums) <= case.rounding.max(1)).all()


def test_with_8_bits_the_best_tokens_are_the_best() -> None:
    """With logits as far apart as those of models are, the spare tokens make up for the rounding."""
    case = made(7, 50, 5000, 64)
    found, exact = find(case, 10, precision="int8"), find(case, 10)
    np.testing.assert_array_equal(found.tokens, exact.tokens)
    np.testing.assert_allclose(found.logits, exact.logits, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(found.log_sums, exact.log_sums, atol=0.01)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_token_that_the_bias_rules_out_is_never_found_and_has_no_share(precision: str) -> None:
    case = made(1, 3, 40)
    logits = case.logits
    bias = case.bias.copy()
    bias[::2] = -np.inf
    ruled = Projection(case.x, case.weight, bias)
    found = find(ruled, 30, precision=precision)
    expected = best(np.where(np.arange(40) % 2, logits, -np.inf), 20)
    if precision == "float32":
        np.testing.assert_array_equal(found.tokens[:, :20], expected)
    assert (found.tokens[:, :20] % 2 == 1).all()
    assert (found.logits[:, 20:] == -np.inf).all()
    assert not np.isnan(found.logits).any()
    np.testing.assert_allclose(found.log_sums, ruled.log_sums, atol=1e-5 if precision == "float32" else 0.2)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_rows_of_a_vocabulary_that_is_all_ruled_out_say_so(precision: str) -> None:
    case = made(1, 2, 40)
    found = find(Projection(case.x, case.weight, np.full(40, -np.inf, np.float32)), 3, precision=precision)
    assert (found.logits == -np.inf).all()
    assert (found.log_sums == -np.inf).all()


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_gives_nan_and_the_others_are_right(precision: str, wrong: float) -> None:
    case = made(2, 4, 700)
    x = case.x.copy()
    x[1, 3] = wrong
    found, clean = (find(each, 5, precision=precision) for each in (Projection(x, case.weight, case.bias), case))
    assert np.isnan(found.log_sums[1])
    assert np.isnan(found.log_probs[1]).all()
    others = [0, 2, 3]
    for one, other in zip(found, clean, strict=True):
        np.testing.assert_array_equal(one[others], other[others])


def test_of_equal_logits_the_lowest_token_comes_first() -> None:
    case = Projection(np.ones((2, 4), np.float32), np.ones((600, 4), np.float32), np.zeros(600, np.float32))
    for precision in ("float32", "int8"):
        assert find(case, 6, [1, 3], precision).tokens.tolist() == [[0, 2, 4, 5, 6, 7]] * 2


@settings(max_examples=40)
@given(
    st.integers(0, 2**32),
    st.integers(1, 6),
    st.integers(1, 8),
    st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    st.sampled_from(["float32", "int8"]),
)
def test_parts_that_are_merged_are_the_whole(seed: int, rows: int, count: int, cuts: list[int], precision: str) -> None:
    case = made(seed, rows, 400)
    banned = [int(case.logits[0].argmax()), 3]
    head = pack(case.weight, case.bias, precision)
    columns, table = head.weight.shape[2], case.weight if precision == "int8" else case.weight[:0]
    ends = sorted({0, len(head.weight), *cuts})
    parts = []
    for start, end in pairwise(ends):
        some = slice(start * columns, end * columns)
        part = head._replace(weight=head.weight[start:end], units=head.units[some], bias=head.bias[some])
        likely = LikelyTokens(np.empty((rows, count), np.int64), np.empty((rows, count), np.float32), np.empty(rows))
        find_next(case.x, part, some.start, 400, table, np.array(banned), *likely)
        parts.append(likely)
    merged, whole = _merge(parts, count), find(case, count, banned, precision)
    if precision == "float32":
        np.testing.assert_array_equal(merged.tokens, whole.tokens)
        np.testing.assert_array_equal(merged.logits, whole.logits)
    assert (merged.logits >= whole.logits).all()  # more parts have more spare tokens
    np.testing.assert_allclose(merged.log_sums, whole.log_sums, atol=1e-6 if precision == "float32" else 0.2)


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 30), st.integers(0, 6))
def test_logits_of_given_tokens_are_those_of_a_dense_projection(
    seed: int, rows: int, vocabulary: int, count: int
) -> None:
    case = made(seed, rows, vocabulary)
    tokens = np.random.default_rng(seed).integers(-1, vocabulary, (rows, count))
    logits = np.full((rows, count), 9, np.float32)
    score_tokens(case.x, case.weight, case.bias, tokens, logits)
    expected = np.where(tokens < 0, -np.inf, np.take_along_axis(case.logits, tokens.clip(0), 1))
    np.testing.assert_allclose(logits, expected, atol=2e-5)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_logits_far_apart_neither_overflow_nor_vanish(precision: str) -> None:
    x, weight = np.ones((1, 2), np.float32), np.array([[100.0, 300.0], [-900.0, 0.0], [200.0, 199.0]], np.float32)
    case = Projection(x, weight, np.zeros(3, np.float32))
    found = find(case, 3, precision=precision)
    assert found.tokens.tolist() == [[0, 2, 1]]
    np.testing.assert_allclose(found.logits, [[400, 399, -900]], rtol=1e-6)
    np.testing.assert_allclose(found.log_sums, case.log_sums, atol=1e-5)
