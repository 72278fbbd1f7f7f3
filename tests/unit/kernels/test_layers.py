"""Parts of the layers against NumPy in float64, and lists of slots against lists of lists."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lacuna.kernels import layers
from lacuna.kernels.layers import GELU, RELU, SILU, Hypotheses, advance


def test_exponential_and_activations_are_those_of_float64() -> None:
    x = np.linspace(-30, 30, 20_001, dtype=np.float32)
    below = -np.abs(x)
    exponentials = np.array([layers.exp(value) for value in below[::50]])
    np.testing.assert_allclose(exponentials, np.exp(below[::50].astype(np.float64)), rtol=3e-7)
    wide = x.astype(np.float64)
    shares = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in wide])
    for kind, expected in (
        (RELU, np.maximum(wide, 0)),
        (SILU, wide / (1 + np.exp(-wide))),
        (GELU, wide * shares),
    ):
        found = x[None].copy()
        layers._activate(found, kind)
        np.testing.assert_allclose(found[0], expected, rtol=1e-6, atol=4e-7)


@st.composite
def extensions(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """Lengths of the first rows, and the rows that each step extends."""
    first = draw(st.lists(st.lists(st.integers(0, 99), max_size=4), min_size=1, max_size=5))
    chosen, rows = [], len(first)
    for _ in range(draw(st.integers(1, 4))):
        chosen.append(draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=6)))
        rows = len(chosen[-1])
    return first, chosen


@given(extensions())
def test_rows_are_lists_that_grow(case: tuple[list[list[int]], list[list[int]]]) -> None:
    lists, steps = [list(row) for row in case[0]], case[1]
    sources = [(10 * row, 10 * row + 5) for row in range(len(lists))]
    width = max(map(len, lists)) + 2  # lists may have room
    slots = np.full((len(lists), width), -7)
    for row, own in enumerate(lists):
        slots[row, : len(own)] = own
    rows = Hypotheses(slots, np.array(list(map(len, lists))), np.array(sources))
    used = 100
    for chosen in steps:
        taken = list(range(used + len(chosen), used, -1))
        lists = [[*lists[row], slot] for slot, row in zip(taken, chosen, strict=True)]
        sources = [sources[row] for row in chosen]
        shapes = (len(chosen), max(map(len, lists))), len(chosen), (len(chosen), 2)
        extended = Hypotheses(*(np.full(shape, -7) for shape in shapes))
        advance(rows, np.array(chosen), np.array(taken), extended)
        rows, used = extended, used + len(chosen)
        assert [row[:length].tolist() for row, length in zip(rows.slots, rows.lengths, strict=True)] == lists
        assert [tuple(place) for place in rows.source_places.tolist()] == sources
