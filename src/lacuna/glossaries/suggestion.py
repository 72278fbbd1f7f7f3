"""Proposals for a glossary from a memory: what it translates consistently, and the model alone gets wrong.

Candidates are n-grams of words on both sides, counted in pairs that differ. Words are compared by their stems. A
proposal is for people to read and correct. Knows nothing of models.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.glossaries.association import Association, Incidence, mutual_best
from lacuna.glossaries.glossary import Term
from lacuna.glossaries.stemming import Stemmer
from lacuna.glossaries.word_sequences import WordSequence, read_words
from lacuna.glossaries.words import fold
from lacuna.memory.overview import without_marks
from lacuna.records import Languages, SentencePair

MIN_COUNT = 5
MIN_SHARE = 0.5
# What ends an n-gram: anything but these between two words.
_JOINED = frozenset(("", " ", "-", "'"))
# Words of an n-gram, and in scripts without spaces characters.
_LONGEST, _LONGEST_UNSPACED = 3, 6
_UNSPACED_LANGUAGES = frozenset(("zh", "ja", "th", "lo", "km", "my"))
# A word in a larger share of the sentences is a function word, which begins and ends no term.
_FUNCTION_SHARE, _FUNCTION_SHARE_UNSPACED = 0.03, 0.2
# In a small memory, terms reach that share too.
_FUNCTION_LEAST = 30
# Characters that may be skipped to find a token in its sentence: at once, and for each token that is missing there.
_SLACK, _SLACK_PER_TOKEN = 3, 20
# Occurrences that are read to find the most common form.
_FORMS_READ = 200
_CODES = re.compile("[\ue000-\uf8ff]")
_LETTERS = re.compile(r"[^\W\d_]")
_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A term that a memory suggests.

    :param count: Sentence pairs with the source and the target.
    :param consistency: Share of the pairs with the source that have the target.
    :param model_wrong: Share of the occurrences of the target in these pairs of which the model alone does not predict
        some token.
    """

    source: str
    target: str
    count: int
    consistency: float
    model_wrong: float

    def as_term(self) -> Term:
        """Return the proposal as a term, with its numbers as a note."""
        note = f"count {self.count}, consistency {self.consistency:.2f}, model wrong {self.model_wrong:.2f}"
        if self.source == self.target:
            return Term(self.source, translate=False, note=note)
        return Term(self.source, (self.target,), note=note)

    def as_json(self) -> dict[str, Any]:
        """Return the proposal as JSON content."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What a memory suggests.

    :param pairs: Number of sentence pairs that were compared.
    :param repeated: Number of pairs that were left out because they repeat another.
    :param proposals: The most important ones first.
    """

    pairs: int
    repeated: int
    proposals: list[Proposal]


