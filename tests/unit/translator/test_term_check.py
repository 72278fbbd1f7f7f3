"""Translations of anyone are checked against a glossary."""

from __future__ import annotations

import pytest

from lacuna.glossaries import Glossary, Term
from lacuna.records import Languages
from lacuna.translator.term_check import TermCheck, index_terms

GLOSSARY = Glossary(
    [
        Term("Datei", ("file", "document"), ("data",)),
        Term("Ordner", forbidden=("binder",)),
        Term("Kiesel", translate=False),
        Term("Maus", ("mouse",), inflected=False),
    ]
)


@pytest.mark.parametrize(
    ("source", "text", "flag"),
    [
        ("Die Datei ist leer.", "The file is empty.", ""),
        ("Die Dateien sind leer.", "The documents are empty.", ""),
        ("Die Datei ist leer.", "The record is empty.", "term missing: Datei (file, document)"),
        ("Die Datei ist leer.", "The data file is empty.", "forbidden term: data"),
        ("Die Datei ist leer.", "The data is empty.", "term missing: Datei (file, document); forbidden term: data"),
        ("Der Ordner ist leer.", "It is empty.", ""),  # only a translation of it is forbidden
        ("Der Ordner ist leer.", "The Binders are empty.", "forbidden term: Binders"),
        ("Kiesel ist da.", "Kiesel is here.", ""),
        ("Kiesel ist da.", "Pebble is here.", "term missing: Kiesel"),
        ("Die Maus und die Maus.", "The mouse.", ""),  # one translation for two occurrences
        ("Die Maus.", "The mice.", "term missing: Maus (mouse)"),
        ("Der Baum.", "The data binder.", ""),  # no term, so nothing is forbidden
        ("", "", ""),
    ],
)
def test_flags(source: str, text: str, flag: str) -> None:
    assert TermCheck(GLOSSARY, Languages("de", "en")).flag(source, text) == flag


def test_the_index_of_a_glossary_is_made_once() -> None:
    assert index_terms(GLOSSARY, "de") is index_terms(Glossary(GLOSSARY.terms, "other name"), "de")
    assert index_terms(GLOSSARY, "de") is not index_terms(GLOSSARY, "en")
