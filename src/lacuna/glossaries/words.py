"""The words of a text: where they are, and what is between them.

A word is a run of letters, digits and marks. Hyphens, apostrophes and inline codes end it. Chinese, Japanese, Thai,
Lao, Khmer and Burmese are written without spaces between words, so there each character counts as a word. What is
inside placeholders has no words. Knows nothing of models and files.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from lacuna.corpora.placeholders import placeholder_spans

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# Combining marks, which are no letters for the module re. None beyond this plane is in common use.
_MARKS = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
_INVISIBLE = "\u00ad\u200b-\u200d\u2060"  # in a word: soft hyphens, joiners
_INSIDE = f"[{_MARKS}{_INVISIBLE}]"
_WORD = re.compile(rf"[{_UNSPACED}](?<![_\W]){_INSIDE}*|(?:[^\W_{_UNSPACED}]{_INSIDE}*)+")
_UNSPACED_WORD = re.compile(f"[{_UNSPACED}]")
_NOT_COMPARED = re.compile(f"[{_INVISIBLE}]")
_CODES = re.compile("[\ue000-\uf8ff]+")
_ONLY_CODES = re.compile("[\ue000-\uf8ff]+$")
_END_OF_WORD = re.compile("[^\\W_](?:-|[\ue000-\uf8ff]+)\\Z")
_START_OF_WORD = re.compile("(?:-|[\ue000-\uf8ff]+)[^\\W_]")
_SPACES = re.compile(r"\s+")
_SAME_SIGNS = str.maketrans({"\u2010": "-", "\u2011": "-", "\u2019": "'", "\u02bc": "'"})


class Word(NamedTuple):
    """A word, and where it starts and ends in its text."""

    text: str
    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """Return the words of a text that are not inside placeholders, in order."""
    return [
        Word(match[0], match.start(), match.end())
        for start, end in _between_placeholders(text)
        for match in _WORD.finditer(text, start, end)
    ]


def is_spaced(character: str) -> bool:
    """Tell whether a character is of a script that has spaces between words."""
    return _UNSPACED_WORD.match(character) is None


@lru_cache(maxsize=1 << 16)
def fold(text: str) -> str:
    """Return a text as it is compared: composed, without capitals and invisible characters."""
    if text.isascii():
        return text.lower()
    visible = _NOT_COMPARED.sub("", unicodedata.normalize("NFC", text))
    # Composed again after casefold, which can decompose a character.
    return unicodedata.normalize("NFC", visible.casefold())


def gaps_between(text: str, words: list[Word]) -> list[str]:
    """Return what is before the first word, between each two words, and after the last one, in one spelling.

    Inline codes do not count, any whitespace is one space, and hyphens and apostrophes have one form each. Next to a
    character that counts as a word, whitespace is nothing: ``USB接口`` is also written ``USB 接口``.
    """
    edges = [0, *(edge for word in words for edge in (word.start, word.end)), len(text)]
    gaps = [_plain_gap(text[edges[n] : edges[n + 1]]) for n in range(0, len(edges), 2)]
    for number in range(1, 0 if text.isascii() else len(words)):
        if gaps[number] == " " and any(_UNSPACED_WORD.match(word.text) for word in words[number - 1 : number + 1]):
            gaps[number] = ""
    return gaps


def is_joined(text: str, start: int, end: int) -> bool:
    """Tell whether a hyphen, or nothing but inline codes, is between a place and a word before or after it."""
    before, after = _END_OF_WORD.search(text, 0, start), _START_OF_WORD.match(text, end)
    return before is not None or after is not None


def has_same_capitals(written: str, found: str) -> bool:
    """Tell whether two forms of a word have capitals in the same places, as far as both reach."""
    return all(one.isupper() == other.isupper() for one, other in zip(written, found, strict=False))


@lru_cache(maxsize=1 << 10)
def _plain_gap(gap: str) -> str:
    return gap if gap == " " else _SPACES.sub(" ", _CODES.sub("", gap)).translate(_SAME_SIGNS)


def _between_placeholders(text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text outside of placeholders; inline codes alone do not end a part."""
    last = 0
    for start, end in placeholder_spans(text):
        if not _ONLY_CODES.match(text, start, end):
            yield last, start
            last = end
    yield last, len(text)
