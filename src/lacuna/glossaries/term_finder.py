"""Finding the terms of a glossary in a source text.

Terms are looked up by their first word, so a sentence without terms costs its own words only, whatever the size of the
glossary. In languages that write compounds as one word, a term is also found as the first or last part of a word if
what it is joined to is a word as well. Knows nothing of models and files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

from lacuna.glossaries.glossary import Glossary, Term
from lacuna.glossaries.stemming import Stemmer
from lacuna.glossaries.word_sequences import WordSequence, match_at, read_words, select_longest
from lacuna.glossaries.words import Word, fold, has_same_capitals, is_joined

_COMPOUNDING = frozenset(("de", "nl", "sv", "da", "nb", "nn", "no", "fi"))
# What may stand between the parts of a compound.
_LINKS = ("", "s", "es", "n", "en", "er", "e")
_SHORTEST_PART = 3


@dataclass(frozen=True, slots=True)
class FoundTerm:
    """A term where it stands in a text.

    :param in_compound: Whether it is a part of a longer word, or joined to one by a hyphen or by nothing but inline
        codes, in a language that writes compounds as one word.
    """

    term: Term
    start: int
    end: int
    in_compound: bool = False


class _Entry(NamedTuple):
    """A term as it is looked up.

    :param number: Its place in the glossary.
    """

    number: int
    term: Term
    form: WordSequence


class _Match(NamedTuple):
    """A candidate. Of two at the same place the smaller ``rank`` is the better one."""

    start: int
    end: int
    rank: tuple[bool, bool, int]
    found: FoundTerm


class TermFinder:
    """Finds terms.

    :param language: Of the texts, as a code.
    :param knows_word: Tells whether a word, written without capitals, is known in the domain, for instance from the
        sources of a memory. Without it, terms are not found inside words.
    :ivar without_words: Terms that no text can have, because their source is a placeholder or has only signs.
    """

    def __init__(self, glossary: Glossary, language: str, knows_word: Callable[[str], bool] | None = None) -> None:
        self._stemmer = Stemmer(language)
        self._compounds = self._stemmer.language in _COMPOUNDING
        self._knows = knows_word
        self._entries: defaultdict[tuple[str, ...], list[_Entry]] = defaultdict(list)
        lengths: defaultdict[str, set[int]] = defaultdict(set)
        without_words = []
        for number, term in enumerate(glossary):
            form = read_words(term.source, self._stemmer)
            if not form.words:
                without_words.append(term)
                continue
            keys = {form.folded, form.stems} if term.inflected else {form.folded}
            for key in keys:
                self._entries[key].append(_Entry(number, term, form))
                lengths[key[0]].add(len(key))
        self._lengths = {first: tuple(sorted(found)) for first, found in lengths.items()}
        self.without_words = tuple(without_words)

    def knowing(self, knows_word: Callable[[str], bool]) -> TermFinder:
        """Return a finder of the same terms that has another function for known words. The index is shared."""
        finder = copy(self)
        finder._knows = knows_word
        return finder

    def find(self, text: str) -> list[FoundTerm]:
        """Return the terms of a text, in order.

        Where terms overlap, the longest wins, and then the leftmost; of several at one place, one that needs its
        capitals, then one that is spelled as it stands there.
        """
        if not self._entries:
            return []
        words = read_words(text, self._stemmer)
        matches = [match for place in range(len(words.words)) for match in self._at(words, place)]
        if self._compounds and self._knows is not None:
            taken = {place for match in matches for place in range(match.start, match.end)}
            for word in words.words:
                if word.start not in taken:
                    matches += self._inside(word, self._knows)
        matches.sort(key=lambda match: match.rank)
        chosen = select_longest((match.start, match.end) for match in matches)
        return [matches[number].found for number in chosen]

    def _at(self, words: WordSequence, place: int) -> Iterator[_Match]:
        """Yield the terms whose first word is at a place."""
        seen = set()
        for spelling in (words.folded, words.stems):
            for length in self._lengths.get(spelling[place], ()):
                for number, term, form in self._entries.get(spelling[place : place + length], ()):
                    if number in seen:
                        continue
                    span = match_at(words, place, form, inflected=term.inflected, case_sensitive=term.case_sensitive)
                    if span is not None:
                        seen.add(number)
                        as_written = words.folded[place : place + length] == form.folded
                        rank = (not term.case_sensitive, not as_written, number)
                        in_compound = self._compounds and is_joined(words.text, *span)
                        yield _Match(*span, rank, FoundTerm(term, *span, in_compound))

    def _inside(self, word: Word, knows: Callable[[str], bool]) -> Iterator[_Match]:
        """Yield the terms that are the first or last part of a word, unless the whole word is known."""
        if len(word.text) < 2 * _SHORTEST_PART or knows(fold(word.text)):
            return
        for cut in range(_SHORTEST_PART, len(word.text) - _SHORTEST_PART + 1):
            for first, last, rest in ((0, cut, word.text[cut:]), (cut, len(word.text), word.text[:cut])):
                # Asked first, since most parts are no words, and stems of those would fill the cache.
                if not any(knows(other) for other in _without_links(fold(rest), first == 0)):
                    continue
                entry = self._part(word.text[first:last], last=first > 0)
                if entry is not None and knows(fold(entry.term.source)):
                    start, end = word.start + first, word.start + last
                    rank = (not entry.term.case_sensitive, True, entry.number)
                    yield _Match(start, end, rank, FoundTerm(entry.term, start, end, in_compound=True))

    def _part(self, part: str, *, last: bool) -> _Entry | None:
        """Return the term of one word that a part of a word is; only the last part is inflected."""
        folded, stem = fold(part), self._stemmer.stem(part) if last else ""
        candidates = [*self._entries.get((folded,), []), *self._entries.get((stem,), [])]
        for entry in candidates:
            form, term = entry.form, entry.term
            if (
                len(form.words[0].text) == len(form.text.strip())  # no signs belong to it
                and (form.folded == (folded,) or (term.inflected and form.stems == (stem,)))
                and (not term.case_sensitive or has_same_capitals(form.words[0].text, part))
            ):
                return entry
        return None


def _without_links(rest: str, follows: bool) -> Sequence[str]:
    """Return what the rest of a compound may be as a word, without what links it to the other part.

    :param follows: Whether the rest is the last part.
    """
    if follows:
        found = [rest[len(link) :] for link in _LINKS if rest.startswith(link)]
    else:
        found = [rest[: len(rest) - len(link)] for link in _LINKS if rest.endswith(link)]
    return [other for other in found if len(other) >= _SHORTEST_PART]
