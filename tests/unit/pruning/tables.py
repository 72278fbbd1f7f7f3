"""Entry tables in memory, and strategies that generate them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Table:
    """An entry table of plain arrays, with trivial defaults."""

    known: NDArray[np.bool_]
    margin: NDArray[np.uint16] = field(default_factory=lambda: np.empty(0, np.uint16))
    max_margin: int = 2048
    values: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    log_p_gold: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    sentence: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    position: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    weights: NDArray[np.float32] | None = None
    near: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))

    def __post_init__(self) -> None:
        if not len(self.values):
            object.__setattr__(self, "values", np.zeros(len(self.known), np.int32))

    def neighbors(self, k: int) -> Iterator[NDArray[np.int64]]:
        # In uneven blocks, as a store with shards gives them.
        for first in range(0, len(self.near), 3):
            yield self.near[first : first + 3, :k]


@st.composite
def tables(draw: st.DrawFn, most: int = 60) -> Table:
    """Sentences of few tokens, so that many entries are alike; neighbors are any entries but oneself."""
    lengths = draw(st.lists(st.integers(1, 8), min_size=1, max_size=most // 8))
    rows = sum(lengths)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    near = np.argsort(rng.random((rows, rows)) + 2 * np.eye(rows), axis=1)[:, : rows - 1]
    return Table(
        known=rng.random(rows) < draw(st.sampled_from([0, 0.3, 0.7, 1])),
        margin=rng.integers(0, draw(st.sampled_from([1, 12, 40])), rows).astype(np.uint16),
        values=rng.integers(0, draw(st.integers(1, 5)), rows).astype(np.int32),
        log_p_gold=-rng.exponential(2.0, rows).astype(np.float32),
        sentence=np.repeat(np.arange(len(lengths)), lengths).astype(np.int32),
        position=np.concatenate([np.arange(length) for length in lengths]).astype(np.int32),
        near=np.where(rng.random(near.shape) < 0.1, -1, near),
    )


RATIOS = st.floats(0, 1)
SEEDS = st.integers(0, 1000)
