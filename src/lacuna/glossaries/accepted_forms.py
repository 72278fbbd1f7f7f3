"""Which forms in a translation are accepted as the translation of a term, and which are forbidden.

A form is accepted where its words stand next to each other, as whole words. They may be inflected if the term allows
it. Of an accepted and a forbidden form with the same stem, the spelling decides: what is spelled as the forbidden one
and not as the accepted one is forbidden. Knows nothing of models and files.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from lacuna.glossaries.glossary import Term
from lacuna.glossaries.stemming import Stemmer
from lacuna.glossaries.word_sequences import WordSequence, match_at, read_words, select_longest

_Span = tuple[int, int]
# Sentences that are looked through for one term after the other, and forms of terms.
_TEXTS, _FORMS = 256, 1 << 14


class AcceptedForms:
    """Recognizes the translations of terms.

    :param language: Of the translations, as a code.
    """

    def __init__(self, language: str) -> None:
        self._stemmer = Stemmer(language)
        self._text = lru_cache(_TEXTS)(self._read)
        self._form = lru_cache(_FORMS)(self._read)

    def find(self, term: Term, text: str) -> _Span | None:
        """Return where the first accepted translation of a term starts and ends; the longest of those that start there.

        Of a term that is not to be translated, that is the term itself, as it is written.
        """
        spans = self._accepted(term, text)
        return min(spans, key=lambda span: (span[0], -span[1]), default=None)

    def find_forbidden(self, term: Term, text: str) -> _Span | None:
        """Return where the first forbidden translation stands that is not an accepted one or a part of it."""
        forbidden = self._spans(term.forbidden, term, text, inflected=term.inflected)
        accepted = self._accepted(term, text) if forbidden else []
        return min((span for span in forbidden if not any(_is_in(span, other) for other in accepted)), default=None)

    def count(self, term: Term, text: str) -> int:
        """Return how often an accepted translation stands in a text; of two that overlap, the longer one counts."""
        return len(select_longest(self._accepted(term, text)))

    def forms_in(self, term: Term, text: str) -> list[str]:
        """Return the accepted translations as they stand in a text, in order, each as often as it does."""
        spans = self._accepted(term, text)
        return [text[slice(*spans[number])] for number in select_longest(spans)]

    def _accepted(self, term: Term, text: str) -> list[_Span]:
        if not term.translate:
            return self._spans((term.source,), term, text, inflected=False)
        found = self._spans(term.targets, term, text, inflected=term.inflected)
        if not (found and term.forbidden and term.inflected):
            return found
        forbidden = self._spans(term.forbidden, term, text, inflected=False)
        as_written = self._spans(term.targets, term, text, inflected=False)
        return [span for span in found if span in as_written or span not in forbidden]

    def _spans(self, forms: Iterable[str], term: Term, text: str, *, inflected: bool) -> list[_Span]:
        """Return where any of the forms stands, at least once for each place."""
        words = self._text(text)
        found: list[_Span] = []
        for each in forms:
            form = self._form(each)
            if not form.words:
                continue
            firsts = (form.folded[0], form.stems[0])
            for place, spellings in enumerate(zip(words.folded, words.stems, strict=True)):
                if spellings[0] == firsts[0] or spellings[1] == firsts[1]:
                    span = match_at(
                        words,
                        place,
                        form,
                        inflected=inflected,
                        case_sensitive=term.case_sensitive or not term.translate,
                        joints=term.translate,
                    )
                    found += [] if span is None else [span]
        return found

    def _read(self, text: str) -> WordSequence:
        return read_words(text, self._stemmer)


def surface_forms(target: str) -> list[str]:
    """Return a translation as it is written, and with a capital at its beginning if that is different."""
    capitalized = target[:1].upper() + target[1:]
    return [target] if capitalized == target else [target, capitalized]


def _is_in(span: _Span, other: _Span) -> bool:
    return other[0] <= span[0] and span[1] <= other[1]
