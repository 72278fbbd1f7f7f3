"""The largest few of many numbers: by a kernel, and in torch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.models import top_tokens
from lacuna.models.top_tokens import best_tokens, top_k

RNG = np.random.default_rng(1)
NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(-10, 10, width=32), st.just(-math.inf))


@pytest.fixture(params=["kernel", "torch"])
def _engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        monkeypatch.setattr(top_tokens, "load_kernels", lambda: None)


@settings(max_examples=50)
@given(
    seed=st.integers(0, 1000),
    rows=st.integers(1, 4),
    columns=st.integers(1, 3000),
    k=st.integers(1, 10),
    dead=st.booleans(),
    kernel=st.booleans(),
)
def test_top_k_is_topk(seed: int, rows: int, columns: int, k: int, dead: bool, kernel: bool) -> None:
    k = min(k, columns)
    scores = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    if dead:
        scores[:, ::2] = float("-inf")
    with pytest.MonkeyPatch.context() as patched:
        if not kernel:
            patched.setattr(top_tokens, "load_kernels", lambda: None)
        values, places = top_k(scores, k)
    assert torch.equal(values, scores.topk(k).values)
    assert torch.equal(scores.gather(1, places), values)
    assert all(len(set(row)) == k for row in places.tolist())


@given(st.lists(NUMBERS, min_size=6, max_size=200), st.integers(1, 6))
def test_the_kernel_gives_the_start_of_a_stable_sort(line: list[float], k: int) -> None:
    numbers = np.array([line, line[::-1]], np.float32)
    values, columns = (part.numpy() for part in top_k(torch.from_numpy(numbers), k))
    order = np.argsort(-numbers, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(columns, order)
    np.testing.assert_array_equal(values, np.take_along_axis(numbers, order, axis=1))


def test_a_row_of_nan_is_found_as_infinity() -> None:
    values, _ = top_k(torch.full((1, 100), torch.nan), 2)
    assert values.isinf().all()


@pytest.mark.usefixtures("_engine")
def test_top_k_reads_rows_that_are_not_adjacent() -> None:
    numbers = torch.from_numpy(RNG.standard_normal((4, 300)).astype(np.float32))[:, :257]
    values, columns = top_k(numbers, 9)
    expected = numbers.topk(9)
    assert torch.equal(values, expected.values)
    assert torch.equal(columns, expected.indices)


@pytest.mark.usefixtures("_engine")
def test_banned_tokens_are_left_out_and_fewer_tokens_than_wanted_are_all() -> None:
    log_probs = torch.tensor([[-1.0, -0.5, -3.0, -2.0], [-0.1, -9.0, -8.0, -7.0]])
    tokens, best = best_tokens(log_probs.clone(), 3, banned=(1,))
    assert tokens[0].tolist() == [0, 3, 2]
    np.testing.assert_array_equal(best, np.array([[-1, -2, -3], [-0.1, -7, -8]], np.float32))
    tokens, best = best_tokens(log_probs.clone(), 10, banned=(0, 1))
    assert tokens.shape == best.shape == (2, 4)
    assert tokens[:, :2].tolist() == [[3, 2], [3, 2]]
    assert (best[:, 2:] == -np.inf).all()
    assert best_tokens(log_probs.clone(), 2)[0].tolist() == [[1, 0], [0, 3]]
