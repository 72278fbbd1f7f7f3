"""Cutting the entries of an imported store into sentences, and the sentences into shards. Knows nothing of keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.importing.formats import POSITIONS, SENTENCE_IDS, Source
from lacuna.errors import StoreError


@dataclass(frozen=True, slots=True)
class Stretch:
    """The entries of one shard.

    :param first: The row of the first entry.
    :param ends: Where each sentence ends, counted from ``first``: the row after its last.
    :param position: The place of each entry in its sentence.
    :param places: Where each sentence is in the source, in words.
    """

    first: int
    ends: NDArray[np.int64]
    position: NDArray[np.int64]
    places: list[str]

    @property
    def rows(self) -> int:
        """Number of entries."""
        return int(self.ends[-1])

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each sentence starts, counted from ``first``."""
        return np.concatenate([[0], self.ends[:-1]])


def cut(source: Source, entries: int, eos_id: int, longest: int, shard_rows: int) -> Iterator[Stretch]:
    """Cut the first ``entries`` rows into stretches of at most ``shard_rows``, at the ends of sentences.

    Where the source says which sentence each entry is of, sentences are taken from there; otherwise each ends with the
    end token. What is longer than any sentence the model can take is cut: such a run has lost its end tokens.

    :param longest: Tokens that a sentence may have.
    """
    first = 0
    while first < entries:
        # One row more than could be taken, to see whether the last of them ends a sentence.
        last = min(first + max(shard_rows, longest) + 1, entries)
        numbers = _sentence_columns(source, first, last)
        values = source.values.column(first, last)
        final = values == eos_id if numbers is None else _last_of_sentences(*numbers)
        ends = sentence_ends(final, longest)
        within = ends[ends <= shard_rows]
        ends = within if len(within) else ends[:1]
        yield _stretch(first, ends, numbers)
        first += int(ends[-1])


def sentence_ends(final: NDArray[np.bool_], longest: int) -> NDArray[np.int64]:
    """Give the row after the last of each sentence.

    :param final: Whether a row ends its sentence; the last row of all does so anyway.
    :param longest: Rows that a sentence may have; a longer one is cut into pieces of so many and a rest.
    """
    ends = np.flatnonzero(np.append(final[:-1], True)) + 1
    starts = np.concatenate([[0], ends[:-1]])
    pieces = -(-(ends - starts) // longest)
    number = np.arange(1, pieces.sum() + 1) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cuts: NDArray[np.int64] = np.minimum(np.repeat(starts, pieces) + number * longest, np.repeat(ends, pieces))
    return cuts


def _sentence_columns(source: Source, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    if SENTENCE_IDS not in source.extras or POSITIONS not in source.extras:
        return None
    ids, positions = (source.extras[name].column(first, last) for name in (SENTENCE_IDS, POSITIONS))
    wrong = (positions < 0) | (positions > np.iinfo(np.int32).max)
    if wrong.any():
        row = int(wrong.argmax())
        path = source.extras[POSITIONS].path
        raise StoreError(f"{path}: entry {first + row} has position {positions[row]}; allowed is 0 or more")
    return ids, positions


def _last_of_sentences(ids: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.append((np.diff(ids) != 0) | (np.diff(positions) <= 0), False)


def _stretch(
    first: int, ends: NDArray[np.int64], numbers: tuple[NDArray[np.int64], NDArray[np.int64]] | None
) -> Stretch:
    starts, rows = np.concatenate([[0], ends[:-1]]), int(ends[-1])
    if numbers is None:
        position = np.arange(rows) - np.repeat(starts, ends - starts)
        return Stretch(first, ends, position, [f"entry {row}" for row in (first + starts).tolist()])
    ids, positions = numbers
    return Stretch(first, ends, positions[:rows], [f"sentence {number}" for number in ids[starts].tolist()])


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
