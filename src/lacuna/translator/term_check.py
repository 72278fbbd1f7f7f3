"""Check translations against a glossary, whoever made them: for missing terms, and for forbidden translations.

Needs no model, so that translations of people can be checked as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from lacuna.glossaries import AcceptedForms, FoundTerm, Glossary, Term, TermFinder
from lacuna.memory import Memory
from lacuna.records import Languages
from lacuna.translator.memory_words import MemoryWords

MISSING = "term missing: {}"
FORBIDDEN = "forbidden term: {}"
COPIED = "term left untranslated: {}"
# Shorter words of two languages may look the same.
_SHORTEST_COPY = 4
# Glossaries whose terms are indexed. A server opens a translator for each batch of sentences.
_INDEXED = 16


class TermCheck:
    """Checks translations of one direction.

    :param memories: Where the parts of compounds come from.
    """

    def __init__(self, glossary: Glossary, languages: Languages, memories: Sequence[Memory] = ()) -> None:
        self._source_language, self._memories = languages.source, tuple(memories)
        self._finder = index_terms(glossary, languages.source).knowing(self._knows)
        self._accepted = AcceptedForms(languages.target)

    def find(self, source: str) -> list[FoundTerm]:
        """Return the terms of a source."""
        return self._finder.find(source)

    def missing(self, found: Iterable[FoundTerm], text: str) -> list[Term]:
        """Return the terms that a translation must have and lacks. Parts of compounds need not be there.

        :param found: The terms of the source.
        """
        required = dict.fromkeys(each.term for each in found if not each.in_compound)
        return [
            term
            for term in required
            if (term.targets or not term.translate) and self._accepted.find(term, text) is None
        ]

    def forbidden(self, found: Iterable[FoundTerm], text: str) -> list[str]:
        """Return the forbidden forms in a translation.

        :param found: The terms of the source.
        """
        terms = dict.fromkeys(each.term for each in found)
        spans = (self._accepted.find_forbidden(term, text) for term in terms)
        return [text[slice(*span)] for span in spans if span is not None]

    def copied(self, found: Iterable[FoundTerm], source: str, text: str) -> list[str]:
        """Return the terms that stand in a translation as they do in its source, although the glossary translates them.

        :param found: The terms of the source.
        """
        copies = dict.fromkeys(source[each.start : each.end] for each in found if _is_translated(each, source))
        return [
            copy
            for copy in copies
            if self._accepted.find(Term(copy, (copy,), case_sensitive=True, inflected=False), text) is not None
        ]

    def place(self, term: Term, text: str) -> tuple[int, int] | None:
        """Return where the first accepted translation of a term starts and ends."""
        return self._accepted.find(term, text)

    def reasons(self, found: Sequence[FoundTerm], text: str) -> list[str]:
        """Say why a person should look at a translation.

        :param found: The terms of the source.
        """
        missing = [MISSING.format(_wanted(term)) for term in self.missing(found, text)]
        return [*missing, *(FORBIDDEN.format(form) for form in self.forbidden(found, text))]

    def flag(self, source: str, text: str) -> str:
        """Say why a person should look at a translation of a source; empty without reason."""
        found = self.find(source)
        return "; ".join(self.reasons(found, text)) if found else ""

    def _knows(self, word: str) -> bool:
        """Tell whether a memory has seen a word."""
        return any(word in MemoryWords.of(memory, self._source_language) for memory in self._memories)


@lru_cache(_INDEXED)
def index_terms(glossary: Glossary, language: str) -> TermFinder:
    """Return what finds the terms of a glossary. It is kept, because a large glossary takes a while."""
    return TermFinder(glossary, language)


def _is_translated(found: FoundTerm, source: str) -> bool:
    """Tell whether the glossary translates a term by something that does not contain it."""
    term, own = found.term, source[found.start : found.end].casefold()
    return (
        len(own) >= _SHORTEST_COPY and bool(term.targets) and not any(own in each.casefold() for each in term.targets)
    )


def _wanted(term: Term) -> str:
    return f"{term.source} ({', '.join(term.targets)})" if term.targets else term.source
