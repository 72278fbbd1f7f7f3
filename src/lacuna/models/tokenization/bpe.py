"""Byte pair encoding by subword-nmt: learning merges from counted words, and cutting words with them.

Every piece but the last of a word ends in ``@@``. Knows nothing of how texts become words.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from functools import lru_cache

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from lacuna.errors import ModelError, TrainingError
from lacuna.models.tokenization.spacing import HYPHEN

CONTINUED = "@@"
_REMEMBERED = 2**18
_HEADER = "#version: 0.2\n"
_WORD_END = "</w>"
# No merge may be learned from these: a piece would look like one that goes on, like a control token, or like
# subword-nmt's sign for the end of a word. Such words are cut into characters, or into pieces of other words.
_UNLEARNABLE = re.compile(f"@|{_WORD_END}|</s>|<unk>|<pad>")


class Subwords:
    """Words to pieces and back.

    :param codes: What subword-nmt's ``learn-bpe`` writes.
    """

    def __init__(self, codes: str) -> None:
        # subword-nmt itself would end the process here.
        if not codes.startswith(_HEADER) or any(len(line.split(" ")) != 2 for line in _lines(codes)):
            raise ModelError("BPE codes: not a file of subword-nmt 0.2, a pair in each line; copy the model again")
        self._bpe = BPE(io.StringIO(codes))
        self.cut = lru_cache(_REMEMBERED)(self._cut_anew)

    def _cut_anew(self, word: str) -> tuple[str, ...]:
        if word == HYPHEN:
            return (word,)
        self._bpe.cache.clear()  # it has no bound, and ours is in front of it
        return tuple(self._bpe.segment_tokens([word]))


def put_together(pieces: Iterable[str]) -> list[str]:
    """Return the words that pieces make."""
    words: list[str] = []
    begun = ""
    for piece in pieces:
        if piece.endswith(CONTINUED):
            begun += piece.removesuffix(CONTINUED)
        else:
            words.append(begun + piece)
            begun = ""
    return [word for word in (*words, begun) if word]


def learn_codes(counts: Mapping[str, int], merges: int) -> str:
    """Learn at most ``merges`` merges; fewer where no further pair of pieces occurs twice."""
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
    """Return the piece that each merge makes, in order."""
    made = [line.replace(" ", "") for line in _lines(codes)]
    return [piece.removesuffix(_WORD_END) if piece.endswith(_WORD_END) else piece + CONTINUED for piece in made]


def _lines(codes: str) -> list[str]:
    return codes.removeprefix(_HEADER).removesuffix("\n").split("\n")
