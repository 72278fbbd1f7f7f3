"""Words of spaced languages, as Moses splits them, and the gaps between them, as it would put them back.

What stands between two spaces is split on its own, with as much of its neighbors as Moses looks at: most sentences are
made of what was split before. Knows nothing of subwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from sacremoses import MosesTokenizer
from sacremoses.util import is_cjk

from lacuna.models.tokenization.spacing import HYPHEN, add_marks, cut_protected, drop_marks

_REMEMBERED = 2**17
_GLUE = {HYPHEN, "/", "_", "\\"}
_CLOSING = re.compile(r"[,.?!:;%}\])]+")
_OPENING = re.compile(r"[(\[{¿¡#]+")
_CURRENCY = re.compile(r"[$£¥€]")
_SPACED_IN_FRENCH = {"?", "!", ":", ";", "%"}
# Signs of one name open and close each other: German closes with the sign that opens in English.
_QUOTES = dict.fromkeys('"„“”', "double") | dict.fromkeys("'‘‚’`", "single") | dict.fromkeys("«»", "angle")
_APOSTROPHES = {"'", "’"}
_NEVER_OPENS = {"’"}
_RATIO = {":"}


class _QuickMoses(MosesTokenizer):  # type: ignore[misc]
    """Moses with the same answers, without making a set of all of Unicode's letters for each."""

    def __init__(self, language: str) -> None:
        super().__init__(language)
        self.small_letters, self.letters = frozenset(self.IsLower), frozenset(self.IsAlpha)
        self.letters_and_digits = frozenset(self.IsAlnum)

    def islower(self, text: str) -> bool:
        return self.small_letters.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        return not self.letters.isdisjoint(text)


class MosesWords:
    """The words of a spaced language."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._moses = _QuickMoses(language)
        self._cut = lru_cache(_REMEMBERED)(self._cut_anew)

    def split(self, text: str) -> list[str]:
        """Split a text into Moses's tokens and marks."""
        return add_marks(self._tokens(text.split()), MosesGaps(self._language))

    def join(self, words: Sequence[str]) -> str:
        """Put words together again."""
        return drop_marks(words, MosesGaps(self._language))

    def _tokens(self, chunks: list[str]) -> Iterator[tuple[str, bool]]:
        following = [*(self._kind(chunk[0]) for chunk in chunks[1:]), ""]
        for place, chunk in enumerate(chunks):
            first, *others = self._cut(chunk, place == 0, following[place])
            yield first, True
            for token in others:
                yield token, False

    def _kind(self, character: str) -> str:
        """Return what stands for the next word: Moses only asks whether it begins with a small letter or a digit."""
        if "0" <= character <= "9":
            return "1"
        return "a" if self._moses.islower(character) else "A"

    def _cut_anew(self, chunk: str, first: bool, following: str) -> tuple[str, ...]:
        parts = cut_protected(chunk)
        last = len(parts) - 1
        tokens: list[str] = []
        for place, part in enumerate(parts):
            if place % 2:
                tokens.append(part)
            elif part:
                tokens += self._ask_moses(part, first and place == 0, following if place == last else "A")
        return tuple(tokens)

    def _ask_moses(self, part: str, first: bool, following: str) -> list[str]:
        if self._moses.letters_and_digits.issuperset(part):  # what Moses never splits
            return [part]
        text = " ".join([*([] if first else ["x"]), part, *([following] if following else [])])
        words = self._moses.tokenize(text, aggressive_dash_splits=True, escape=False)
        words = words[0 if first else 1 : len(words) - bool(following)]
        # Moses drops control characters, and takes some words (DOTMULTI) for its own: such a part stays whole.
        whole = "".join("-" if word == HYPHEN else word for word in words) == part
        return words if whole else [part]


class MosesGaps:
    """Moses's detokenizer as a guess: no space before a comma, none after a bracket, quotes by turns.

    Unlike Moses it writes ``/``, ``_`` and ``12:30`` together and keeps ``5 €`` apart, which saves marks.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._english, self._french = language == "en", language == "fr"
        self._open: set[str] = set()
        self._sticky = False  # the next token is expected to follow without a space
        self._ratio = False  # "12:" was written so
        self._last = " "

    def expects_space(self, token: str) -> bool:
        """Guess whether a space stands before ``token``."""
        kind = _kind_of(token, self._language)
        if self._sticky or kind in ("glue", "contraction"):
            return False
        if kind == "closing":
            return self._french and token in _SPACED_IN_FRENCH
        if kind == "quote":
            possessive = self._english and token in _APOSTROPHES and self._last[-1] == "s"
            return not (_QUOTES[token] in self._open or token in _NEVER_OPENS or possessive)
        if kind == "cjk":
            return self._language == "ko" or not is_cjk(self._last[-1])
        return not (self._ratio and token[0].isdigit())

    def saw(self, token: str, spaced: bool) -> None:
        """Take in a token and its gap."""
        kind = _kind_of(token, self._language)
        if kind == "quote":
            self._sticky = self._turn_quote(token, spaced)
        elif kind == "currency":
            self._sticky = not self._last[-1].isdigit()
        else:
            self._sticky = kind in ("opening", "glue", "elision")
        self._ratio = token in _RATIO and not spaced and self._last[-1].isdigit()
        self._last = token

    def _turn_quote(self, token: str, spaced: bool) -> bool:
        """Open or close a quotation; return whether what follows is expected without a space."""
        name = _QUOTES[token]
        if name in self._open:
            self._open.remove(name)
            return False
        if spaced or self._sticky:
            self._open.add(name)
            return True
        # Written to the word before, and nothing to close: an apostrophe, which in English Moses leaves alone only
        # at the end of a word (it writes the others as "'s").
        return token in (_NEVER_OPENS if self._english else _APOSTROPHES)


@lru_cache(_REMEMBERED)
def _kind_of(token: str, language: str) -> str:
    if token in _GLUE:
        return "glue"
    if token in _QUOTES:
        return "quote"
    for kind, pattern in (("closing", _CLOSING), ("opening", _OPENING), ("currency", _CURRENCY)):
        if pattern.fullmatch(token):
            return kind
    if language == "en" and token[0] == "'" and token[1:2].isalpha():
        return "contraction"
    if language in ("fr", "it") and token[-1] == "'" and token[:-1].isalpha():
        return "elision"
    return "cjk" if is_cjk(token[0]) else "plain"
