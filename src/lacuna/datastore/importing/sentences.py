"""Cut the entries of an imported store into sentences, and the sentences into shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore.importing.formats import POSITIONS, SENTENCE_IDS, ForeignStore
from lacuna.errors import StoreError


@dataclass(frozen=True, slots=True)
class ShardRange:
    """The entries of one shard.

    :param first: The row of the first entry.
    :param ends: The end of each sentence, relative to ``first``: the row after its last entry.
    :param position: The position of each entry in its sentence.
    :param places: The place of each sentence in the imported store, for its origin.
    """

    first: int
    ends: NDArray[np.int64]
    position: NDArray[np.int64]
    places: list[str]

    @property
    def rows(self) -> int:
        """Number of entries."""
        return int(self.ends[-1])


def cut_shards(store: ForeignStore, entries: int, eos_id: int, longest: int, shard_rows: int) -> Iterator[ShardRange]:
    """Cut the first ``entries`` rows into shards of at most ``shard_rows``, at the ends of sentences.

    If the store has sentence ids, they decide; otherwise a sentence ends with the end token. A run that is longer than
    any sentence of the model has lost its end tokens and is cut.

    :param longest: Largest number of tokens in a sentence.
    """
    first = 0
    while first < entries:
        # One row more than fits, to see whether the last one ends a sentence.
        last = min(first + max(shard_rows, longest) + 1, entries)
        numbers = _sentence_columns(store, first, last)
        values = store.values.column(first, last)
        final = values == eos_id if numbers is None else _last_of_sentences(*numbers)
        ends = sentence_ends(final, longest)
        within = ends[ends <= shard_rows]
        ends = within if len(within) else ends[:1]
        yield _shard_range(first, ends, numbers)
        first += int(ends[-1])


def sentence_ends(final: NDArray[np.bool_], longest: int) -> NDArray[np.int64]:
    """Return the row after the last one of each sentence.

    :param final: Whether a row ends its sentence; the last row of all always does.
    :param longest: Largest number of rows in a sentence; longer ones are cut into pieces of this length and a rest.
    """
    ends = np.flatnonzero(np.append(final[:-1], True)) + 1
    starts = np.concatenate([[0], ends[:-1]])
    pieces = -(-(ends - starts) // longest)
    number = np.arange(1, pieces.sum() + 1) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cuts: NDArray[np.int64] = np.minimum(np.repeat(starts, pieces) + number * longest, np.repeat(ends, pieces))
    return cuts


def _sentence_columns(store: ForeignStore, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    if SENTENCE_IDS not in store.extras or POSITIONS not in store.extras:
        return None
    ids, positions = (store.extras[name].column(first, last) for name in (SENTENCE_IDS, POSITIONS))
    wrong = (positions < 0) | (positions > np.iinfo(np.int32).max)
    if wrong.any():
        row = int(wrong.argmax())
        path = store.extras[POSITIONS].path
        raise StoreError(f"{path}: entry {first + row} has position {positions[row]}; allowed is 0 or more")
    return ids, positions


def _last_of_sentences(ids: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.append((np.diff(ids) != 0) | (np.diff(positions) <= 0), False)


def _shard_range(
    first: int, ends: NDArray[np.int64], numbers: tuple[NDArray[np.int64], NDArray[np.int64]] | None
) -> ShardRange:
    starts, rows = np.concatenate([[0], ends[:-1]]), int(ends[-1])
    if numbers is None:
        position = np.arange(rows) - np.repeat(starts, ends - starts)
        return ShardRange(first, ends, position, [f"entry {row}" for row in (first + starts).tolist()])
    ids, positions = numbers
    return ShardRange(first, ends, positions[:rows], [f"sentence {number}" for number in ids[starts].tolist()])
