"""The definition of the margin, against hand-worked values and a loop along sorted neighbors."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lacuna.margin import count_known
from lacuna.margin.reference import reference_margins
from unit.margin.stores import clustered


def margin_along(distances: NDArray[np.float64], known: NDArray[np.bool_], max_margin: int) -> int:
    """Go along the neighbors, nearest first, unknown before known, and count up to the first unknown one."""
    margin = 0
    for _, is_known in sorted(zip(distances.tolist(), known.tolist(), strict=True)):
        if not is_known or margin == max_margin:
            break
        margin += 1
    return margin


def test_by_hand() -> None:
    distances = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [2.0, 1.0, 3.0], [1.0, 2.0, np.inf]])
    known = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 1, 0]], dtype=bool)
    assert count_known(distances, known).tolist() == [2, 0, 3, 2]
    assert count_known(distances[:, :0], known[:, :0]).tolist() == [0] * 4


@pytest.mark.parametrize("max_margin", [2, 2048])
def test_the_definition_equals_a_loop_along_the_neighbors(max_margin: int) -> None:
    keys, known = clustered(200, 6, 0.8, seed=8)
    wide = keys.astype(np.float64)
    expected = []
    for entry in range(len(keys)):
        distances = np.array([((wide[entry] - other) ** 2).sum() for other in wide])
        expected.append(margin_along(np.delete(distances, entry), np.delete(known, entry), max_margin))
    assert reference_margins(keys, known, max_margin).tolist() == expected


def test_a_query_leaves_nothing_out() -> None:
    keys = np.array([[0.0], [1.0], [3.0]], np.float16)
    known = np.array([True, True, False])
    assert reference_margins(keys, known, 9).tolist() == [1, 1, 2]
    assert reference_margins(keys, known, 9, keys.astype(np.float32)).tolist() == [2, 2, 0]
