"""Exact and near matches of a whole segment in memories, as in translation memories.

Two sources match if they are equal after Unicode and white space normalization, with any placeholders in the same
places: the translation then gets the placeholders of the new source.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from lacuna.corpora.placeholders import find_placeholders, placeholder_spans, same_placeholders
from lacuna.errors import UnavailableError
from lacuna.records import SentencePair

if TYPE_CHECKING:
    from lacuna.memory.base import Memory

_HOLE = "\ufffc"  # OBJECT REPLACEMENT CHARACTER, for any placeholder


@dataclass(frozen=True, slots=True)
class Match:
    """A sentence of a memory that equals or resembles a segment.

    :param similarity: 1 for an exact match; otherwise 1 minus the edit distance divided by the longer length.
    :param text: The translation of an exact match with the placeholders of the segment; otherwise as in the memory.
    """

    memory: str
    sentence: int
    pair: SentencePair
    similarity: float
    text: str


@dataclass(frozen=True, eq=False)
class SourceTable:
    """The sentences of a memory by the shape of their source. Of the texts, only the shapes are kept.

    :param shapes: Numbers of the sentences of each shape, in the order of the memory.
    :param tags: Labels of the sentences that have one.
    """

    shapes: dict[str, list[int]]
    tags: dict[int, str]

    @classmethod
    def read(cls, sentences: Iterable[tuple[int, SentencePair]]) -> SourceTable:
        """Make the table of all sentences of a memory."""
        table = cls({}, {})
        table._add(sentences)
        return table

    def changed(self, gone: Collection[int], new: Iterable[tuple[int, SentencePair]]) -> SourceTable:
        """Return the table without some sentences and with others, which come last."""
        kept = ((shape, [number for number in own if number not in gone]) for shape, own in self.shapes.items())
        tags = {number: tag for number, tag in self.tags.items() if number not in gone}
        table = SourceTable({shape: own for shape, own in kept if own}, tags)
        table._add(new)
        return table

    @cached_property
    def numbers(self) -> frozenset[int]:
        """The sentences in the table."""
        return frozenset(number for own in self.shapes.values() for number in own)

    def find(self, shape: str, tag: str | None) -> list[int]:
        """Return the sentences of a shape; with a label, only those that have it."""
        return [number for number in self.shapes.get(shape, ()) if tag is None or self.tags.get(number) == tag]

    def _add(self, sentences: Iterable[tuple[int, SentencePair]]) -> None:
        for number, pair in sentences:
            if pair.source:
                self.shapes.setdefault(_shape(pair.source), []).append(number)
                if pair.origin.tag is not None:
                    self.tags[number] = pair.origin.tag


class SegmentMatches:
    """Finds segments among the sentences of memories.

    :param tag: Only pairs with this label.
    :param fallback: A memory whose server does not answer has no matches, instead of an error.
    """

    def __init__(self, memories: Sequence[Memory], tag: str | None = None, *, fallback: bool = False) -> None:
        self._memories, self._tag, self._fallback = memories, tag, fallback

    def exact(self, text: str) -> Match | None:
        """Return the translation of the same segment: the most frequent one, of these the newest."""
        matches = list(self._exact(text))
        if not matches:
            return None
        votes = Counter(match.text for match in matches)
        return max(enumerate(matches), key=lambda item: (votes[item[1].text], item[0]))[1]

    def holding(self, text: str, translation: str) -> Match | None:
        """Return the same segment with this translation; Unicode and white space do not count."""
        wanted = _folded(translation)
        matches = [match for match in self._exact(text) if _folded(match.text) == wanted]
        return matches[-1] if matches else None

    def _exact(self, text: str) -> Iterator[Match]:
        shape = _shape(text)
        for memory in self._memories:
            with suppress(*self._suppressed):
                numbers = memory.sources().find(shape, self._tag)
                for number, pair in memory.sentences.find(numbers).items() if numbers else ():
                    filled = _refilled(text, pair)
                    if filled is not None:
                        yield Match(memory.name, number, pair, 1.0, filled)

    def near(self, text: str, most: int = 3, similarity: float = 0.7) -> list[Match]:
        """Return the most similar segments, best first, an exact match included.

        :param similarity: Smallest similarity.
        """
        shape = _shape(text)
        best: dict[str, Match] = {}  # of equal segments, the last one is shown
        for memory in self._memories:
            with suppress(*self._suppressed):
                best |= self._near(memory, text, shape, most, similarity)
        return sorted(best.values(), key=lambda match: -match.similarity)[:most]

    def _near(self, memory: Memory, text: str, shape: str, most: int, similarity: float) -> dict[str, Match]:
        table = memory.sources()
        shapes = (
            table.shapes if self._tag is None else [known for known in table.shapes if table.find(known, self._tag)]
        )
        best = process.extract(
            shape,
            list(shapes),
            scorer=Levenshtein.normalized_similarity,
            limit=most,
            score_cutoff=similarity,
        )
        numbers = {near: table.find(near, self._tag)[-1] for near, _, _ in best}
        pairs = memory.sentences.find(list(numbers.values()))
        matches = {}
        for near, score, _ in best:
            number = numbers[near]
            if number in pairs:  # not forgotten a moment ago
                filled = _refilled(text, pairs[number]) if score == 1 else None
                target = pairs[number].target if filled is None else filled
                matches[near] = Match(memory.name, number, pairs[number], float(score), target)
        return matches

    @property
    def _suppressed(self) -> tuple[type[Exception], ...]:
        return (UnavailableError,) if self._fallback else ()


def _shape(text: str) -> str:
    """Return a text with one sign for any run of placeholders, normalized."""
    parts, last = [], 0
    for start, end in placeholder_spans(text):
        parts += [text[last:start], _HOLE]
        last = end
    return " ".join(unicodedata.normalize("NFC", "".join([*parts, text[last:]])).split())


def _folded(text: str) -> str:
    """Return a text as tokenizers may have changed it."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _refilled(text: str, pair: SentencePair) -> str | None:
    """Return the translation of a pair with the placeholders of a text of the same shape; None if it is not certain."""
    old, new = find_placeholders(pair.source), find_placeholders(text)
    if old == new:
        return pair.target if same_placeholders(pair.source, pair.target) else None
    # Equal placeholders cannot be told apart in the translation.
    if len(old) != len(new) or len(set(old)) < len(old) or not same_placeholders(pair.source, pair.target):
        return None
    replaced, last = [], 0
    names = dict(zip(old, new, strict=True))
    for start, end in placeholder_spans(pair.target):
        replaced += [
            pair.target[last:start],
            *(names[placeholder] for placeholder in find_placeholders(pair.target[start:end])),
        ]
        last = end
    return "".join([*replaced, pair.target[last:]])
