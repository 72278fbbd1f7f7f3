"""Translations keep to a glossary, with as little force as will do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from lacuna.decoding import Constraints, Hypothesis
from lacuna.glossaries import Glossary, Term
from lacuna.records import Languages, TranslatedTerm
from lacuna.translator.restoring import Restorer
from lacuna.translator.term_keeper import BONUSES, KeptTerms, Reading, TermKeeper

Search = Callable[[Sequence[Sequence[int]], Constraints], list[list[Hypothesis]]]
DATEI = Term("Datei", ("record",))
ORDNER = Term("Ordner", ("binder", "portfolio"))


class Letters:
    """A model whose tokens are letters, with a space as a token of its own."""

    mask_placeholders = True
    max_length = 200
    vocabulary_size = 500
    tokenizer = SimpleNamespace(unk_token_id=499)

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*map(ord, text), 0] for text in texts]

    def token_text(self, token: int) -> str:
        return chr(token)

    def prepared(self, name: str, prepare: Callable[[], Any]) -> Any:
        return prepare()


def hypotheses(*texts: str) -> list[Hypothesis]:
    return [Hypothesis(tuple(map(ord, text)), -float(place), (), ()) for place, text in enumerate(texts)]


def never(sources: Sequence[Sequence[int]], constraints: Constraints) -> list[list[Hypothesis]]:
    pytest.fail("searched again")


class Answers:
    """Answers each search with the next texts, and keeps what was asked."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[Constraints] = []

    def __call__(self, sources: Sequence[Sequence[int]], constraints: Constraints) -> list[list[Hypothesis]]:
        self.asked.append(constraints)
        assert len(sources) == len(constraints.sentences)
        text = self._answers.pop(0)
        return [hypotheses(text) for _ in sources]


def keeper(*terms: Term, strict: bool = False) -> TermKeeper:
    return TermKeeper(Letters(), Languages("de", "en"), Glossary(terms), (), strict=strict)  # type: ignore[arg-type]


def keep(kept_by: TermKeeper, source: str, found: Sequence[str], search: Search) -> tuple[Reading, KeptTerms]:
    reading = kept_by.read(source)
    restorer = Restorer(Letters(), lambda texts: pytest.fail("placeholders were lost"))  # type: ignore[arg-type]
    candidates = [hypotheses(*found)]
    restored = restorer.restore([reading.protected], candidates)
    [kept] = kept_by.keep([reading], [list(map(ord, source))], candidates, restored, restorer, search)
    return reading, kept


def spelled(forms: Sequence[Sequence[int]]) -> set[str]:
    return {"".join(map(chr, form)) for form in forms}


def test_a_translation_with_its_terms_is_left_alone() -> None:
    _, kept = keep(keeper(DATEI), "Die Datei ist leer.", ["The record is empty."], never)
    assert kept.result.text == "The record is empty."
    assert kept.without == ""
    assert kept.terms == (TranslatedTerm("Datei", 4, 9, ("record",), "record", 4, enforced=False),)


def test_a_sentence_without_terms_is_not_touched() -> None:
    _, kept = keep(keeper(DATEI), "Das Haus ist leer.", ["The house is empty."], never)
    assert (kept.result.text, kept.terms, kept.without) == ("The house is empty.", (), "")


def test_another_hypothesis_with_the_terms_comes_before_another_search() -> None:
    _, kept = keep(keeper(DATEI), "Die Datei ist leer.", ["The file is empty.", "The record is empty."], never)
    assert kept.result.text == "The record is empty."
    assert kept.result.flag == ""
    assert kept.without == "The file is empty."
    assert [term.enforced for term in kept.terms] == [True]


def test_bonuses_grow_before_the_search_is_strict() -> None:
    search = Answers("The file.", "A file.", "The record.")
    _, kept = keep(keeper(DATEI), "Die Datei.", ["The file."], search)
    assert kept.result.text == "The record."
    assert [(each.bonus, each.strict) for each in search.asked] == [
        (BONUSES[0], False),
        (BONUSES[1], False),
        (BONUSES[1], True),
    ]


def test_no_more_is_searched_once_the_terms_are_there() -> None:
    search = Answers("The record.")
    _, kept = keep(keeper(DATEI), "Die Datei.", ["The file."], search)
    assert kept.result.text == "The record."
    assert len(search.asked) == 1


