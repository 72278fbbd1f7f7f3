"""Models spell the accepted forms of terms, wherever a form may stand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from lacuna.glossaries import AcceptedForms, Term
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.records import Languages
from lacuna.translator.memory_words import MemoryWords
from lacuna.translator.term_forms import TermForms, boundaries_of


@pytest.fixture(scope="module")
def forms(bundled: Model) -> TermForms:
    return TermForms(bundled, Languages("de", "en"), ())


def texts(model: Model, spelled: Sequence[Sequence[int]]) -> set[str]:
    return {model.decode(form) for form in spelled}


def test_forms_are_those_of_the_glossary_with_and_without_a_capital(bundled: Model, forms: TermForms) -> None:
    assert texts(bundled, forms.accepted(Term("Datei", ("push button", "key")), "Datei")) >= {
        "push button",
        "Push button",
        "key",
        "Key",
    }


@pytest.mark.parametrize("sentence", ["The {} is new.", "A new {}", "See ({}) here.", 'It says "{}".', "{} is new."])
@pytest.mark.parametrize("form", ["record", "push button", "binder"])
def test_a_form_is_found_in_any_sentence(bundled: Model, forms: TermForms, sentence: str, form: str) -> None:
    [ids] = bundled.encode_targets([sentence.format(form)])
    spelled = forms.accepted(Term("Datei", (form,)), "Datei")
    runs = {tuple(ids[start:end]) for start in range(len(ids)) for end in range(start + 1, len(ids))}
    assert runs & set(spelled)


def test_forms_of_the_vocabulary_are_accepted_by_the_check(bundled: Model, forms: TermForms) -> None:
    accepted = AcceptedForms("en")
    for target in ("word", "thing", "time", "great house"):
        term = Term("Ding", (target,))
        spelled = texts(bundled, forms.accepted(term, "Ding"))
        assert all(accepted.find(term, text) is not None for text in spelled)
    assert {"word", "words", "Word"} <= texts(bundled, forms.accepted(Term("Wort", ("word",)), "Wort"))


def test_a_term_that_matches_exactly_has_no_other_forms(bundled: Model, forms: TermForms) -> None:
    spelled = forms.accepted(Term("Wort", ("word",), inflected=False), "Wort")
    assert texts(bundled, spelled) == {"word", "Word"}


def test_a_term_in_capitals_may_be_translated_in_capitals(bundled: Model, forms: TermForms) -> None:
    assert "WORD" in texts(bundled, forms.accepted(Term("Wort", ("word",)), "WORT"))
    assert "WORD" not in texts(bundled, forms.accepted(Term("Wort", ("word",)), "Wort"))


def test_a_placeholder_is_never_spelled(forms: TermForms) -> None:
    assert forms.accepted(Term("Wort", ("%s",)), "Wort") == ()


def test_boundaries_are_those_of_the_text(bundled: Model) -> None:
    """A token begins a word if decoding it after a word puts a space before it, or if it is no part of a word."""
    boundaries = boundaries_of(bundled)
    before = bundled.encode_targets(["word"])[0][:-1]
    rng = np.random.default_rng(1)
    for token in rng.integers(300, bundled.vocabulary_size, 300).tolist():
        text = bundled.decode([*before, token]).removeprefix("word")
        if text:
            assert boundaries.continues[token] == text[0].isalnum(), text
            assert boundaries.inside[token] == text[-1].isalnum(), text


def test_forms_come_from_sentences_of_the_memory_that_have_both(bundled: Model, memory: Memory) -> None:
    [number] = [number for number, pair in memory.sentences.present()][:1]
    pair = memory.sentences[number]
    word = next(word.strip(".,") for word in pair.source.split() if len(word) > 5)
    target = next(word.strip(".,") for word in pair.target.split() if len(word) > 4)
    spelled = TermForms(bundled, Languages("de", "en"), [memory]).accepted(Term(word, (target.lower(),)), word)
    assert target in texts(bundled, spelled)


def test_words_of_a_memory_are_found_in_all_their_forms(memory: Memory) -> None:
    words = MemoryWords.of(memory, "de")
    naive = {number: set(pair.source.casefold().split()) for number, pair in memory.sentences.present()}
    frequent = max({word for own in naive.values() for word in own if word.isalpha()}, key=len)
    assert frequent in words
    assert "xylophonspieler" not in words
    found = set(words.sentences_with([frequent], 10_000))
    assert {number for number, own in naive.items() if frequent in own} <= found


def test_a_memory_is_read_once(memory: Memory) -> None:
    assert MemoryWords.of(memory, "de") is MemoryWords.of(memory, "de")
