"""Find sentences of a memory: by number, tag, file, text or pattern, or by the caller's own id.

Forgotten sentences are not found. Texts are read at each call; only their hashes can be kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.errors import SettingError
from lacuna.records import SentencePair


class MemorySentences(Protocol):
    """The sentence pairs of a memory by number; those of a store are a :class:`~lacuna.datastore.SentenceTable`."""

    def __len__(self) -> int:
        """Return the number of sentences; in files, those that were forgotten are counted too."""

    def __contains__(self, sentence: int) -> bool:
        """Tell whether a sentence exists and was not forgotten."""

    def __getitem__(self, sentence: int) -> SentencePair:
        """Return the pair of a sentence; an IndexError if there is none."""

    def pairs(self, sentences: Sequence[int]) -> dict[int, SentencePair]:
        """Return the pairs of several sentences; an IndexError if one does not exist."""

    def find(self, sentences: Sequence[int]) -> dict[int, SentencePair]:
        """Return the pairs of those sentences that exist."""

    def present(self) -> Iterator[tuple[int, SentencePair]]:
        """Yield the number and the pair of each sentence, in the order of the numbers."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which sentences to forget; a sentence must meet all conditions that are given.

    Not a set of rows: it is resolved when the edit begins, in the latest state of the memory.

    :param sentences: Sentence ids.
    :param tag: The label of the pair.
    :param origin: The file of the pair, as named when it was added.
    :param matching: A regular expression, found in the source or the target.
    :param pairs: Pairs of source and target.
    """

    sentences: tuple[int, ...] | None = None
    tag: str | None = None
    origin: str | None = None
    matching: str | None = None
    pairs: tuple[SentencePair, ...] | None = None

    def check(self, sentences: MemorySentences, memory: str) -> None:
        """Refuse a selection that is not valid, without reading all sentences.

        :param memory: Names the memory in messages.
        :raises SettingError: No condition is given, or an id or the pattern is not valid.
        """
        if all(each is None for each in (self.sentences, self.tag, self.origin, self.matching, self.pairs)):
            raise SettingError("selection: nothing selected; give sentence, tag, origin, matching or pairs")
        _compile(self.matching)
        for sentence in self.sentences or ():
            check_sentence(sentences, sentence, memory)

    def find(self, sentences: MemorySentences, memory: str) -> NDArray[np.int64]:
        """Return the ids of the selected sentences, sorted.

        :raises SettingError: As in :meth:`check`.
        """
        self.check(sentences, memory)
        pattern = _compile(self.matching)
        texts = None if self.pairs is None else {(pair.source, pair.target) for pair in self.pairs}
        selected = []
        for sentence, pair in self._candidates(sentences):
            if (
                (self.tag is None or pair.origin.tag == self.tag)
                and (self.origin is None or pair.origin.file == self.origin)
                and (pattern is None or pattern.search(pair.source) or pattern.search(pair.target))
                and (texts is None or (pair.source, pair.target) in texts)
            ):
                selected.append(sentence)
        return np.array(selected, dtype=np.int64)

    def _candidates(self, sentences: MemorySentences) -> Iterable[tuple[int, SentencePair]]:
        if self.sentences is None:
            return sentences.present()
        return sorted(sentences.pairs(list(set(self.sentences))).items(), key=lambda item: item[0])


def check_sentence(sentences: MemorySentences, sentence: int, memory: str) -> None:
    """Refuse the id of a sentence that does not exist or was forgotten.

    :param memory: Names the memory in messages.
    """
    if sentence in sentences:
        return
    if not 0 <= sentence < len(sentences):
        allowed = f"0 to {len(sentences) - 1}" if len(sentences) else "none, it is empty"
        raise SettingError(f"sentence: got {sentence}; the sentences of {memory} are {allowed}")
    raise SettingError(f"sentence: {sentence} of {memory} was forgotten before; choose another")


def _compile(pattern: str | None) -> re.Pattern[str] | None:
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise SettingError(f"matching: got {pattern!r}, not a regular expression ({error}); fix the pattern") from error


class SentenceLookup:
    """Finds pairs of a memory in a folder that equal new ones, or have their ids, by hashes of all pairs.

    Segments do not change, so a server keeps one lookup for each memory and reads only new segments.
    """

    def __init__(self) -> None:
        self._hashes: dict[Path, dict[int, list[int]]] = {}

    def find(self, store: Store, pairs: Iterable[SentencePair]) -> dict[int, int]:
        """Return the sentences that new pairs replace or repeat.

        :return: For each position in ``pairs`` with such a sentence, its id in the memory. Without an id, a pair equals
            a sentence of the same source, target and tag.
        """
        parts = [each.store for each in store.parts]
        self._hashes = {part.path: self._table(part) for part in parts}
        firsts = accumulate((len(part.sentences) for part in parts), initial=0)
        tables = list(zip(firsts, self._hashes.values(), strict=False))
        sentences = {}
        for number, pair in enumerate(pairs):
            key = pair_key(pair)
            candidates = [start + local for start, table in tables for local in table.get(_hash(key), ())]
            same = [each for each in candidates if each in store.sentences and pair_key(store.sentences[each]) == key]
            if same:
                sentences[number] = same[-1]
        return sentences

    def _table(self, part: Store) -> dict[int, list[int]]:
        if part.path in self._hashes:
            return self._hashes[part.path]
        table: dict[int, list[int]] = {}
        for sentence, pair in part.sentences.present():
            table.setdefault(_hash(pair_key(pair)), []).append(sentence)
        return table


def pair_key(pair: SentencePair) -> tuple[str, ...]:
    """Return what makes two pairs the same: the caller's id, or the texts and the tag."""
    return (pair.id,) if pair.id is not None else (pair.source, pair.target, pair.origin.tag or "")


def _hash(key: tuple[str, ...]) -> int:
    return xxhash.xxh3_64_intdigest("\0".join(key).encode("utf-8", "surrogatepass"))
