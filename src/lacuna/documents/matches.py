"""Exact and near matches of a whole segment in memories, as in translation memories.

Two sources match if they are equal after Unicode and white space normalization, with any placeholders in the same
places: the translation then gets the placeholders of the new source. Memories in Milvus are not looked up, because all
their sentences would have to be read.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from lacuna.corpora.placeholders import find_placeholders, placeholder_spans, same_placeholders
from lacuna.documents.paragraphs import Paragraph, Sentence
from lacuna.explanation.confidence import Scored
from lacuna.memory import Memory
from lacuna.milvus import CollectionStore
from lacuna.records import SentencePair

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


class SegmentMatches:
    """Finds segments among the sentences of memories. Reads them at the first use, and keeps their shapes.

    :param tag: Only pairs with this label.
    """

    def __init__(self, memories: Sequence[Memory], tag: str | None = None) -> None:
        self._memories = [memory for memory in memories if not isinstance(memory.store, CollectionStore)]
        self._tag = tag

    def exact(self, text: str) -> Match | None:
        """Return the translation of the same segment: the most frequent one, of these the newest."""
        matches = self._exact(text)
        if not matches:
            return None
        votes = Counter(match.text for match in matches)
        return max(enumerate(matches), key=lambda one: (votes[one[1].text], one[0]))[1]

    def holding(self, text: str, translation: str) -> Match | None:
        """Return the same segment with this translation; Unicode and white space do not count."""
        wanted = _folded(translation)
        return next((match for match in reversed(self._exact(text)) if _folded(match.text) == wanted), None)

    def _exact(self, text: str) -> list[Match]:
        places = (self._sentences[number] for number in self._shapes.get(_shape(text), ()))
        return [match for place in places if (match := _match(text, *place)) is not None]

    def near(self, text: str, most: int = 3, similarity: float = 0.7) -> list[Match]:
        """Return the most similar segments, best first, an exact match included.

        :param similarity: Smallest similarity.
        """
        best = process.extract(
            _shape(text),
            self._all_shapes,
            scorer=Levenshtein.normalized_similarity,
            limit=most,
            score_cutoff=similarity,
        )
        results = []
        for shape, score, _ in best:
            memory, sentence = self._sentences[self._shapes[shape][-1]]
            pair = memory.store.sentences[sentence]
            filled = _refilled(text, pair) if score == 1 else None
            results.append(Match(memory.name, sentence, pair, float(score), pair.target if filled is None else filled))
        return results

    @cached_property
    def _sentences(self) -> list[tuple[Memory, int]]:
        return [place for _, place in self._read]

    @cached_property
    def _shapes(self) -> dict[str, list[int]]:
        shapes: dict[str, list[int]] = {}
        for number, (shape, _) in enumerate(self._read):
            shapes.setdefault(shape, []).append(number)
        return shapes

    @cached_property
    def _all_shapes(self) -> list[str]:
        return list(self._shapes)

    @cached_property
    def _read(self) -> list[tuple[str, tuple[Memory, int]]]:
        return list(self._all())

    def _all(self) -> Iterator[tuple[str, tuple[Memory, int]]]:
        for memory in self._memories:
            for sentence, pair in memory.store.sentences.present():
                if pair.source and (self._tag is None or pair.origin.tag == self._tag):
                    yield _shape(pair.source), (memory, sentence)


def mark_matches(paragraph: Paragraph, matches: SegmentMatches) -> Paragraph:
    """Mark sentences that are translated as in a memory: a person did, so they get no flag and no confidence.

    The confidence is that of the model alone, which says nothing about them.
    """
    return replace(paragraph, sentences=tuple(_marked(sentence, matches) for sentence in paragraph.sentences))


def _marked(sentence: Sentence, matches: SegmentMatches) -> Sentence:
    if sentence.scored is None:
        return sentence
    translation = sentence.scored.translation
    match = matches.holding(sentence.source, translation.text)
    if match is None:
        return sentence
    return sentence._replace(scored=Scored(replace(translation, flag=""), None), match=match.memory)


def _match(text: str, memory: Memory, sentence: int) -> Match | None:
    pair = memory.store.sentences[sentence]
    filled = _refilled(text, pair)
    return None if filled is None else Match(memory.name, sentence, pair, 1.0, filled)


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
        replaced += [pair.target[last:start], *(names[one] for one in find_placeholders(pair.target[start:end]))]
        last = end
    return "".join([*replaced, pair.target[last:]])
