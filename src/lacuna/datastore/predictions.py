"""Asking a model whether the keys of a store still say what it predicted when they were made.

Keys are kept in half precision, so where two tokens were almost equally probable the other may win; there are few of
these. Many mean that keys and model do not belong together. Knows of a model only that it can be asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.store import Store
from lacuna.progress import SILENT, Progress

_KEYS_AT_ONCE = 4096
# Rounding turned 0.1 % at most of the predictions of any model seen so far.
_ROUNDING = 0.01


@dataclass(frozen=True, slots=True)
class PredictionReport:
    """How many stored predictions come back from the stored keys.

    :param mismatches: Entries whose key now gives another token than was stored.
    """

    entries: int
    mismatches: int

    @property
    def sound(self) -> bool:
        """Whether rounding can explain the mismatches."""
        return self.mismatches <= max(1, _ROUNDING * self.entries)

    def as_json(self) -> dict[str, Any]:
        """Give the report as JSON has it."""
        return {"entries": self.entries, "mismatches": self.mismatches}


def compare_predictions(
    store: Store, predict: Callable[[NDArray[np.float16]], NDArray[np.int64]], progress: Progress = SILENT
) -> PredictionReport:
    """Ask for the most probable token of every key, and count where it is not the stored prediction."""
    mismatches = 0
    progress.start("predict from keys", store.entries, "entries")
    for first, keys in store.keys.blocks(_KEYS_AT_ONCE):
        mismatches += int(np.count_nonzero(predict(keys) != store.predictions[first : first + len(keys)]))
        progress.advance(len(keys))
    progress.finish()
    return PredictionReport(store.entries, mismatches)
