"""Inflected forms have one stem, and words that are not inflected keep their spelling."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lacuna.glossaries.stemming import Stemmer


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("de", "Datei", "Dateien"),
        ("de", "Haus", "Häuser"),
        ("de_AT", "Eintrag", "Einträgen"),
        ("de", "Menü", "Menüs"),
        ("de", "Straße", "STRASSE".title()),
        ("de", "PDF", "PDFs"),
        ("en", "directory", "directories"),
        ("en_GB", "file", "Files"),
        ("fr", "fichier", "fichiers"),
        ("pt_BR", "arquivo", "arquivos"),
        ("nb", "fil", "filer"),
    ],
)
def test_one_stem(language: str, one: str, other: str) -> None:
    assert Stemmer(language).stem(one) == Stemmer(language).stem(other)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("en", "AIDS", "aid"),
        ("en", "IT", "its"),
        ("en", "mp3s", "mp3"),
        ("en", "mouse", "mice"),
        ("de", "Konto", "Konten"),
        ("de", "Maus", "Mau"),
        ("zh_TW", "file", "files"),
        ("xx", "Datei", "Dateien"),
    ],
)
def test_two_stems(language: str, one: str, other: str) -> None:
    assert Stemmer(language).stem(one) != Stemmer(language).stem(other)


def test_a_stem_is_no_word_in_capitals() -> None:
    """Snowball cuts the s of "its" off; what remains is not the abbreviation."""
    stemmer = Stemmer("en")
    assert stemmer.stem("its") == "it" != stemmer.stem("IT")


def test_languages_without_rules_ignore_capitals_only() -> None:
    assert Stemmer("de").can_stem
    assert not Stemmer("zh").can_stem
    assert Stemmer("zh").stem("USB") == "usb"


def test_threads_share_the_rules() -> None:
    words = [
        f"{'abcdefghij'[number % 10] * 3}{'klmnop'[number % 6]}{number % 7 * 'u'}lichkeiten" for number in range(2000)
    ]
    with ThreadPoolExecutor(8) as pool:
        stems = list(pool.map(Stemmer("de").stem, words))
    import snowballstemmer

    rules = snowballstemmer.stemmer("german")
    assert stems == [rules.stemWord(word) for word in words]