def test_strict_terms_need_no_bonus_first() -> None:
    search = Answers("The record.")
    keep(keeper(DATEI, strict=True), "Die Datei.", ["The file."], search)
    assert [each.strict for each in search.asked] == [True]


def test_what_is_missing_is_flagged_and_the_best_attempt_is_kept() -> None:
    search = Answers("The binder.", "The file.", "Nothing.")
    _, kept = keep(keeper(DATEI, ORDNER), "Die Datei im Ordner.", ["The file in it."], search)
    assert kept.result.text == "The binder."  # one of two terms
    assert kept.result.flag == "term missing: Datei (record)"
    assert [(term.source, term.target) for term in kept.terms] == [("Datei", ""), ("Ordner", "binder")]


def test_each_term_is_required_with_all_of_its_forms() -> None:
    search = Answers("The portfolio and the record.")
    keep(keeper(DATEI, ORDNER), "Die Datei im Ordner.", ["Nothing."], search)
    [sentence] = search.asked[0].sentences
    assert sentence is not None
    assert [spelled(forms) for forms in sentence.required] == [
        {"record", "Record"},
        {"binder", "Binder", "portfolio", "Portfolio"},
    ]


def test_a_term_that_occurs_twice_is_required_once_and_wanted_twice() -> None:
    search = Answers("The record and the record.")
    _, kept = keep(keeper(DATEI), "Die Datei und die Datei.", ["Nothing."], search)
    [sentence] = search.asked[0].sentences
    assert sentence is not None
    assert (len(sentence.required), len(sentence.wanted)) == (1, 1)
    assert [(term.start, term.target_start) for term in kept.terms] == [(4, 4), (18, 19)]


def test_one_form_answers_for_both_occurrences_if_there_is_no_other() -> None:
    _, kept = keep(keeper(DATEI), "Die Datei und die Datei.", ["The record and it."], never)
    assert [term.target_start for term in kept.terms] == [4, 4]


def test_forbidden_translations_are_banned_and_flagged() -> None:
    term = Term("Datei", ("record",), forbidden=("file",))
    search = Answers("The file record.", "The file record.", "The file record.")
    _, kept = keep(keeper(term), "Die Datei.", ["The file record."], search)
    assert kept.result.flag == "forbidden term: file"
    [sentence] = search.asked[0].sentences
    assert sentence is not None
    assert "file" in spelled(sentence.banned)


def test_a_term_that_only_forbids_is_no_term_that_is_missing() -> None:
    term = Term("Datei", forbidden=("file",))
    _, kept = keep(keeper(term), "Die Datei.", ["The record."], never)
    assert kept.result.flag == ""


def test_terms_that_stay_as_they_are_become_placeholders() -> None:
    reading, kept = keep(keeper(Term("Lacuna", translate=False)), "Mit Lacuna geht es.", ["It works with 71."], never)
    assert "Lacuna" not in reading.protected
    assert kept.result.text == "It works with Lacuna."
    assert kept.terms == (TranslatedTerm("Lacuna", 4, 10, (), "Lacuna", 14, enforced=False),)


def test_placeholders_of_the_source_are_not_taken_for_terms() -> None:
    source = "Mit \uf8ff und Lacuna."
    reading = keeper(Term("Lacuna", translate=False)).read(source)
    assert reading.protected == "Mit \uf8ff und \uf8fe."
    assert reading.restore("\uf8fe with \uf8ff") == "Lacuna with \uf8ff"


def test_capitals_of_the_source_may_be_those_of_the_translation() -> None:
    search = Answers("THE RECORD.")
    _, kept = keep(keeper(DATEI), "DIE DATEI.", ["THE FILE."], search)
    [sentence] = search.asked[0].sentences
    assert sentence is not None
    assert "RECORD" in spelled(sentence.required[0])
    assert kept.terms[0].target == "RECORD"


def test_a_form_that_the_model_cannot_spell_is_not_asked_for() -> None:
    class Limited(Letters):
        def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
            return [[499 if letter in "xX" else ord(letter) for letter in text] + [0] for text in texts]

    term = Term("Datei", ("xylem",))
    limited = TermKeeper(Limited(), Languages("de", "en"), Glossary([term]), (), strict=False)  # type: ignore[arg-type]
    search = Answers("The file.", "The file.", "The file.")
    _, kept = keep(limited, "Die Datei.", ["The file."], search)
    assert kept.result.flag == "term missing: Datei (xylem)"
    [sentence] = search.asked[0].sentences
    assert sentence is not None
    assert sentence.required == ()
