"""Which words are written together: a rule guesses, and a mark says so where the rule is wrong.

Putting words together again is then exact, while ordinary sentences carry no mark at all. Knows no language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

JOIN = "￭"  # nothing stands between its neighbors
SPACE = "␣"  # a space stands between its neighbors
HYPHEN = "@-@"  # how Moses writes the hyphen of "kNN-MT"; in the text it is a plain one


class Gaps(Protocol):
    """A guess at the gaps of one text, read from left to right."""

    def expects_space(self, token: str) -> bool:
        """Guess whether a space stands before ``token``, given the tokens seen so far."""

    def saw(self, token: str, spaced: bool) -> None:
        """Take in ``token`` and whether a space truly stood before it."""


class Words(Protocol):
    """The words of one language."""

    def split(self, text: str) -> list[str]:
        """Split a text into words and marks."""

    def join(self, words: Sequence[str]) -> str:
        """Undo :meth:`split`, but for the kind and number of white space; takes any other list of words too."""


def add_marks(tokens: Iterable[tuple[str, bool]], gaps: Gaps) -> list[str]:
    """Write tokens as words, with a mark before each whose gap is not the expected one.

    :param tokens: Each token, and whether a space stands before it.
    """
    words: list[str] = []
    for token, spaced in tokens:
        if words and gaps.expects_space(token) != spaced:
            words.append(SPACE if spaced else JOIN)
        gaps.saw(token, spaced)
        words.append(_escaped(token))
    return words


def drop_marks(words: Iterable[str], gaps: Gaps) -> str:
    """Put words together as the marks say, and elsewhere as the guess does."""
    parts: list[str] = []
    mark = ""
    for word in words:
        if word in (JOIN, SPACE):
            mark = word
            continue
        token = _unescaped(word)
        spaced = not parts or (mark == SPACE if mark else gaps.expects_space(token))
        gaps.saw(token, spaced)
        if parts and spaced:
            parts.append(" ")
        parts.append("-" if token == HYPHEN else token)
        mark = ""
    return "".join(parts)


def _escaped(token: str) -> str:
    """Make a token of the text that looks like a mark one character longer."""
    return token + token[0] if _looks_like_a_mark(token) else token


def _unescaped(word: str) -> str:
    return word[1:] if _looks_like_a_mark(word) else word


def _looks_like_a_mark(token: str) -> bool:
    return token[0] in (JOIN, SPACE) and not token.strip(token[0])


# Lengths are bounded where a pattern could otherwise look far ahead from every character of a long word.
_PROTECTED = re.compile(
    r"""(
      (?: (?:https?|ftp|file):// | www\. ) [!\#-;=?-~]* [\w/]   # an address, without the punctuation after it
    | [\w.+-]{1,64} @ [\w-]{1,63} (?: \. [\w-]{1,63} )+         # an e-mail address
    | </? [A-Za-z] [!-;=?-~]* >                                 # <b> </b> <br/>
    | & \#? \w{1,32} ;                                          # &amp; &#160;
    | \$ \{ [\w.]+ \} | \$ [A-Za-z_] \w*                        # ${name} $name
    | \{\{? [\w.:!-]* \}\}?                                     # {} {0} {name} {{name}}
    | % \( \w+ \) [a-z]                                         # %(name)s
    | (?<! [\w%] ) % (?: \d+\$ )? [-+\#0]* \d* (?: \.\d+ )? (?: hh? | ll? | [Lqjzt] )? [diouxXeEfFgGcsp] (?! \w )
    | (?<! [\w%] ) % \d+ (?! [\w%] )                            # %1 of KDE
    )""",
    re.VERBOSE | re.ASCII,
)


def cut_protected(text: str) -> list[str]:
    """Cut a text round what is protected: every second part, from the second on, must stay whole."""
    return _PROTECTED.split(text)
