"""Byte pair encoding by subword-nmt: learn merges and a vocabulary from counted words, and split words with them.

Every piece except the last of a word ends in ``@@``. The vocabulary holds every known character, alone and at the start
of a word, and the result of each merge. So every piece is in it, and only unknown characters become ``<unk>``.
"""

from __future__ import annotations

import io
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from functools import lru_cache

from lacuna.errors import ModelError, TrainingError, needs_extra
from lacuna.models.tokenization.splitters import HYPHEN, JOIN, SPACE

END = "</s>"
UNKNOWN = "<unk>"
PAD = "<pad>"
CONTINUED = "@@"
_CACHED = 2**18
_HEADER = "#version: 0.2\n"
_WORD_END = "</w>"
# No merges are learned from words with these: a piece would look like a continued one, a control token, or
# subword-nmt's end of a word. Such words are split into characters, or into pieces of other words.
_UNLEARNABLE = re.compile(f"@|{_WORD_END}|{END}|{UNKNOWN}|{PAD}")
_CHARACTER_COVERAGE = 0.9995  # as in the sentencepiece vocabulary
_CHARACTER_SHARE = 0.75  # of the vocabulary at most; Chinese text has thousands of characters
_ALWAYS_KNOWN = string.printable.strip() + JOIN + SPACE  # for placeholders and paths, which are rare in general text


class Bpe:
    """Splits words into pieces.

    :param codes: Output of subword-nmt's ``learn-bpe``.
    """

    def __init__(self, codes: str) -> None:
        # subword-nmt itself would end the process here.
        if not codes.startswith(_HEADER) or any(len(line.split(" ")) != 2 for line in _lines(codes)):
            raise ModelError("BPE codes: not a file of subword-nmt 0.2, a pair in each line; copy the model again")
        require_bpe()
        from subword_nmt.apply_bpe import BPE

        self._bpe = BPE(io.StringIO(codes))
        self.split = lru_cache(_CACHED)(self._split_uncached)

    def _split_uncached(self, word: str) -> tuple[str, ...]:
        if word == HYPHEN:
            return (word,)
        self._bpe.cache.clear()  # it is unbounded, and ours comes first
        return tuple(self._bpe.segment_tokens([word]))


def require_bpe() -> None:
    """Raise an error that names the extra if subword-nmt is not installed."""
    with needs_extra("bpe", "tokenization bpe"):
        import subword_nmt  # noqa: F401


def join_pieces(pieces: Iterable[str]) -> list[str]:
    """Join pieces into words."""
    words: list[str] = []
    begun = ""
    for piece in pieces:
        if piece.endswith(CONTINUED):
            begun += piece.removesuffix(CONTINUED)
        else:
            words.append(begun + piece)
            begun = ""
    return [word for word in (*words, begun) if word]


def learn_vocabulary(counts: Mapping[str, int], size: int) -> tuple[str, list[str]]:
    """Return BPE codes and all pieces in the order of their ids, without the padding token.

    :param counts: How often each word occurs.
    :param size: Maximum number of pieces.
    """
    fixed = [END, UNKNOWN, HYPHEN]
    for character in known_characters(counts, int(size * _CHARACTER_SHARE) // 2):
        fixed += [character, character + CONTINUED]
    codes = learn_codes(counts, size - len(fixed))
    return codes, list(dict.fromkeys([*fixed, *merged_pieces(codes)]))


def known_characters(counts: Mapping[str, int], at_most: int) -> list[str]:
    """Choose the characters that are always known, then the most frequent ones until they cover the text."""
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    wanted = _CHARACTER_COVERAGE * characters.total()
    known = dict.fromkeys(_ALWAYS_KNOWN)
    covered = sum(characters.pop(character, 0) for character in known)
    for character, count in sorted(characters.items(), key=lambda item: (-item[1], item[0])):
        if covered >= wanted or len(known) >= at_most:
            break
        known[character] = None
        covered += count
    return list(known)


def learn_codes(counts: Mapping[str, int], merges: int) -> str:
    """Learn at most ``merges`` merges; fewer if no other pair of pieces occurs twice."""
    require_bpe()
    from subword_nmt.learn_bpe import learn_bpe

    words = [f"{word} {count}" for word, count in counts.items() if not _UNLEARNABLE.search(word)]
    codes = io.StringIO()
    try:
        with redirect_stderr(io.StringIO()):  # a progress bar, and a notice at the end
            learn_bpe(words, codes, merges, is_dict=True)
    except ValueError as error:
        raise TrainingError("BPE: the corpus has no word of two characters to learn from; give more text") from error
    if codes.getvalue() == _HEADER:
        raise TrainingError("BPE: no pair of characters occurs twice in the corpus; give more text")
    return codes.getvalue()


def merged_pieces(codes: str) -> Sequence[str]:
    """Return the result of each merge, in order."""
    made = [line.replace(" ", "") for line in _lines(codes)]
    return [piece.removesuffix(_WORD_END) if piece.endswith(_WORD_END) else piece + CONTINUED for piece in made]


def _lines(codes: str) -> list[str]:
    return codes.removeprefix(_HEADER).removesuffix("\n").split("\n")
