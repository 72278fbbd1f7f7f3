"""Who chose a token: the glossary, the memory or the model; and what an explanation says about terms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lacuna.combiners import Vanilla
from lacuna.datastore import build_store
from lacuna.decoding import BeamSettings
from lacuna.explanation import Explainer, Explanation, explain
from lacuna.explanation.explainer import _chosen_by
from lacuna.explanation.explanation import spans_of
from lacuna.glossaries import Glossary, Term
from lacuna.index import build_index
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.records import Origin, SentencePair, Step, TranslatedTerm
from lacuna.translator import System, Translator

# The bundled model says "the file" and "the jug"; neither is in the glossary or in the memory.
TERMS = Glossary([Term("Datei", ("record",)), Term("Krug", ("pitcher",))])
PAIRS = [
    SentencePair("Der Ofen ist heiß.", "The kiln is hot.", Origin("made up", "1")),
    SentencePair("Der Ofen ist leer.", "The kiln is empty.", Origin("made up", "2")),
]


def step(token: str, model_token: str, *, p_knn: float = 0.0, knn_weight: float = 0.5) -> Step:
    return Step(token, 0.5, 0.5, p_knn, knn_weight, model_token, ())


def term(target: str, start: int, *, enforced: bool = True) -> TranslatedTerm:
    return TranslatedTerm("Datei", 0, 5, (target,), target, start, enforced)


def test_where_the_words_of_tokens_are() -> None:
    assert spans_of(["The", " record", "s", ".", ""]) == [(0, 3), (4, 10), (10, 11), (11, 12), (12, 12)]


@pytest.mark.parametrize(
    ("given", "span", "terms", "by"),
    [
        (step("a", "a"), (0, 3), (), "model"),
        (step("a", "b", p_knn=0.9), (0, 3), (), "memory"),
        (step("a", "b", p_knn=0.9, knn_weight=0.0), (0, 3), (), "model"),  # a gate has skipped the search
        (step("a", "b"), (0, 3), (), "model"),  # another of its tokens that beam search has preferred
        (step("a", "a", p_knn=0.9), (0, 3), (), "model"),  # both say so
        (step("a", "b", p_knn=0.9), (4, 7), (term("record", 4),), "glossary"),
        (step("a", "a"), (7, 10), (term("record", 4),), "glossary"),
        (step("a", "a"), (10, 11), (term("record", 4),), "model"),  # what follows the term
        (step("a", "a"), (0, 4), (term("record", 4),), "model"),
        (step("a", "a"), (4, 10), (term("record", 4, enforced=False),), "model"),  # it was there without the glossary
        (step("a", "a"), (4, 10), (replace(term("record", 4), target="", target_start=-1),), "model"),
        (step("a", "a"), (4, 4), (term("record", 4),), "model"),  # the end of the sentence
    ],
)
def test_who_chose_a_token(given: Step, span: tuple[int, int], terms: tuple[TranslatedTerm, ...], by: str) -> None:
    assert _chosen_by(given, span, terms) == by


@pytest.fixture(scope="module")
def memory(bundled: Model, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("pottery") / "pottery"
    build_index(build_store(bundled, PAIRS, folder))
    return open_memory(folder)


def words_of(told: Explanation, by: str) -> str:
    return "".join(token.text for token in told.tokens if token.chosen_by == by).strip()


def test_each_of_the_three_can_choose(bundled: Model, memory: Memory) -> None:
    system = System(bundled, [memory], Vanilla(k=2, knn_weight=0.5), BeamSettings(), glossary=TERMS)
    remembered, asked_for = Explainer(system.open()).explain(["Der Ofen ist kalt.", "Die Datei ist kalt."])
    assert "kiln" in words_of(remembered, "memory")
    assert "kiln" not in remembered.base_text
    assert remembered.text.startswith("The")
    assert "The" in words_of(remembered, "model")
    assert (words_of(remembered, "glossary"), words_of(asked_for, "glossary")) == ("", "record")
    [found] = asked_for.terms
    assert asked_for.text[found.target_start :].startswith("record")
    assert (found.source, found.enforced) == ("Datei", True)
    assert "record" not in asked_for.without_glossary != ""


def test_the_model_alone_is_without_memory_and_without_glossary(bundled: Model, memory: Memory) -> None:
    source = "Die Datei ist leer."
    [alone] = System(bundled).open().translate([source])
    assert "record" not in alone.text
    for memories in ([], [memory]):
        told = explain(System(bundled, memories, glossary=TERMS).open(), source)
        assert (told.base_text, "record" in told.text) == (alone.text, True)
        assert (told.without_glossary != "", [each.source for each in told.terms]) == (True, ["Datei"])


def test_without_terms_nothing_is_said_about_them(bundled: Model, memory: Memory) -> None:
    system = System(bundled, [memory])
    plain = explain(system.open(), "Der Ofen ist leer.")
    told = explain(replace(system, glossary=TERMS).open(), "Der Ofen ist leer.")
    assert told == plain
    assert (told.terms, told.without_glossary) == ((), "")


def test_a_given_translation_has_no_terms(bundled: Model) -> None:
    translator: Translator = System(bundled, glossary=TERMS).open()
    [told] = Explainer(translator).explain(["Die Datei ist leer."], ["The file is empty."])
    assert (told.text, told.terms, words_of(told, "glossary")) == ("The file is empty.", (), "")
