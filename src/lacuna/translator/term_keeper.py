"""Keep to a glossary: find its terms in sources, and translations that have the accepted forms.

In this order: a translation that has the terms of its source is left alone; another hypothesis that has them is taken;
the sentence is translated again with a bonus for the accepted forms, then so that every translation must have them;
what is missing even then is flagged. A search may put a term at the wrong place, which costs much probability: then the
source is also translated with the preferred translations in the places of the terms, which models tend to copy, and the
more probable result is taken. Terms that are not to be translated are placeholders.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lacuna.corpora.placeholders import ALONE, LAST
from lacuna.decoding import Constraints, Form, Hypothesis, SentenceConstraints
from lacuna.glossaries import FoundTerm, Glossary, Term
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.records import Languages, TranslatedTerm
from lacuna.translator.restoring import Restored, Restorer
from lacuna.translator.term_check import COPIED, TermCheck
from lacuna.translator.term_forms import TermForms, boundaries_of, is_in_capitals

# In nats, for a form of one token. Chosen on dev sentences with benchmarks/glossary.py: larger ones are less fluent
# than a strict search.
BONUS = 3.0
# In nats per token: a translation that lost more is compared with one of the prompted source. From 0.1 to 0.6, dev
# translations have the same quality; a larger value costs fewer searches.
_DOUBTFUL = 0.5
# In nats per token: a translation that lost more is flagged. Of natural terms, one in a hundred does.
_IMPROBABLE = 1.0
FORCED = "the terms of the glossary make it improbable"

# What may be the end of a sentence with another one after it.
_ENDS_INSIDE = re.compile(r"[.!?:;]\s+\S|[\u3002\uff01\uff1f]\s*\S")

ConstrainedSearch = Callable[[Sequence[str], Constraints], list[list[Hypothesis]]]
"""Finds hypotheses of sources under constraints, the best first."""
Rescore = Callable[[Sequence[str], Sequence[Hypothesis]], list[Hypothesis]]
"""Returns hypotheses with the score that they have as translations of these sources."""


@dataclass(frozen=True, slots=True)
class ReadSource:
    """A source with the terms that occur in it.

    :param protected: The source with a placeholder for each term that is not to be translated.
    :param originals: What these placeholders stand for.
    :param prompted: The protected source with the preferred translation of each term in its place.
    """

    source: str
    protected: str
    terms: tuple[FoundTerm, ...] = ()
    originals: tuple[tuple[str, str], ...] = ()
    prompted: str = ""

    def restore(self, text: str) -> str:
        """Put the terms that are not to be translated into a translation."""
        for placeholder, original in self.originals:
            text = text.replace(placeholder, original)
        return text


class KeptTerms(NamedTuple):
    """A translation, and what became of the terms of its source.

    :param result: The translation; its text has the terms that are not to be translated.
    :param without: The translation without the glossary, if it differs; otherwise empty.
    """

    result: Restored
    terms: tuple[TranslatedTerm, ...] = ()
    without: str = ""


class TermKeeper:
    """Keeps translations to a glossary.

    :param memories: Where inflected forms and the parts of compounds come from.
    :param strict: Do without the bonus: whatever lacks a term is translated so that it must have it.
    """

    def __init__(
        self, model: Model, languages: Languages, glossary: Glossary, memories: Sequence[Memory], *, strict: bool
    ) -> None:
        self._model, self._strict = model, strict
        self._check = TermCheck(glossary, languages, memories)
        self._forms = TermForms(model, languages, memories)

    def read(self, source: str) -> ReadSource:
        """Find the terms of a source."""
        found = tuple(self._check.find(source))
        if not found:
            return ReadSource(source, source)
        free = (chr(code) for code in range(LAST, ALONE - 1, -1) if chr(code) not in source)
        protected, prompted, originals, last = [], [], [], 0
        for term in found:
            own = source[term.start : term.end]
            kept = prompt = own
            if not term.term.translate and self._model.mask_placeholders:
                kept = prompt = next(free, own)
                originals.append((kept, own))
            elif term.term.targets and not term.in_compound:
                prompt = _capitalized_as(own, term.term.targets[0])
            protected += [source[last : term.start], kept]
            prompted += [source[last : term.start], prompt]
            last = term.end
        rest = source[last:]
        return ReadSource(source, "".join([*protected, rest]), found, tuple(originals), "".join([*prompted, rest]))

    def keep(
        self,
        readings: Sequence[ReadSource],
        found: Sequence[Sequence[Hypothesis]],
        restored: Sequence[Restored],
        restorer: Restorer,
        search: ConstrainedSearch,
        rescore: Rescore,
    ) -> list[KeptTerms]:
        """Return a translation of each source that has its terms, as far as one is found.

        :param found: The hypotheses of each protected source.
        :param restored: The translation of each without the glossary.
        """
        best = {
            number: result
            for number, (reading, result) in enumerate(zip(readings, restored, strict=True))
            if reading.terms and not self._accepts(reading, result.text)
        }

        def try_again(numbers: Sequence[int], *, strict: bool, prompted: bool = False) -> None:
            """Search for translations of the sources, or of the prompted ones, that have the terms."""
            results: dict[int, Restored] = {}
            texts = {n: readings[n].prompted if prompted else readings[n].protected for n in numbers}
            for one_sentence in (True, False):
                own = [number for number in numbers if (_ENDS_INSIDE.search(texts[number]) is None) == one_sentence]
                if own:
                    constraints = self._constraints([readings[number] for number in own], strict, one_sentence)
                    for number, hypotheses in zip(own, search([texts[n] for n in own], constraints), strict=True):
                        result = self._choose(readings[number], best[number], hypotheses, restorer)
                        results |= {} if result is None else {number: result}
            if prompted and results:
                sources = [readings[number].protected for number in results]
                scored = rescore(sources, [result.hypothesis for result in results.values()])
                results = {
                    number: replace(result, hypothesis=hypothesis)
                    for (number, result), hypothesis in zip(results.items(), scored, strict=True)
                }
            take(results)

        def take(results: Mapping[int, Restored]) -> None:
            best.update({n: self._better(readings[n], best[n], result) for n, result in results.items()})

        others = {number: self._choose(readings[number], best[number], found[number], restorer) for number in best}
        take({number: result for number, result in others.items() if result is not None})
        for strict in (True,) if self._strict else (False, True):
            wrong = [number for number in best if not self._accepts(readings[number], best[number].text)]
            try_again(wrong, strict=strict)
            doubtful = [n for n in wrong if self._is_doubtful(readings[n], best[n], restored[n])]
            try_again(doubtful, strict=strict, prompted=True)
        return [
            self._kept(reading, result, best.get(number))
            for number, (reading, result) in enumerate(zip(readings, restored, strict=True))
        ]

    def _is_doubtful(self, reading: ReadSource, result: Restored, without: Restored) -> bool:
        """Tell whether a translation lacks a term, has it as in the source, or is much less probable than before."""
        lost = without.hypothesis.score - result.hypothesis.score
        good = self._accepts(reading, result.text) and not self._copied(reading, result.text)
        return reading.prompted != reading.protected and (lost > _DOUBTFUL or not good)

    def _choose(
        self, reading: ReadSource, best: Restored, hypotheses: Sequence[Hypothesis], restorer: Restorer
    ) -> Restored | None:
        """Return the best hypothesis with nothing wrong, or else with less wrong than the best so far."""
        result = restorer.choose(reading.protected, hypotheses, lambda text: self._accepts(reading, text))
        fewest = self._faults(reading, best.text)
        if result is None and fewest:
            result = restorer.choose(reading.protected, hypotheses, lambda text: self._faults(reading, text) < fewest)
        return result

    def _better(self, reading: ReadSource, one: Restored, other: Restored) -> Restored:
        """Return the result with less wrong, then with fewer terms left untranslated, then the more probable one."""

        def rank(result: Restored) -> tuple[int, int, float]:
            copied = len(self._copied(reading, result.text))
            return -self._faults(reading, result.text), -copied, result.hypothesis.score

        return max(one, other, key=rank)

    def _constraints(self, readings: Sequence[ReadSource], strict: bool, one_sentence: bool) -> Constraints:
        """Return what the translations must have.

        :param strict: Every translation must have the terms, instead of a bonus for their forms.
        :param one_sentence: No source has more than one sentence.
        """
        return Constraints(
            [self._constraints_of(reading) for reading in readings],
            boundaries_of(self._model),
            bonus=BONUS,
            strict=strict,
            one_sentence=one_sentence,
        )

    def _constraints_of(self, reading: ReadSource) -> SentenceConstraints:
        required: list[tuple[Form, ...]] = []
        wanted: list[tuple[Form, ...]] = []
        seen: set[Term] = set()
        for found in reading.terms:
            term = found.term
            if not self._is_asked_for(term):
                continue
            forms = self._forms.accepted(term, reading.source[found.start : found.end])
            # A term that occurs twice may be translated once, by a pronoun the second time.
            if forms and term not in seen:
                seen.add(term)
                (wanted if found.in_compound else required).append(forms)
        banned = [form for found in reading.terms for form in self._forms.forbidden(found.term)]
        return SentenceConstraints(tuple(required), tuple(dict.fromkeys(banned)), tuple(wanted))

    def _is_asked_for(self, term: Term) -> bool:
        """Tell whether translations must contain the term, and no placeholder does that."""
        return bool(term.targets) if term.translate else not self._model.mask_placeholders

    def _missing(self, reading: ReadSource, text: str) -> list[Term]:
        return self._check.missing(reading.terms, reading.restore(text))

    def _forbidden(self, reading: ReadSource, text: str) -> list[str]:
        return self._check.forbidden(reading.terms, reading.restore(text))

    def _copied(self, reading: ReadSource, text: str) -> list[str]:
        return self._check.copied(reading.terms, reading.source, reading.restore(text))

    def _faults(self, reading: ReadSource, text: str) -> int:
        return len(self._missing(reading, text)) + len(self._forbidden(reading, text))

    def _accepts(self, reading: ReadSource, text: str) -> bool:
        return not self._faults(reading, text)

    def _kept(self, reading: ReadSource, before: Restored, after: Restored | None) -> KeptTerms:
        """Return the finished translation.

        :param after: Another translation, if there was something wrong with the first.
        """
        if not reading.terms:
            return KeptTerms(before)
        result = before if after is None else after
        lacked = {*self._missing(reading, before.text)}
        without = reading.restore(before.text)
        text = reading.restore(result.text)
        finished = Restored(text, result.hypothesis, result.flag)
        for reason in self._check.reasons(reading.terms, text):
            finished = finished.flagged(reason)
        for copy in self._copied(reading, result.text):
            finished = finished.flagged(COPIED.format(copy))
        if before.hypothesis.score - result.hypothesis.score > _IMPROBABLE:
            finished = finished.flagged(FORCED)
        terms = self._translated(reading, text, lacked)
        return KeptTerms(finished, terms, without if without != text else "")

    def _translated(self, reading: ReadSource, text: str, lacked: set[Term]) -> tuple[TranslatedTerm, ...]:
        """Find each term of a source in its translation; the second occurrence of a term in what follows the first."""
        terms = []
        ends: Counter[Term] = Counter()
        for found in reading.terms:
            term = found.term
            placed = self._translated_term(found, text, ends[term], term in lacked)
            terms.append(placed)
            if placed.target_start >= 0:
                ends[term] = placed.target_start + len(placed.target)
        return tuple(terms)

    def _translated_term(self, found: FoundTerm, text: str, start: int, lacked: bool) -> TranslatedTerm:
        span = self._check.place(found.term, text[start:])
        if span is None:  # one form for two occurrences
            start, span = 0, self._check.place(found.term, text)
        target = "" if span is None else text[start + span[0] : start + span[1]]
        place = -1 if span is None else start + span[0]
        return TranslatedTerm(
            found.term.source, found.start, found.end, found.term.targets, target, place, lacked and span is not None
        )


def _capitalized_as(source: str, target: str) -> str:
    """Return a translation in capitals if the source is."""
    return target.upper() if is_in_capitals(source) else target
