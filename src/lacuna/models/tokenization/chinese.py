"""Words of Chinese, as jieba splits them: no spaces between words, except between Latin words and numbers.

jieba's shared tokenizer, its logging and its cache in the folder of temporary files stay untouched: the dictionary is
given, and only words of this dictionary count. Knows nothing of subwords.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files

import jieba

from lacuna.errors import ModelError
from lacuna.models.tokenization.spacing import add_marks, cut_protected, drop_marks

_REMEMBERED = 2**15
_BEYOND_LATIN = "\u0250"


def jieba_dictionary() -> bytes:
    """Return the dictionary of the installed jieba."""
    return (files("jieba") / "dict.txt").read_bytes()


class JiebaWords:
    """The words of Chinese.

    :param dictionary: Lines of a word and its frequency, UTF-8.
    """

    def __init__(self, dictionary: bytes) -> None:
        self._jieba = jieba.Tokenizer()
        self._jieba.FREQ, self._jieba.total = _read_dictionary(dictionary)
        self._jieba.initialized = True
        self._cut = lru_cache(_REMEMBERED)(self._cut_anew)

    def split(self, text: str) -> list[str]:
        """Split a text into jieba's words and marks."""
        return add_marks(self._tokens(text), ChineseGaps())

    def join(self, words: Sequence[str]) -> str:
        """Put words together again."""
        return drop_marks(words, ChineseGaps())

    def _tokens(self, text: str) -> Iterator[tuple[str, bool]]:
        for chunk in text.split():
            first, *others = self._cut(chunk)
            yield first, True
            for token in others:
                yield token, False

    def _cut_anew(self, chunk: str) -> tuple[str, ...]:
        tokens: list[str] = []
        for place, part in enumerate(cut_protected(chunk)):
            tokens += [part] if place % 2 else self._jieba.lcut(part)
        return tuple(tokens)


@lru_cache(1)  # it takes a second, and models mostly have the same; nobody changes it
def _read_dictionary(dictionary: bytes) -> tuple[dict[str, int], int]:
    """Return the frequency of every word, 0 for what only begins one, and the sum of all."""
    try:
        frequencies, total = jieba.Tokenizer.gen_pfdict(io.BytesIO(dictionary))
    except ValueError as error:
        raise ModelError("jieba's dictionary: a line is not a word and a number; copy the model again") from error
    if total <= 0 or min(frequencies.values()) < 0:
        raise ModelError("jieba's dictionary: has no words, or negative frequencies; copy the model again")
    return frequencies, total


class ChineseGaps:
    """Expects a space only between two words of Latin letters or digits."""

    def __init__(self) -> None:
        self._after_latin = False

    def expects_space(self, token: str) -> bool:
        """Guess whether a space stands before ``token``."""
        return self._after_latin and _is_latin(token[0])

    def saw(self, token: str, spaced: bool) -> None:
        """Take in a token; its gap says nothing about the next one."""
        self._after_latin = _is_latin(token[-1])


def _is_latin(character: str) -> bool:
    return character.isalnum() and character < _BEYOND_LATIN
