"""The words in the sources of a memory: which it has seen, and in which sentences.

Read once for each memory. Edits add few words, so a memory that was edited is not read again.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from lacuna.errors import UnavailableError
from lacuna.glossaries import Stemmer, split_words
from lacuna.memory import Memory
from lacuna.records import SentencePair

# Sentences of a memory that are read; more of them would cost time and add rare words.
_READ = 50_000


class MemoryWords:
    """An index of the words of a memory.

    :param language: The source language.
    """

    def __init__(self, memory: Memory, language: str) -> None:
        self._seen: set[str] = set()
        self._sentences: dict[str, array[int]] = {}
        self._stemmer = Stemmer(language)
        for number, pair in _read(memory):
            words = {word.text.casefold() for word in split_words(pair.source)}
            self._seen |= words
            for stem in {self._stemmer.stem(word) for word in words}:
                self._sentences.setdefault(stem, array("q")).append(number)

    @classmethod
    def of(cls, memory: Memory, language: str) -> MemoryWords:
        """Return the index of a memory; a memory at the same place has the same one."""
        return _index_of(_Place(memory.place, memory), language)

    def __contains__(self, word: str) -> bool:
        return word.casefold() in self._seen

    def sentences_with(self, words: list[str], most: int) -> list[int]:
        """Return the numbers of sentences that have all of some words, in any form."""
        found = [self._sentences.get(self._stemmer.stem(word), array("q")) for word in words]
        if not found:
            return []
        rarest, *others = sorted(found, key=len)
        remaining = [set(numbers) for numbers in others]
        return list(islice((number for number in rarest if all(number in each for each in remaining)), most))


@dataclass(frozen=True, slots=True)
class _Place:
    """A memory, the same as another one at its place."""

    name: str
    memory: Memory = field(compare=False)


@lru_cache(maxsize=8)
def _index_of(place: _Place, language: str) -> MemoryWords:
    return MemoryWords(place.memory, language)


def _read(memory: Memory) -> list[tuple[int, SentencePair]]:
    """Return the first sentences of a memory; none if its server does not answer, since they only add forms."""
    try:
        return list(islice(memory.sentences.present(), _READ))
    except UnavailableError:
        return []
