"""Accelerators: the mark before the letter that selects an item of a menu, as in ``&File``, ``E_xit`` or ``文件(_F)``.

The mark belongs to one letter of a word, so it can neither be masked nor left to a model. It is taken out before a
text is translated, and put back before the first letter of the translation, or after the text in scripts without such
letters. Only a label with a single mark has an accelerator: two underscores are emphasis, ``&&`` is an ampersand, and
in a sentence ``_id`` is a name. Knows nothing of models and files.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

_MARK = re.compile(r"(?<!&)&(?!&)|(?<!_)_(?!_)")
# After Chinese, Japanese or Korean text: 文件(_F)...
_IN_PARENTHESES = re.compile(r"\s?[(（]([&_])([A-Za-z0-9])[)）]")
_BEFORE_WORD = re.compile(r"[\s(（\[/>:\ue000-\uf8ff«»„“‚‘]")
_NOT_BEFORE = frozenset("$%=@#\\&_0123456789")
# Inside a word, & needs a small letter after it (not R&D), and _ a word that no program would use as an identifier.
_IN_WORD = re.compile(r"[^\W\d_]*$")
_WORD_END = re.compile(r"[^\W\d_]*")
_CODE = re.compile(r"[\[\]{}|=;#*]")  # a usage line or program code, where names have underscores
_LETTER = re.compile(r"[^\W\d_]")
_END = re.compile(r"[\s.…:：。]*$")
_EITHER = re.compile(r"[a-z]+_[a-z]+[.…:]*")
_EITHER_WORDS = 4
# A longer text, or one that ends as a sentence, is no label.
_LABEL_WORDS = 12
_SENTENCE_END = re.compile(r"[^.\s][.。]$")


class Accelerator(NamedTuple):
    """The accelerator of a text.

    :param mark: ``&`` or ``_``.
    :param letter: The letter or digit that it marks.
    :param leads: Whether it is the first letter of the text.
    """

    mark: str
    letter: str
    leads: bool

    def put_back(self, text: str, spans: Sequence[tuple[int, int]] = ()) -> str:
        """Return a translation with the accelerator.

        :param spans: Where its placeholders start and end; the mark is not put into them.
        """
        first = next((match for match in _LETTER.finditer(text) if not _inside(match.start(), spans)), None)
        if first is not None and first[0].lower() != first[0].upper():
            return text[: first.start()] + self.mark + text[first.start() :]
        end = _END.search(text)
        position = end.start() if end else len(text)
        return f"{text[:position]}({self.mark}{self.letter.upper()}){text[position:]}"

    def is_certain(self, translation: str) -> bool:
        """Tell whether the accelerator of a translation is where a person would expect it.

        :param translation: The translation with the accelerator.
        """
        if _IN_PARENTHESES.search(translation):
            return True
        return self.leads or f"{self.mark}{self.letter}".lower() in translation.lower()


def find_accelerator(text: str, spans: Sequence[tuple[int, int]]) -> tuple[str, Accelerator | None]:
    """Return a text without its accelerator, and the accelerator if there is one.

    :param spans: Where the placeholders of the text start and end; marks in them do not count.
    """
    if "&" not in text and "_" not in text:
        return text, None
    plain = _plain(text, spans)
    if len(plain.split(None, _LABEL_WORDS)) > _LABEL_WORDS or _SENTENCE_END.search(plain):
        return text, None
    marks = [match.start() for match in _MARK.finditer(text) if not _inside(match.start(), spans)]
    if len(marks) != 1:
        return text, None
    position = marks[0]
    enclosed = _IN_PARENTHESES.search(text, max(0, position - 2))
    if enclosed and enclosed.start(1) == position:
        return text[: enclosed.start()] + text[enclosed.end() :], Accelerator(enclosed[1], enclosed[2], False)
    mark, before, letter = text[position], text[:position], text[position + 1 : position + 2]
    if not _LETTER.fullmatch(letter) or _inside(position + 1, spans):
        return text, None
    leads = before[-1:] not in _NOT_BEFORE
    leads = leads and all(_inside(match.start(), spans) for match in _LETTER.finditer(before))
    if leads or _BEFORE_WORD.fullmatch(before[-1:]) or (not _CODE.search(plain) and _marks_inside_word(text, position)):
        return before + text[position + 1 :], Accelerator(mark, letter, leads)
    return text, None


def count_underscores(text: str, spans: Sequence[tuple[int, int]]) -> int:
    """Count the underscores of a text outside of its placeholders: of accelerators, and of names that are no ASCII."""
    return sum(1 for match in re.finditer("_", text) if not _inside(match.start(), spans))


def may_be_accelerator(text: str) -> bool:
    """Tell whether a label has one underscore, in a word that may as well be an identifier: ``Datei be_enden``."""
    words = text.split()
    return text.count("_") == 1 and 1 < len(words) <= _EITHER_WORDS and any(map(_EITHER.fullmatch, words))


def _plain(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text with a number for each placeholder, as a model reads it."""
    parts, last = [], 0
    for start, end in spans:
        parts += [text[last:start], "71"]
        last = end
    return "".join([*parts, text[last:]])


def _marks_inside_word(text: str, position: int) -> bool:
    before, after = _IN_WORD.search(text[:position]), _WORD_END.match(text, position + 1)
    if before is None or after is None or not before[0]:
        return False
    if text[position] == "&":
        return after[0][0].islower()
    follows = text[after.end() : after.end() + 1]
    word = before[0] + after[0]
    return after[0].islower() and follows not in ("(", ".") and (word[0].isupper() or not word.isascii())


def _inside(position: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Tell whether a place is in one of the spans, which are in order."""
    number = bisect_right(spans, position, key=lambda span: span[0])
    return number > 0 and position < spans[number - 1][1]
