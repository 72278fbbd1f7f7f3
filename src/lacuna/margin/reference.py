"""The definition of the knowledge margin in plain NumPy (PLAC, section 3).

Tests compare every other implementation with this one. Knows nothing of stores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def count_known(distances: NDArray[np.floating[Any]], known: NDArray[np.bool_]) -> NDArray[np.int64]:  # (queries,)
    """Count the known neighbors that are nearer than all unknown ones: at equal distance, unknown neighbors come first.

    :param distances: Distances of the neighbors, in any order. # (queries, neighbors)
    :param known: Whether each neighbor is known; False where there is none.
    """
    nearest_unknown = distances.min(axis=1, initial=np.inf, where=~known)
    return np.asarray(np.count_nonzero(known & (distances < nearest_unknown[:, None]), axis=1), dtype=np.int64)


def reference_margins(
    keys: NDArray[np.float16],
    known: NDArray[np.bool_],
    max_margin: int,
    queries: NDArray[np.float32] | None = None,
) -> NDArray[np.int64]:
    """Compute margins in float64, one by one.

    :param queries: Vectors to measure; by default all keys, each left out of its own neighbors. # (queries, dimension)
    """
    wide, margins = keys.astype(np.float64), []
    for number, vector in enumerate(wide if queries is None else queries.astype(np.float64)):
        others = np.arange(len(keys)) != (number if queries is None else -1)
        distances = ((wide[others] - vector) ** 2).sum(axis=1)
        margins.append(int(count_known(distances[None], known[None, others])[0]))
    return np.minimum(np.array(margins, dtype=np.int64), max_margin)