class _Side:
    """The words of all sentences of one language, one after the other, and their n-grams."""

    def __init__(self, language: str) -> None:
        self.stemmer = Stemmer(language)
        unspaced = self.stemmer.language in _UNSPACED_LANGUAGES
        self._longest = _LONGEST_UNSPACED if unspaced else _LONGEST
        self._function_share = _FUNCTION_SHARE_UNSPACED if unspaced else _FUNCTION_SHARE
        self._shortest = 1 if unspaced else 2  # letters of a word that begins or ends a term
        self._numbers: dict[str, int] = {}
        self._words: list[int] = []
        self._joined: list[bool] = []
        self._sentences: list[int] = []
        self._spans: list[tuple[int, int]] = []
        self.unknown: list[bool] = []

    def add(self, sentence: int, words: WordSequence, unknown: Iterable[bool] = ()) -> None:
        """Add the words of a sentence."""
        for number, stem in enumerate(words.stems):
            self._words.append(self._numbers.setdefault(stem, len(self._numbers)))
            self._joined.append(number > 0 and words.gaps[number] in _JOINED)
            self._sentences.append(sentence)
            self._spans.append((words.words[number].start, words.words[number].end))
        self.unknown += unknown

    def count(self, total: int, least: int) -> _Ngrams:
        """Return the n-grams that at least some sentences have and that may be terms."""
        words = np.array(self._words, np.int64)
        sentences, joined = np.array(self._sentences, np.int64), np.array(self._joined, np.bool_)
        lengths, places, units, firsts = [], [], [], 0
        # The n-gram that begins at each word, -1 if it is rare: a longer one cannot be more frequent.
        numbers, frequency = _frequent(words, np.arange(len(words)), sentences, len(words), least)
        single, inside = numbers, self._inside(words, frequency, total)
        for length in range(1, self._longest + 1):
            here = np.flatnonzero(numbers >= 0)
            # The edges must be words that can begin and end a term.
            terms = here[inside[here] & inside[here + length - 1]]
            kept, again = np.unique(numbers[terms], return_inverse=True)
            places.append(terms)
            units.append(again + firsts)
            lengths.append(np.full(len(kept), length, np.int64))
            firsts += len(kept)
            here = here[here + length < len(words)]
            here = here[joined[here + length] & (single[here + length] >= 0)]
            codes = numbers[here] * (len(self._numbers) + 1) + words[here + length]
            numbers, _ = _frequent(codes, here, sentences, len(words), least)
        return _Ngrams(np.concatenate(places), np.concatenate(units), np.concatenate(lengths), sentences)

    def _inside(self, words: _Integers, frequency: _Integers, total: int) -> NDArray[np.bool_]:
        """Tell of each word whether a term may begin and end with it."""
        stems = list(self._numbers)
        wordlike = np.array([len(_LETTERS.findall(stem)) >= self._shortest for stem in stems] or [False], np.bool_)
        return wordlike[words] & (frequency <= max(self._function_share * total, _FUNCTION_LEAST))

    def form_of(self, places: _Integers, length: int, read: Callable[[int], str]) -> str:
        """Return the most common form of an n-gram.

        Its capitals are those that it has within sentences, unless it only begins them.

        :param places: The first word of its occurrences.
        :param read: Returns the text of a sentence.
        """
        forms: Counter[str] = Counter()
        spellings: Counter[str] = Counter()
        for place in places[:_FORMS_READ].tolist():
            sentence = self._sentences[place]
            start, end = self._spans[place][0], self._spans[place + length - 1][1]
            form = " ".join(_CODES.sub("", read(sentence)[start:end]).split())
            begins = place == 0 or self._sentences[place - 1] != sentence
            forms[fold(form)] += 1
            spellings[form] += 1 if begins else _FORMS_READ
        [(common, _)] = forms.most_common(1)
        return max((form for form in spellings if fold(form) == common), key=lambda form: spellings[form])


@dataclass(frozen=True, eq=False)
class _Ngrams:
    """N-grams of one side.

    :param places: The first word of each occurrence.
    :param units: The n-gram of each occurrence.
    :param lengths: The number of words of each n-gram.
    :param sentences: The sentence of each word of the side.
    """

    places: _Integers
    units: _Integers
    lengths: _Integers
    sentences: _Integers

    def incidence(self, total: int) -> Incidence:
        """Return the n-grams by sentence."""
        once = np.unique(np.stack([self.sentences[self.places], self.units]), axis=1)
        return Incidence(once[0], once[1], self.lengths, total)

    @cached_property
    def _by_unit(self) -> tuple[_Integers, _Integers]:
        counts = np.bincount(self.units, minlength=len(self.lengths))
        return self.places[np.argsort(self.units, kind="stable")], np.append(0, np.cumsum(counts))

    def places_of(self, unit: int) -> _Integers:
        """Return the first words of the occurrences of an n-gram."""
        places, edges = self._by_unit
        return places[edges[unit] : edges[unit + 1]]


class _Candidate(NamedTuple):
    """Two n-grams that may be a term and its translation.

    :param sources: The first words of the occurrences of the source, in pairs with the target.
    :param targets: The same for the target.
    """

    association: Association
    consistency: float
    model_wrong: float
    sources: _Integers
    targets: _Integers


def suggest_terms(
    store: Store,
    languages: Languages,
    token_text: Callable[[int], str],
    *,
    min_count: int = MIN_COUNT,
    min_share: float = MIN_SHARE,
    most: int | None = None,
) -> Suggestion:
    """Propose terms that a memory translates consistently, and the model alone often gets wrong.

    :param token_text: Returns a token of the model as its vocabulary spells it.
    :param min_count: Sentence pairs that must have the term with its translation.
    :param min_share: Share of the pairs with the term that must have the translation.
    :param most: Number of proposals; by default all.
    """
    source, target = _Side(languages.source), _Side(languages.target)
    kept: list[int] = []
    repeated = 0
    for sentence, pair, unknown in _distinct_pairs(store, token_text):
        if pair is None:
            repeated += 1
            continue
        words = read_words(pair.target, target.stemmer)
        source.add(len(kept), read_words(pair.source, source.stemmer))
        target.add(len(kept), words, unknown_words(words, unknown))
        kept.append(sentence)
    sources = source.count(len(kept), min_count)
    targets = target.count(len(kept), min_count)
    wrong = np.append(0, np.cumsum(np.array(target.unknown, np.int64)))
    candidates = _candidates(sources, targets, wrong, len(kept), min_count, min_share)
    candidates.sort(key=lambda each: (-each.association.together * each.model_wrong, each.association.source))

    proposals: dict[str, Proposal] = {}  # words with several stems can have one spelling: AIDS and aids
    for each in candidates:
        if len(proposals) == most:
            break
        found = each.association
        proposal = Proposal(
            source.form_of(
                each.sources, int(sources.lengths[found.source]), lambda number: store.sentences[kept[number]].source
            ),
            target.form_of(
                each.targets, int(targets.lengths[found.target]), lambda number: store.sentences[kept[number]].target
            ),
            found.together,
            round(each.consistency, 4),
            round(each.model_wrong, 4),
        )
        proposals.setdefault(fold(proposal.source), proposal)
    return Suggestion(len(kept), repeated, list(proposals.values()))


