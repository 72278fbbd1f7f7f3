"""Translations keep to a glossary, with as little force as will do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lacuna.decoding import Constraints, Hypothesis
from lacuna.glossaries import Glossary, Term
from lacuna.records import Languages, TranslatedTerm
from lacuna.translator.restoring import Restorer
from lacuna.translator.term_keeper import BONUS, FORCED, KeptTerms, ReadSource, TermKeeper

Search = Callable[[Sequence[str], Constraints], list[list[Hypothesis]]]
DATEI = Term("Datei", ("record",))
ORDNER = Term("Ordner", ("binder", "portfolio"))


class Letters:
    """A model whose tokens are letters, with a space as a token of its own."""

    mask_placeholders = True
    max_length = 200
    vocabulary_size = 500
    eos_id = 0
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


def never(texts: Sequence[str], constraints: Constraints) -> list[list[Hypothesis]]:
    pytest.fail("searched again")


class Answers:
    """Answers each search with the next text, and keeps what was asked.

    :param score: Of every answer; a translation without the glossary has 0.
    """

    def __init__(self, *answers: str, score: float = 0.0) -> None:
        self._answers, self._score = list(answers), score
        self.asked: list[Constraints] = []
        self.texts: list[Sequence[str]] = []

    def __call__(self, texts: Sequence[str], constraints: Constraints) -> list[list[Hypothesis]]:
        self.asked.append(constraints)
        self.texts.append(texts)
        assert len(texts) == len(constraints.sentences)
        [hypothesis] = hypotheses(self._answers.pop(0))
        return [[replace(hypothesis, score=self._score)] for _ in texts]


def keeper(*terms: Term, strict: bool = False, model: Letters | None = None) -> TermKeeper:
    return TermKeeper(model or Letters(), Languages("de", "en"), Glossary(terms), (), strict=strict)  # type: ignore[arg-type]


def keep(
    kept_by: TermKeeper, source: str, found: Sequence[str], search: Search, rescored: float = 0.0
) -> tuple[ReadSource, KeptTerms]:
    reading = kept_by.read(source)
    restorer = Restorer(Letters(), lambda texts: pytest.fail("placeholders were lost"))  # type: ignore[arg-type]
    candidates = [hypotheses(*found)]
    restored = restorer.restore([reading.protected], candidates)

    def rescore(texts: Sequence[str], given: Sequence[Hypothesis]) -> list[Hypothesis]:
        assert texts == [reading.protected]
        return [replace(each, score=rescored) for each in given]

    [kept] = kept_by.keep([reading], candidates, restored, restorer, search, rescore)
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


def test_a_bonus_comes_before_a_strict_search() -> None:
    search = Answers("The file.", "The file.", "The record.")
    _, kept = keep(keeper(DATEI), "Die Datei.", ["The file."], search)
    assert kept.result.text == "The record."
    assert [(each.bonus, each.strict) for each in search.asked] == [(BONUS, False), (BONUS, False), (BONUS, True)]
    assert search.texts == [["Die Datei."], ["Die record."], ["Die Datei."]]


@pytest.mark.parametrize(("source", "one"), [("Die Datei.", True), ("Gut. Die Datei.", False), ("Nr.1 Datei", True)])
def test_a_term_may_stand_in_a_second_sentence_if_the_source_has_one(source: str, one: bool) -> None:
    search = Answers("The record.")
    keep(keeper(DATEI), source, ["The file."], search)
    assert search.asked[0].one_sentence == one


def test_a_probable_translation_needs_no_prompt() -> None:
    search = Answers("The record.", score=-0.4)
    keep(keeper(DATEI), "Die Datei.", ["The file."], search)
    assert search.texts == [["Die Datei."]]


@pytest.mark.parametrize(("rescored", "text"), [(-1.0, "The record."), (-3.0, "Record the.")])
def test_an_improbable_one_is_compared_with_that_of_a_prompted_source(rescored: float, text: str) -> None:
    search = Answers("Record the.", "The record.", score=-2.0)
    _, kept = keep(keeper(DATEI), "Die Datei.", ["The file."], search, rescored)
    assert search.texts == [["Die Datei."], ["Die record."]]
    assert kept.result.text == text
    assert kept.result.hypothesis.score == max(rescored, -2.0)


@pytest.mark.parametrize(("score", "flag"), [(-0.9, ""), (-1.1, FORCED)])
def test_a_translation_that_became_improbable_is_flagged(score: float, flag: str) -> None:
    search = Answers("The record.", "The record.", score=score)
    _, kept = keep(keeper(DATEI), "Die Datei.", ["The file."], search, rescored=score)
    assert kept.result.flag == flag


def test_a_term_that_is_left_untranslated_besides_its_translation_is_no_success() -> None:
    search = Answers("The record of the Datei.", "The record.")
    _, kept = keep(keeper(DATEI), "Die Datei.", ["The file."], search, rescored=-0.4)
    assert (kept.result.text, kept.result.flag) == ("The record.", "")
    search = Answers("The record of the Datei.", "The record, Datei.")
    _, kept = keep(keeper(DATEI), "Die Datei.", ["The file."], search, rescored=-0.4)
    assert (kept.result.text, kept.result.flag) == ("The record of the Datei.", "term left untranslated: Datei")


def test_a_translation_that_contains_its_term_is_no_copy() -> None:
    _, kept = keep(keeper(Term("Server", ("web Server",))), "Der Server.", ["The web Server."], never)
    assert kept.result.flag == ""


def test_a_prompt_has_the_capitals_of_the_source() -> None:
    reading = keeper(DATEI, ORDNER).read("DIE DATEI im Ordner")
    assert reading.prompted == "DIE RECORD im binder"


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
    search = Answers("The binder.", *["Nothing."] * 20)
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
        {"record", "Record", "records"},
        {"binder", "Binder", "binders", "portfolio", "Portfolio", "portfolios"},
    ]


def test_a_term_that_occurs_twice_is_required_once() -> None:
    search = Answers("The record and the record.")
    _, kept = keep(keeper(DATEI), "Die Datei und die Datei.", ["Nothing."], search)
    [sentence] = search.asked[0].sentences
    assert sentence is not None
    assert (len(sentence.required), sentence.wanted) == (1, ())
    assert [(term.start, term.target_start) for term in kept.terms] == [(4, 4), (18, 19)]


def test_one_form_answers_for_both_occurrences_if_there_is_no_other() -> None:
    _, kept = keep(keeper(DATEI), "Die Datei und die Datei.", ["The record and it."], never)
    assert [term.target_start for term in kept.terms] == [4, 4]


def test_forbidden_translations_are_banned_and_flagged() -> None:
    term = Term("Datei", ("record",), forbidden=("file",))
    search = Answers(*["The file record."] * 20)
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
    search = Answers(*["The file."] * 20)
    _, kept = keep(keeper(term, model=Limited()), "Die Datei.", ["The file."], search)
    assert kept.result.flag == "term missing: Datei (xylem)"
    [sentence] = search.asked[0].sentences
    assert sentence is not None
    assert sentence.required == ()
