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
from lacuna.models import Model
from lacuna.translator.memory_words import MemoryWords

# Sentences of a memory that are read for the forms of a term.
_READ = 200
# Forms of a term: those of the glossary, and the most frequent others.
_MOST_FORMS = 24
# Marks of word boundaries in the spelling of tokens: SentencePiece, byte-level BPE; and BPE with marked ends.
_STARTS = ("▁", "Ġ")
_END, _CONTINUED = "</w>", "@@"
_SENTENCE_ENDS = ".!?。！？"


def boundaries_of(model: Model) -> TokenBoundaries:
    """Return what the tokens of a model say about the boundaries of words and sentences."""
    return model.prepared("token_boundaries", lambda: _read_boundaries(model))


def _read_boundaries(model: Model) -> TokenBoundaries:
    spelled = [model.token_text(token) for token in range(model.vocabulary_size)]
    has_ends = any(text.endswith(_END) for text in spelled)
    bare = [text.removesuffix(_END).removesuffix(_CONTINUED) for text in spelled]
    continues = [_is_in_word(text[:1]) for text in bare]
    inside = [
        _is_in_word(text[-1:]) and not (has_ends and own.endswith(_END))
        for text, own in zip(bare, spelled, strict=True)
    ]
    closing = [bool(text) and text[-1] in _SENTENCE_ENDS for text in bare]
    return TokenBoundaries(np.array(continues), np.array(inside), np.array(closing))


def _is_in_word(character: str) -> bool:
    """Tell whether a character is a part of a word, in a language that has spaces between words."""
    return character.isalnum() and is_spaced(character)


class TermForms:
    """Spells the accepted forms of terms. Those of a term are found when it is first asked for.

    :param languages: Codes of the source and the target language.
    """

    def __init__(self, model: Model, languages: tuple[str, str], memories: Sequence[Memory]) -> None:
        self._model, self._languages, self._memories = model, languages, tuple(memories)
        self._accepted = AcceptedForms(languages[1])
        self._stemmer = Stemmer(languages[1])
        self._spelled: dict[tuple[Term, str], tuple[Form, ...]] = {}

    def accepted(self, term: Term, occurrence: str) -> tuple[Form, ...]:
        """Return the tokens of each accepted form of a term; empty if the model can spell none.

        :param occurrence: The term as it stands in the source.
        """
        return self._spell(term, occurrence if is_in_capitals(occurrence) else "")

    def forbidden(self, term: Term) -> tuple[Form, ...]:
        """Return the tokens of each forbidden translation of a term, inflected ones included."""
        key = (term, "forbidden")
        if key not in self._spelled:
            texts = [form for target in term.forbidden for form in self._variants(target, term)]
            self._spelled[key] = self._encode(texts)
        return self._spelled[key]

    def _spell(self, term: Term, capitals: str) -> tuple[Form, ...]:
        key = (term, "capitals" if capitals else "")
        if key not in self._spelled:
            targets = term.targets if term.translate else (term.source,)
            texts = [form for target in targets for form in surface_forms(target)]
            if term.inflected and term.translate:
                texts += self._remembered(term)
                texts += [form for target in targets for form in self._variants(target, term)]
            if capitals and not term.case_sensitive:
                texts += [target.upper() for target in targets]
            self._spelled[key] = self._encode(list(dict.fromkeys(texts))[:_MOST_FORMS])
        return self._spelled[key]

    def _remembered(self, term: Term) -> list[str]:
        """Return forms of the term in translations of the memories, the most frequent first."""
        counts: Counter[str] = Counter()
        finder = TermFinder(Glossary([term]), self._languages[0])
        words = [word.text for word in split_words(term.source)]
        for memory in self._memories:
            numbers = MemoryWords.of(memory, self._languages[0]).sentences_with(words, _READ)
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
        language = self._languages[1]
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
    for token in range(model.vocabulary_size):
        text = model.token_text(token)
        word = text[1:] if text.startswith(_STARTS) else text.removesuffix(_END) if text.endswith(_END) else ""
        if len(word) > 2 and word.isalpha() and word.islower():
            words[stemmer.stem(word)].add(word)
    return dict(words)