def unknown_words(words: WordSequence, tokens: Iterable[tuple[str, bool, int]]) -> list[bool]:
    """Tell of each word of a sentence whether it has a token that the model does not predict.

    Tokens are looked for one after the other, since some are missing: those that were pruned, those of placeholders,
    and characters that the model reads as others. A word without a token counts as predicted.

    :param tokens: The text without markers, whether the model predicts it, and the position of each.
    """
    owners = {place: number for number, word in enumerate(words.words) for place in range(word.start, word.end)}
    unknown = [False] * len(words.words)
    at, slack, expected = 0, _SLACK, 0
    for text, known, position in tokens:
        slack += _SLACK_PER_TOKEN * (position - expected)
        expected = position + 1
        place = words.text.find(text, at, at + slack + len(text)) if text else -1
        if place < 0:
            slack += _SLACK_PER_TOKEN
            continue
        at, slack = place + len(text), _SLACK
        if not known:
            for owner in {owners[each] for each in range(place, at) if each in owners}:
                unknown[owner] = True
    return unknown


def _distinct_pairs(
    store: Store, token_text: Callable[[int], str]
) -> Iterator[tuple[int, SentencePair | None, list[tuple[str, bool, int]]]]:
    """Yield the sentences of a store with their tokens; no pair for one that repeats another."""
    end = store.manifest.model.eos_id
    texts = {int(value): without_marks(token_text(int(value))) for value in np.unique(store.values)}
    texts[end] = ""
    seen = set()
    for sentence, pair in store.sentences.present():
        key = hash((pair.source, pair.target))
        if key in seen:
            yield sentence, None, []
            continue
        seen.add(key)
        rows = slice(*np.searchsorted(store.sentence, [sentence, sentence + 1]).tolist())
        pieces = [texts[value] for value in store.values[rows].tolist()]
        known, positions = store.known[rows].tolist(), store.position[rows].tolist()
        yield sentence, pair, list(zip(pieces, known, positions, strict=True))


def _candidates(
    sources: _Ngrams, targets: _Ngrams, wrong: _Integers, total: int, min_count: int, min_share: float
) -> list[_Candidate]:
    """Return the n-grams that belong together, often and consistently enough, and that the model gets wrong.

    :param wrong: Before each word of the target side, and after the last, the number of words with an unknown token.
    """
    incidence = sources.incidence(total)
    found = []
    for each in mutual_best(incidence, targets.incidence(total), min_count):
        consistency = each.together / int(incidence.counts[each.source])
        if consistency < min_share:
            continue
        ours, theirs = sources.places_of(each.source), targets.places_of(each.target)
        ours_in, theirs_in = sources.sentences[ours], targets.sentences[theirs]
        ours, theirs = ours[np.isin(ours_in, theirs_in)], theirs[np.isin(theirs_in, ours_in)]
        unknown = wrong[theirs + targets.lengths[each.target]] > wrong[theirs]
        if unknown.any():
            found.append(_Candidate(each, consistency, float(unknown.mean()), ours, theirs))
    return found


def _frequent(
    codes: _Integers, places: _Integers, sentences: _Integers, size: int, least: int
) -> tuple[_Integers, _Integers]:
    """Give a number to each code that some sentences have.

    :param places: The word at which each code is.
    :param size: The number of words.
    :return: For each word, the number of its code, -1 for a rare one or none; and how many sentences have the code.
    """
    _, inverse = np.unique(codes, return_inverse=True)
    once = np.unique(np.stack([inverse, sentences[places]]), axis=1)
    counts = np.bincount(once[0], minlength=1)
    numbers, frequency = np.full(size, -1, np.int64), np.zeros(size, np.int64)
    numbers[places] = np.where(counts >= least, np.arange(len(counts)), -1)[inverse]
    frequency[places] = counts[inverse]
    return numbers, frequency
