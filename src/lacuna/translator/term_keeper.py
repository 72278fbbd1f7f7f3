"""Keep to a glossary: find its terms in sources, and translations that have the accepted forms.

In this order: a translation that has the terms of its source is left alone; another hypothesis that has them is taken;
the sentence is translated again with a bonus for the accepted forms, then with a larger one, then so that every
translation must have them; what is missing even then is flagged. Terms that are not to be translated are placeholders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lacuna.corpora.placeholders import ALONE, LAST
from lacuna.decoding import Constraints, Hypothesis, SentenceConstraints
from lacuna.glossaries import FoundTerm, Glossary, Term
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.records import Languages, TranslatedTerm
from lacuna.translator.restoring import Restored, Restorer
from lacuna.translator.term_check import TermCheck
from lacuna.translator.term_forms import TermForms, boundaries_of

# In nats, for a form of one token. Chosen on dev sentences: benchmarks/glossary.py.
BONUSES = (5.0, 10.0)

ConstrainedSearch = Callable[[Sequence[Sequence[int]], Constraints], list[list[Hypothesis]]]
"""Finds hypotheses of tokenized sources under constraints, the best first."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A source with the terms that occur in it.

    :param protected: The source with a placeholder for each term that is not to be translated.
    :param originals: What these placeholders stand for.
    """

    source: str
    terms: tuple[FoundTerm, ...] = ()
    protected: str = ""
    originals: tuple[tuple[str, str], ...] = ()

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
    :param strict: Do without the bonuses: whatever lacks a term is translated so that it must have it.
    """

    def __init__(
        self, model: Model, languages: Languages, glossary: Glossary, memories: Sequence[Memory], *, strict: bool
    ) -> None:
        self._model, self._strict = model, strict
        self._check = TermCheck(glossary, languages, memories)
        self._forms = TermForms(model, (languages.source, languages.target), memories)

    def read(self, source: str) -> Reading:
        """Find the terms of a source."""
        found = tuple(self._check.find(source))
        if not found:
            return Reading(source, protected=source)
        fixed = [term for term in found if not term.term.translate] if self._model.mask_placeholders else []
        parts, last = [], 0
        originals = []
        free = (chr(code) for code in range(LAST, ALONE - 1, -1) if chr(code) not in source)
        for term, placeholder in zip(fixed, free, strict=False):
            parts += [source[last : term.start], placeholder]
            originals.append((placeholder, source[term.start : term.end]))
            last = term.end
        return Reading(source, found, "".join([*parts, source[last:]]), tuple(originals))

    def keep(
        self,
        readings: Sequence[Reading],
        sources: Sequence[Sequence[int]],
        found: Sequence[Sequence[Hypothesis]],
        restored: Sequence[Restored],
        restorer: Restorer,
        search: ConstrainedSearch,
    ) -> list[KeptTerms]:
        """Return a translation of each source that has its terms, as far as one is found.

        :param sources: The tokens of each protected source.
        :param found: The hypotheses of each.
        :param restored: The translation of each without the glossary.
        """
        best = {
            number: result
            for number, (reading, result) in enumerate(zip(readings, restored, strict=True))
            if reading.terms and not self._accepts(reading, result.text)
        }
        wrong = list(best)

        def improve(number: int, hypotheses: Sequence[Hypothesis]) -> bool:
            """Take the best of the hypotheses that are better; tell whether nothing is wrong with it."""
            reading = readings[number]
            result = restorer.choose(reading.protected, hypotheses, lambda text: self._accepts(reading, text))
            if result is None:
                fewest = self._faults(reading, best[number].text)
                result = restorer.choose(
                    reading.protected, hypotheses, lambda text: self._faults(reading, text) < fewest
                )
            best[number] = best[number] if result is None else result
            return result is not None and self._accepts(reading, result.text)

        wrong = [number for number in wrong if not improve(number, found[number])]
        for bonus in (None,) if self._strict else (*BONUSES, None):
            if not wrong:
                break
            constraints = self._constraints([readings[number] for number in wrong], bonus)
            again = search([sources[number] for number in wrong], constraints)
            wrong = [number for number, hypotheses in zip(wrong, again, strict=True) if not improve(number, hypotheses)]
        return [
            self._kept(reading, result, best.get(number))
            for number, (reading, result) in enumerate(zip(readings, restored, strict=True))
        ]

    def _constraints(self, readings: Sequence[Reading], bonus: float | None) -> Constraints:
        """Return what the translations must have.

        :param bonus: For each form; ``None`` if every translation must have one of each term.
        """
        return Constraints(
            [self._constraints_of(reading) for reading in readings],
            boundaries_of(self._model),
            bonus=BONUSES[-1] if bonus is None else bonus,
            strict=bonus is None,
        )

    def _constraints_of(self, reading: Reading) -> SentenceConstraints:
        required, wanted = [], []
        seen: set[Term] = set()
        for found in reading.terms:
            term = found.term
            if not self._is_asked_for(term):
                continue
            forms = self._forms.accepted(term, reading.source[found.start : found.end])
            # A term that occurs twice may be translated once, by a pronoun the second time.
            if forms:
                (wanted if found.in_compound or term in seen else required).append(forms)
            if not found.in_compound:
                seen.add(term)
        banned = [form for found in reading.terms for form in self._forms.forbidden(found.term)]
        return SentenceConstraints(tuple(required), tuple(dict.fromkeys(banned)), tuple(wanted))

    def _is_asked_for(self, term: Term) -> bool:
        """Tell whether translations must contain the term, and no placeholder does that."""
        return bool(term.targets) if term.translate else not self._model.mask_placeholders

    def _missing(self, reading: Reading, text: str) -> list[Term]:
        return self._check.missing(reading.terms, reading.restore(text))

    def _forbidden(self, reading: Reading, text: str) -> list[str]:
        return self._check.forbidden(reading.terms, reading.restore(text))

    def _faults(self, reading: Reading, text: str) -> int:
        return len(self._missing(reading, text)) + len(self._forbidden(reading, text))

    def _accepts(self, reading: Reading, text: str) -> bool:
        return not self._faults(reading, text)

    def _kept(self, reading: Reading, before: Restored, after: Restored | None) -> KeptTerms:
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
        terms = self._translated(reading, text, lacked)
        return KeptTerms(finished, terms, without if without != text else "")

    def _translated(self, reading: Reading, text: str, lacked: set[Term]) -> tuple[TranslatedTerm, ...]:
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
