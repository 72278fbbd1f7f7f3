"""Terms are found where they are, the longest first, and nowhere else."""

from __future__ import annotations

import re
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.corpora.placeholders import ALONE, CLOSING, OPENING
from lacuna.glossaries import Glossary, Term
from lacuna.glossaries.term_finder import FoundTerm, TermFinder

OPEN, CLOSE, BREAK = chr(OPENING), chr(CLOSING), chr(ALONE)


def shown(text: str, found: list[FoundTerm]) -> list[str]:
    """Return what was found as it stands in the text, with ~ before parts of compounds."""
    return ["~" * each.in_compound + text[each.start : each.end] for each in found]


@pytest.mark.parametrize(
    ("language", "terms", "text", "expected"),
    [
        ("de", "Datei", "Öffnen Sie die Dateien.", ["Dateien"]),
        ("de", "Haus", "Neue Häuser", ["Häuser"]),
        ("de", "Menü", "Alle Menüs und das menü", ["Menüs", "menü"]),
        ("de", "Konto", "Zwei Konten", []),
        ("de", "Datei|Datei öffnen", "Dateien öffnen, Datei", ["Dateien öffnen", "Datei"]),
        ("de", "Datei", "DATEI", ["DATEI"]),
        ("de", "Druck|Drucker", "Der Drucker", ["Drucker"]),
        ("de", "PDF", "Mehrere PDFs", ["PDFs"]),
        ("de", "E-Mail", "Eine E-Mail, eine E Mail, eine E‑Mail", ["E-Mail", "E‑Mail"]),
        ("de", "alte Datei", "alte\u00a0\n Dateien, alte, Datei", ["alte\u00a0\n Dateien"]),
        ("de", "Straße", "Lange STRASSE", ["STRASSE"]),
        ("de", "Datei", "Datei-Liste, Text-Datei, Datei", ["~Datei", "~Datei", "Datei"]),
        ("de", "Datei", "/etc/Datei {Datei} %sDatei", ["Datei"]),
        ("de", "C++|C", "In C++ und C", ["C++", "C"]),
        ("de", ".NET", "Mit .NET, nicht NET", [".NET"]),
        ("de", "alte Datei", f"{OPEN}alte{CLOSE} Datei", [f"alte{CLOSE} Datei"]),
        ("de", "Menü|Menüleiste", f"{OPEN}Menü{CLOSE}leiste", ["~Menü"]),
        ("de", "Datei", f"{OPEN}Datei{CLOSE}", ["Datei"]),
        ("de", "Datei", "Da\u00adtei", ["Da\u00adtei"]),
        ("en", "file", "The file's name", ["file"]),
        ("en", "user guide", "The user's guides", ["user's guides"]),
        ("en", "IT", "its IT, it", ["IT", "it"]),
        ("en", "mouse", "Two mice", []),
        ("en", "file", "file-based", ["file"]),
        ("en", "entry", "All entries", ["entries"]),
        ("fr", "ordinateur", "l’ordinateur, d'ordinateurs", ["ordinateur", "ordinateurs"]),
        ("fr", "nom d'utilisateur", "Noms d’utilisateur", ["Noms d’utilisateur"]),
        ("fr", "été", "e\u0301te\u0301", ["e\u0301te\u0301"]),
        ("zh", "数据库", "打开数据库文件", ["数据库"]),
        ("zh", "数据|数据库", "数据库和数据", ["数据库", "数据"]),
        ("zh", "USB接口", "插入 USB 接口。", ["USB 接口"]),
        ("zh", "数据库", f"数{OPEN}据库{CLOSE}", [f"数{OPEN}据库"]),
        ("zh", "USB", "usbs USB口", ["USB"]),
        ("ja", "設定", "設定を開く", ["設定"]),
        ("ko", "파일", "파일 파일을", ["파일"]),
    ],
)
def test_by_hand(language: str, terms: str, text: str, expected: list[str]) -> None:
    glossary = Glossary(Term(source, ("x",)) for source in terms.split("|"))
    assert shown(text, TermFinder(glossary, language).find(text)) == expected


def test_exact_and_case_sensitive_terms() -> None:
    glossary = Glossary(
        [
            Term("Datei", ("file",), inflected=False),
            Term("Apple", ("Apple",), case_sensitive=True),
            Term("apple", ("apple",)),
            Term("Bank", ("bank",), case_sensitive=True),
        ]
    )
    text = "Datei dateien datei Apples apples APPLE bank Banks"
    found = TermFinder(glossary, "en").find(text)
    expected = [("Datei", 0), ("datei", 0), ("Apples", 1), ("apples", 2), ("APPLE", 2), ("Banks", 3)]
    assert [(text[each.start : each.end], glossary.terms.index(each.term)) for each in found] == expected


WORDS_OF_MEMORY = {"benutzer", "konto", "datei", "name", "liste", "einstellung", "handbuch", "hand", "buch", "straße"}


