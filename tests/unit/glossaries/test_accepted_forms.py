"""Accepted forms are recognized as whole words, and forbidden ones only where they are not part of an accepted one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.corpora.placeholders import CLOSING, OPENING
from lacuna.glossaries import Term
from lacuna.glossaries.accepted_forms import AcceptedForms, surface_forms

OPEN, CLOSE = chr(OPENING), chr(CLOSING)


@pytest.mark.parametrize(
    ("language", "targets", "text", "expected"),
    [
        ("en", "file", "Open the files.", "files"),
        ("en", "file", "the file's owner", "file"),
        ("en", "file", "profile", None),
        ("en", "file", "FILE", "FILE"),
        ("en", "file", "{file} my_file.txt", None),
        ("en", "file name", "a file-name", "file-name"),
        ("en", "file name", "a file of name", None),
        ("en", "file name", "filename", None),
        ("en", "user account", "all user's accounts", "user's accounts"),
        ("en", "e-mail", "an e mail", "e mail"),
        ("en", "folder|directory", "Directories, folders", "Directories"),
        ("en", "open|open file", "open files", "open files"),
        ("en", "PDF", "two PDFs", "PDFs"),
        ("en", "C++", "in C or C++", "C++"),
        ("en", "file", f"the {OPEN}file{CLOSE}s", "file"),
        ("en", "old file", f"the {OPEN}old{CLOSE} files", f"old{CLOSE} files"),
        ("de", "Datei", "In den Dateien", "Dateien"),
        ("de", "Menü", "die Menüs", "Menüs"),
        ("de", "Datei", "Textdatei", None),
        ("de", "Datei", "Text-Datei", "Datei"),
        ("fr", "ordinateur", "de l’ordinateur", "ordinateur"),
        ("fr", "écran", "d'écrans", "écrans"),
        ("fr", "nom d'utilisateur", "les noms d’utilisateur", "noms d’utilisateur"),
        ("zh", "文件夹", "打开文件夹。", "文件夹"),
        ("zh", "文件夹", "打开文件", None),
        ("zh", "USB接口", "USB 接口", "USB 接口"),
        ("xx", "datei", "dateien Datei", "Datei"),
    ],
)
def test_by_hand(language: str, targets: str, text: str, expected: str | None) -> None:
    term = Term("x", tuple(targets.split("|")))
    span = AcceptedForms(language).find(term, text)
    assert (None if span is None else text[slice(*span)]) == expected


def test_exact_and_case_sensitive_forms() -> None:
    accepted = AcceptedForms("en")
    text = "files File file"
    assert accepted.find(Term("x", ("file",), inflected=False), text) == (6, 10)
    assert accepted.find(Term("x", ("file",), inflected=False, case_sensitive=True), text) == (11, 15)
    assert accepted.find(Term("x", ("File",), case_sensitive=True), "files Files") == (6, 11)


def test_a_term_that_is_not_translated_stays_as_it_is_written() -> None:
    accepted, term = AcceptedForms("en"), Term("Top Secret", ("anything",), translate=False)
    assert accepted.find(term, "Top-Secret top secret anything Top Secrets Top  Secret") == (43, 54)
    assert accepted.count(term, "anything") == 0


def test_counts_and_forms() -> None:
    accepted, term = AcceptedForms("en"), Term("x", ("file", "file name"))
    text = "File names, files and a file"
    assert accepted.count(term, text) == 3
    assert accepted.forms_in(term, text) == ["File names", "files", "file"]
    assert accepted.count(Term("x"), text) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the folder", "folder"),
        ("the shared folders", None),
        ("the shared folders and folders", "folders"),
        ("subfolder", None),
    ],
)
def test_forbidden_forms(text: str, expected: str | None) -> None:
    """A forbidden form at the end of an accepted one is allowed; in the text above only a free one is reported."""
    term = Term("x", ("shared folder",), forbidden=("folder",))
    span = AcceptedForms("en").find_forbidden(term, text)
    assert (None if span is None else text[slice(*span)]) == expected
    if text.count("folders") == 2:
        assert span == (text.rindex("folders"), len(text))


@pytest.mark.parametrize(
    ("target", "forbidden", "text", "accepted", "wrong"),
    [
        ("account", "accounting", "accounting", None, "accounting"),
        ("account", "accounting", "accounting of accounts", "accounts", "accounting"),
        ("setting", "set", "all settings", "settings", None),
        ("setting", "set", "a set", None, "set"),
        ("setting", "set", "the Setting", "Setting", None),
        ("setting", "window", "settings, windows", "settings", "windows"),
    ],
)
def test_the_spelling_decides_between_equal_stems(
    target: str, forbidden: str, text: str, accepted: str | None, wrong: str | None
) -> None:
    """So a forbidden form undoes a stem that is the same by mistake."""
    forms, term = AcceptedForms("en"), Term("x", (target,), (forbidden,))
    found = [forms.find(term, text), forms.find_forbidden(term, text)]
    assert [span and text[slice(*span)] for span in found] == [accepted, wrong]
    assert forms.forms_in(term, text) == ([] if accepted is None else [accepted])


@pytest.mark.parametrize(
    ("target", "expected"),
    [("file", ["file", "File"]), ("File", ["File"]), ("été", ["été", "Été"]), ("文件", ["文件"]), ("", [""])],
)
def test_surface_forms(target: str, expected: list[str]) -> None:
    assert surface_forms(target) == expected


WORDS = ["file", "files", "name", "old"]
targets = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join), min_size=1, max_size=3)


@given(targets, st.lists(st.sampled_from([*WORDS, "and"]), max_size=10))
def test_laws(targets: list[str], words: list[str]) -> None:
    accepted, text = AcceptedForms("en"), " ".join(words)
    term = Term("x", tuple(targets))
    forms = accepted.forms_in(term, text)
    assert len(forms) == accepted.count(term, text)
    span = accepted.find(term, text)
    assert (span is None) == (not forms)
    stemmed = [word.removesuffix("s") for word in words]
    places = [
        place
        for place in range(len(words))
        for target in targets
        for wanted in [[word.removesuffix("s") for word in target.split()]]
        if stemmed[place : place + len(wanted)] == wanted
    ]
    if span is not None:
        assert span[0] == len(" ".join(words[: places[0]])) + (places[0] > 0)
    assert bool(places) == bool(forms)
    # What is accepted is never forbidden by itself.
    assert accepted.find_forbidden(Term("x", tuple(targets), forbidden=("window",)), text) is None
