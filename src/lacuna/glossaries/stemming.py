"""Stems: what the inflected forms of a word have in common, by the Snowball stemmers.

A stemmer cuts endings off by rules and knows no words. It conflates few plurals with another vowel or an irregular
form (``mouse`` and ``mice``, German ``Konto`` and ``Konten``), and some words that are not the same (``Druck`` and
``Drucker``). Knows nothing of models and files.
"""

from __future__ import annotations

import re
from functools import lru_cache
from threading import Lock
from typing import Any

import snowballstemmer

from lacuna.formats.languages import base_language
from lacuna.glossaries.words import fold

_ALGORITHMS = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
# A stemmer keeps the word that it works on, so threads take turns. Few words are not in the cache.
_LOCK = Lock()
_SHORT = 2
_PLURAL_S = re.compile("...[aiouy]s$")
# Endings of English words that make another word, which Snowball cuts off as it does those of inflection.
_DERIVED = re.compile("...(able|al|ation|er|ful|ible|ion|ism|ist|ity|ive|ly|ment|ness|or|ous)$")


class Stemmer:
    """Reduces words of one language to what is compared.

    :param language: A code, with or without region.
    """

    def __init__(self, language: str) -> None:
        self.language = base_language(language)
        algorithm = _ALGORITHMS.get(self.language, "")
        self._algorithm = algorithm if algorithm in snowballstemmer.algorithms() else ""

    @property
    def can_stem(self) -> bool:
        """Whether there are rules for the language; otherwise only capitals are ignored."""
        return bool(self._algorithm)

    def stem(self, word: str) -> str:
        """Return the stem of a word.

        A word that does not look inflected stays as it is, without capitals, and is told from all stems by a sign: one
        with a digit, of one or two letters, or in capitals. Only a plural such as ``PDFs`` loses its ending.
        """
        return _stem(self._algorithm, word)


@lru_cache(maxsize=1 << 16)
def _stem(algorithm: str, word: str) -> str:
    folded = fold(word)
    if not algorithm:
        return folded
    capitals = word[:-1] if word.endswith("s") else word
    if len(capitals) >= _SHORT and capitals.isupper():
        return "=" + fold(capitals)
    if len(folded) <= _SHORT or any(map(str.isdigit, folded)):
        return "=" + folded
    with _LOCK:
        stem: str = _rules(algorithm).stemWord(folded)
    if algorithm == "english":
        # "recorder" is no form of "record", but "recorders" is one of "recorder".
        singular = folded.removesuffix("s") if not folded.endswith("ies") else folded[:-3] + "y"
        derived = _DERIVED.search(singular)
        return stem if derived is None else f"{stem}+{derived[1]}"
    # Snowball leaves this plural of German loan words (Menüs, Infos).
    return stem[:-1] if algorithm == "german" and _PLURAL_S.search(stem) else stem


@lru_cache
def _rules(algorithm: str) -> Any:  # noqa: ANN401 - the library is not typed
    return snowballstemmer.stemmer(algorithm)