@pytest.mark.parametrize(
    ("terms", "text", "expected"),
    [
        ("Konto", "Das Benutzerkonto", ["~konto"]),
        ("Datei", "Die Dateiliste", ["~Datei"]),
        ("Datei|Name", "Der Dateiname", ["~Datei", "~name"]),
        ("Einstellung", "Eine Einstellungsdatei", ["~Einstellung"]),
        ("Datei", "Die Einstellungsdateien", ["~dateien"]),
        ("Name", "Straßennamen", ["~namen"]),
        ("Buch", "Das Handbuch", []),  # the memory knows the whole word
        ("Konto", "Das Kontorzimmer", []),  # the rest is no word of the memory
        ("Ordner", "Der Ordnername", []),  # nor is the term
        ("Name|Dateiname", "Der Dateiname", ["Dateiname"]),
        ("Name hier", "Der Dateiname hier", []),
        ("Name++", "Der Dateiname++", []),
    ],
)
def test_german_compounds(terms: str, text: str, expected: list[str]) -> None:
    glossary = Glossary(Term(source, ("x",)) for source in terms.split("|"))
    known = {"strasse" if word == "straße" else word for word in WORDS_OF_MEMORY}
    assert shown(text, TermFinder(glossary, "de", known.__contains__).find(text)) == expected
    assert shown(text, TermFinder(glossary, "de").find(text)) == [each for each in expected if each[0] != "~"]


def test_parts_of_compounds_follow_the_settings_of_the_term() -> None:
    exact = Glossary([Term("Menu", ("menu",), inflected=False), Term("Konto", ("account",), case_sensitive=True)])
    known = {"benutzer", "konto", "menu", "liste"}.__contains__
    assert TermFinder(exact, "de", known).find("Menüsliste Benutzerkonto") == []
    assert shown("Kontoliste", TermFinder(exact, "de", known).find("Kontoliste")) == ["~Konto"]


def test_english_words_are_not_taken_apart() -> None:
    known = {"data", "base"}.__contains__
    assert TermFinder(Glossary([Term("base", ("x",))]), "en", known).find("database") == []


def test_terms_without_words_are_reported() -> None:
    glossary = Glossary([Term("→", ("x",)), Term("Datei", ("file",)), Term("my_file.txt", translate=False)])
    finder = TermFinder(glossary, "de")
    assert [term.source for term in finder.without_words] == ["→", "my_file.txt"]
    assert shown("→ Datei", finder.find("→ Datei")) == ["Datei"]


# --- Laws -------------------------------------------------------------------------------------------------------------

WORDS = ["file", "files", "old", "new", "user", "users", "Name"]
sources = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
glossaries = st.lists(st.builds(Term, sources, st.just(("x",)), inflected=st.booleans()), max_size=6, unique_by=repr)
texts = st.lists(st.tuples(st.sampled_from([*WORDS, "and"]), st.sampled_from([" ", "  ", ", ", "-"])), max_size=12).map(
    lambda pieces: "".join(word + gap for word, gap in pieces)
)


def naive(glossary: Glossary, text: str) -> list[tuple[int, int, str]]:
    """Try every term at every place with regular expressions; the words above have a plural in s only."""
    candidates = []
    for number, term in enumerate(glossary):
        words = [
            re.escape(word.removesuffix("s")) + "s?" if term.inflected else re.escape(word)
            for word in term.source.split()
        ]
        pattern = re.compile(r"\b" + r"\s+".join(words) + r"\b", re.IGNORECASE)
        for start in range(len(text)):
            if match := pattern.match(text, start):
                spelled = match[0].lower().split() == term.source.lower().split()
                candidates.append((-len(match[0]), start, not spelled, number, match.end(), term.source))
    taken: set[int] = set()
    chosen = []
    for _, start, _, _, end, source in sorted(candidates):
        if not taken & set(range(start, end)):
            taken |= set(range(start, end))
            chosen.append((start, end, source))
    return sorted(chosen)


@given(glossaries, texts)
def test_the_longest_match_is_that_of_a_naive_search(terms: list[Term], text: str) -> None:
    glossary = Glossary(terms)
    found = TermFinder(glossary, "en").find(text)
    assert [(each.start, each.end, each.term.source) for each in found] == naive(glossary, text)


@given(glossaries, texts)
def test_terms_never_overlap_and_an_unrelated_one_changes_nothing(terms: list[Term], text: str) -> None:
    found = TermFinder(Glossary(terms), "en").find(text)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert all(each.start < each.end for each in found)
    more = Glossary([Term("window", ("x",)), *terms, Term("old window", ("x",))])
    assert TermFinder(more, "en").find(text) == found


@given(st.sets(st.sampled_from(WORDS), min_size=1), texts, st.sampled_from(WORDS))
def test_codes_around_words_change_offsets_only(single: set[str], text: str, word: str) -> None:
    finder = TermFinder(Glossary(Term(source, ("x",)) for source in sorted(single)), "en")
    coded = text.replace(f"{word} ", f"{OPEN}{word}{CLOSE} ")
    found = [[(each.term, given[each.start : each.end]) for each in finder.find(given)] for given in (text, coded)]
    assert found[0] == found[1]


def test_every_pair_of_words_is_found_in_a_large_glossary() -> None:
    """Many terms share a first word, and terms of several lengths begin with it."""
    letters = [f"w{number}x" for number in range(30)]
    terms = [Term(f"{one} {other}", ("x",)) for one, other in product(letters, repeat=2)]
    finder = TermFinder(Glossary([*terms, *(Term(one, ("x",)) for one in letters)]), "de")
    text = "w3x w4x, w5x w6x w7x. w8x"
    assert shown(text, finder.find(text)) == ["w3x w4x", "w5x w6x", "w7x", "w8x"]


def test_one_index_for_different_known_words() -> None:
    plain = TermFinder(Glossary([Term("Datei", ("file",))]), "de")
    knowing = plain.knowing({"datei", "name"}.__contains__)
    text = "Der Dateiname der Datei."
    assert [found.start for found in knowing.find(text)] == [4, 18]
    assert [found.start for found in plain.find(text)] == [18]
    assert [found.start for found in knowing.knowing(lambda word: False).find(text)] == [18]
