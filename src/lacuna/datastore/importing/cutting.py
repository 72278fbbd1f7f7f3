"""Cutting the entries of an imported store into sentences, and the sentences into shards. Knows nothing of keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
