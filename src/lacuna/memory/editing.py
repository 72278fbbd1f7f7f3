"""What the edits of all memories share: their report, and which of the given pairs are added."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lacuna.datastore.windows import Encoder, split_by_fit
from lacuna.errors import SettingError, StoreError
from lacuna.records import SentencePair

# Segments of about the same size are merged when there are this many. Each entry is then copied once per factor of
# this size, and a memory has few segments.
MERGED_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class EditReport:
    """What an edit did.

    :param commit: Number of the commit; ``None`` if nothing was to be done.
    :param added: Ids of the new sentences, in the order of the pairs that were added.
    :param forgotten: Ids of the sentences forgotten or replaced.
    :param repeated: Number of pairs that were there already, and were not added again.
    :param skipped: Number of pairs that are too long for the model.
    :param entries: Number of entries of the memory.
    :param sentences: Number of sentence ids of the memory.
    :param segments: Number of segments.
    :param kept: Number of the skipped pairs that have the id of a pair of the memory, which stays as it was.
    """

    commit: int | None
    added: tuple[int, ...]
    forgotten: tuple[int, ...]
    repeated: int
    skipped: int
    entries: int
    sentences: int
    segments: int
    kept: int = 0

    @property
    def has_many_segments(self) -> bool:
        """Whether segments may be worth merging."""
        return self.segments >= MERGED_AT_ONCE

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return asdict(self)


def fitting_pairs(
    memory: str, pairs: Iterable[SentencePair], model: Encoder
) -> tuple[list[SentencePair], list[SentencePair]]:
    """Return the pairs that can be added, and those that are too long for the model.

    :param memory: Names the memory in messages.
    :raises StoreError: There is nothing to add.
    """
    fitting, too_long = split_by_fit(pairs, model)
    if not fitting:
        reason = f"all {len(too_long):,} pairs are too long for the model" if too_long else "no pair is left"
        raise StoreError(f"{memory}: nothing to add, {reason} after cleaning; give other pairs")
    return fitting, too_long


def same_pair(one: SentencePair, other: SentencePair) -> bool:
    """Tell whether a memory that has one pair gains nothing from the other."""
    return (one.source, one.target, one.origin.tag) == (other.source, other.target, other.origin.tag)


def last_of_each_id(pairs: Sequence[SentencePair]) -> list[SentencePair]:
    """Drop pairs whose id another pair has later."""
    last = {pair.id: number for number, pair in enumerate(pairs) if pair.id is not None}
    return [pair for number, pair in enumerate(pairs) if pair.id is None or last[pair.id] == number]


def corrected_pair(memory: str, pair: SentencePair, target: str, model: Encoder) -> SentencePair:
    """Return a pair with another translation.

    :param memory: Names the memory in messages.
    :raises SettingError: The translation is empty.
    :raises StoreError: The pair is too long for the model now.
    """
    if not target.strip():
        raise SettingError("target: got an empty text; give the right translation, or use forget")
    corrected = replace(pair, target=target)
    if split_by_fit([corrected], model)[1]:
        raise StoreError(f"{memory}: the corrected pair is too long for the model; shorten it")
    return corrected
