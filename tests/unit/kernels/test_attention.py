"""Attention of whole sentences against NumPy in float64."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lacuna.kernels.attention import attend_all


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.integers(1, 70),
    st.sampled_from([(1, 1), (2, 3), (4, 16), (2, 40)]),
    st.booleans(),
)
def test_all_tokens_of_a_sentence(seed: int, rows: int, tokens: int, shape: tuple[int, int], causal: bool) -> None:
    rng, (heads, size) = np.random.default_rng(seed), shape
    tokens = rows if causal else tokens
    wide = [3 * rng.standard_normal((count, heads * size + 5)).astype(np.float32) for count in (rows, tokens, tokens)]
    queries, keys, values = (part[:, : heads * size] for part in wide)
    expected = np.empty(queries.shape)
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        products = queries[:, own].astype(np.float64) @ keys[:, own].T / np.sqrt(size)
        if causal:
            products[np.triu_indices(rows, 1)] = -np.inf
        weights = np.exp(products - products.max(1, keepdims=True))
        expected[:, own] = weights / weights.sum(1, keepdims=True) @ values[:, own]
    attend_all(queries, keys, values, heads, causal, queries)  # the output may be the input
    np.testing.assert_allclose(queries, expected, rtol=1e-4, atol=1e-4)
