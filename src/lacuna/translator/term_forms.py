"""How a model spells the accepted forms of terms: as the tokens that beam search asks for.

Forms come from the glossary, from sentences of the memories that contain a term and its translation, and from words of
the model's vocabulary with the same stem. A form that the model cannot spell is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from lacuna.corpora.placeholders import find_placeholders
from lacuna.decoding import Form, TokenBoundaries
from lacuna.errors import UnavailableError
from lacuna.glossaries import (
    AcceptedForms,
    Glossary,
    Stemmer,
    Term,
    TermFinder,
    is_spaced,
    split_words,
    surface_forms,
)
from lacuna.memory import Memory
from lacuna.memory.overview import WordBoundaries, without_marks
from lacuna.models import Model
from lacuna.records import Languages
from lacuna.translator.memory_words import MemoryWords

# Sentences of a memory that are read for the forms of a term.
_READ = 200
# Forms of a term: those of the glossary, and the most frequent others.
_MOST_FORMS = 24
_SENTENCE_ENDS = tuple(".!?。！？")


def boundaries_of(model: Model) -> TokenBoundaries:
    """Return what the tokens of a model say about the boundaries of words and sentences."""
    return model.prepared("token_boundaries", lambda: _read_boundaries(model))


def _read_boundaries(model: Model) -> TokenBoundaries:
    words = _words_of(model)
    texts = [without_marks(text) for text in words.texts]
    continues = np.array([_is_in_word(text[:1]) for text in texts]) & ~words.begins
    inside = np.array([_is_in_word(text[-1:]) for text in texts]) & ~words.ends
    closing = np.array([text.endswith(_SENTENCE_ENDS) for text in texts])
    return TokenBoundaries(continues, inside, closing)


def _words_of(model: Model) -> WordBoundaries:
    return WordBoundaries.of([model.token_text(token) for token in range(model.vocabulary_size)], model.eos_id)


def _is_in_word(character: str) -> bool:
    """Tell whether a character is a part of a word, in a language that has spaces between words."""
    return character.isalnum() and is_spaced(character)


class TermForms:
    """Spells the accepted forms of terms. Those of a term are found when it is first asked for."""

    def __init__(self, model: Model, languages: Languages, memories: Sequence[Memory]) -> None:
        self._model, self._languages, self._memories = model, languages, tuple(memories)
        self._accepted = AcceptedForms(languages.target)
        self._stemmer = Stemmer(languages.target)
        self._spelled: dict[tuple[Term, str], tuple[Form, ...]] = {}

    def accepted(self, term: Term, occurrence: str) -> tuple[Form, ...]:
        """Return the tokens of each accepted form of a term; empty if the model can spell none.

        :param occurrence: The term as it stands in the source.
        """
        capitals = is_in_capitals(occurrence) and not term.case_sensitive
        key = (term, "capitals" if capitals else "")
        if key not in self._spelled:
            targets = term.targets if term.translate else (term.source,)
            texts = [form for target in targets for form in surface_forms(target)]
            if term.inflected and term.translate:
                texts += self._remembered(term)
                texts += [form for target in targets for form in self._variants(target, term)]
            if capitals:
                texts += [target.upper() for target in targets]
            self._spelled[key] = self._encode(list(dict.fromkeys(texts))[:_MOST_FORMS])
        return self._spelled[key]

    def forbidden(self, term: Term) -> tuple[Form, ...]:
        """Return the tokens of each forbidden translation of a term, inflected ones included."""
        key = (term, "forbidden")
        if key not in self._spelled:
            texts = [form for target in term.forbidden for form in self._variants(target, term)]
            self._spelled[key] = self._encode(texts)
        return self._spelled[key]

    def _remembered(self, term: Term) -> list[str]:
        """Return forms of the term in translations of the memories, the most frequent first."""
        counts: Counter[str] = Counter()
        finder = TermFinder(Glossary([term]), self._languages.source)
        words = [word.text for word in split_words(term.source)]
        for memory in self._memories:
            numbers = MemoryWords.of(memory, self._languages.source).sentences_with(words, _READ)
            with suppress(UnavailableError):
                for pair in memory.sentences.find(numbers).values():
                    if finder.find(pair.source):
                        counts.update(self._accepted.forms_in(term, pair.target))
        return [form for form, _ in counts.most_common(_MOST_FORMS)]

    def _variants(self, target: str, term: Term) -> Iterator[str]:
        """Yield a translation with its last word in other forms: those in the vocabulary, and the English plural."""
        yield target
        words = split_words(target)
        if not (term.inflected and self._stemmer.can_stem and words and is_spaced(words[-1].text)):
            return
        last = words[-1]
        stem = self._stemmer.stem(last.text)
        forms = sorted(self._vocabulary().get(stem, ()))
        if self._stemmer.language == "en" and last.text.isalpha():
            plural = _english_plural(last.text)
            forms += [plural] if self._stemmer.stem(plural) == stem else []
        for word in dict.fromkeys(forms):
            own = word if last.text[:1].islower() else word[:1].upper() + word[1:]
            if own != last.text:
                yield target[: last.start] + own + target[last.end :]

    def _vocabulary(self) -> dict[str, set[str]]:
        language = self._languages.target
        return self._model.prepared(f"stems of {language}", lambda: _vocabulary_by_stem(self._model, language))

    def _encode(self, texts: Sequence[str]) -> tuple[Form, ...]:
        """Return the tokens of texts, at the start of a word and after an opening bracket."""
        texts = [text for text in texts if not find_placeholders(text)]  # the model never reads those
        if not texts:
            return ()
        opening = self._model.encode_targets(["("])[0][:-1]
        forms: dict[Form, None] = {}
        for ids in self._model.encode_targets(texts):
            forms[tuple(ids[:-1])] = None
        for ids in self._model.encode_targets([f"({text}" for text in texts]):
            if ids[: len(opening)] == opening:
                forms[tuple(ids[len(opening) : -1])] = None
        unknown = self._model.tokenizer.unk_token_id
        return tuple(form for form in forms if form and unknown not in form)


def _english_plural(word: str) -> str:
    """Return the regular plural of a noun. Of another word it is no word, which the model will not choose."""
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


def is_in_capitals(text: str) -> bool:
    """Tell whether a text is in capitals, and more than an initial."""
    return len(text) > 1 and text.isupper()


def _vocabulary_by_stem(model: Model, language: str) -> dict[str, set[str]]:
    """Return the words that are single tokens of a model, by their stem."""
    stemmer = Stemmer(language)
    words: dict[str, set[str]] = defaultdict(set)
    own = _words_of(model)
    for token in np.flatnonzero(own.begins | own.ends).tolist():
        word = without_marks(own.texts[token])
        if len(word) > 2 and word.isalpha() and word.islower():
            words[stemmer.stem(word)].add(word)
    return dict(words)
