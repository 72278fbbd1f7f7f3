"""Do keys, values and model belong together? What speaks for it is counted as the entries go by.

Three things are asked. Whether the keys could come from the place in the model that they are said to be from: there, a
layer norm made them, and leaves its mark on every one. Whether the model's predictions and the values agree more than
by chance. And whether the predictions are those that the source has written down. Knows no files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import StoreError

OUT, FFN_IN = "out", "ffn_in"

# A rightful key bears the mark to three digits even in half precision; a few may suffer from large numbers.
_MARKED = 0.95
# Cohen's kappa of values and predictions. Values that do not belong to the keys gave 0.00; a small model in a domain
# it knows badly 0.2.
_AGREEMENT = 0.05
# Keys in half precision turn 0.1 % of the predictions; there must be room for models that computed in it, too.
_DIFFERING = 0.05


@dataclass(slots=True)
class Evidence:
    """Counts of what was seen so far.

    :param kind: The kind that the keys are said to be of.
    :param marked: For each kind, keys that could be of it.
    :param differing: For each column of the source that says what the model predicted, entries where ours is another.
    """

    name: str
    kind: str
    vocabulary_size: int
    entries: int = 0
    known: int = 0
    marked: dict[str, int] = field(default_factory=lambda: {OUT: 0, FFN_IN: 0})
    differing: dict[str, int] = field(default_factory=dict)
    _values: NDArray[np.int64] = field(init=False)
    _predictions: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self._values, self._predictions = (np.zeros(self.vocabulary_size, dtype=np.int64) for _ in range(2))

    def add_entries(self, values: NDArray[np.int64], predictions: NDArray[np.int64]) -> None:
        """Take note of entries."""
        self.entries += len(values)
        self.known += int(np.count_nonzero(values == predictions))
        self._values += np.bincount(values, minlength=self.vocabulary_size)
        self._predictions += np.bincount(predictions, minlength=self.vocabulary_size)

    def add_differing(self, column: str, count: int) -> None:
        """Take note of entries of which the source says something else."""
        self.differing[column] = self.differing.get(column, 0) + count

    @property
    def agreement(self) -> float:
        """Cohen's kappa of values and predictions: 0 by chance, 1 where all are known."""
        by_chance = float(self._values @ self._predictions) / self.entries**2
        return (self.known / self.entries - by_chance) / (1 - by_chance) if by_chance < 1 else 1.0

    def check(self) -> None:
        """Refuse to go on where keys, values and model cannot belong together."""
        likely = [kind for kind, count in self.marked.items() if count >= _MARKED * self.entries]
        if self.kind not in likely:
            way_out = (
                f"they look like {likely[0]}: give --key {likely[0]}" if likely else "name the model they come from"
            )
            raise StoreError(
                f"{self.name}: only {self.marked[self.kind]:,} of {self.entries:,} keys can be its own of kind "
                f"{self.kind}; {way_out}"
            )
        for column, count in self.differing.items():
            if count > max(1, _DIFFERING * self.entries):
                raise StoreError(
                    f"{self.name}: {column} says something else than the model for {count:,} of {self.entries:,} "
                    "entries; name the model that the keys come from"
                )
        if self.agreement < _AGREEMENT:
            raise StoreError(
                f"{self.name}: predicts {self.known / self.entries:.1%} of the first {self.entries:,} values, not more "
                "than by chance; name the model that keys and values come from, with its own vocabulary"
            )
