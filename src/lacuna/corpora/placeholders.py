"""Placeholders: parts of a text that a translation must repeat unchanged, such as ``%s``, ``{name}`` or ``<b>``.

A model garbles what it has rarely seen, so placeholders are masked before a text is tokenized: each becomes a
*stand-in*, a two-digit number that does not occur in the text otherwise, because models copy numbers reliably. The
numbering depends on the placeholders alone and not on their order, so the two sides of a sentence pair can be masked
independently and get the same stand-ins. Knows nothing of models and files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import NamedTuple

# Inline codes of documents (tags, XLIFF codes) are private-use characters while they are translated: a code that opens,
# the code CLOSING - OPENING higher that closes it, or a code that stands alone.
OPENING, CLOSING, ALONE, LAST = 0xE000, 0xE800, 0xF000, 0xF8FF

_NOT_IN_URL = r"\s<>\"'(){}\[\]\u3000-\u9fff\ue000-\uffef"
PLACEHOLDER = re.compile(
    rf"""
      (?:https?|ftp)://[^{_NOT_IN_URL}]*[^{_NOT_IN_URL}.,;:!?]  # a URL, without the punctuation after it
    """
    r"""
    | </?[A-Za-z][^<>]{0,1000}>                             # <b>, </b>, <a href="...">
    | (?<![^\W\d_])&(?:[A-Za-z]{2,8}|\#\d{1,7}|\#[xX][0-9A-Fa-f]{1,6});(?![^\W\d_])  # &amp; but not in f&uuml;r
    | \{\{[^{}]{0,200}\}\}                                  # {{ x }}
    | \$\{[^{}]{0,200}\}                                    # ${x}
    | %\([^()\s%]{1,100}\)[-+#0]*\d*(?:\.\d+)?[a-zA-Z]      # %(n)d
    | \{[\w.!:\-+\[\]<>=^%, ]{0,100}\}                      # {name}, {0}, {}, {x:.2f}
    | %\d{1,2}\$[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcrsS@]  # %1$s
    | (?<!\d)%[sd]                                          # %s, also before a letter; but not 100%sicher
    | %[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcrsS@](?![^\W\d_])  # %5.2f; not 100%ige
    | %L?\d{1,2}(?!\d)                                      # %1 of Qt
    | %%
    | [\ue000-\uf8ff]
    """,
    re.VERBOSE,
)
_NUMBERS = re.compile(r"\d+")
# The numbers come first because most models copy them best; the others are for further attempts.
_STYLES = ("{}", "X{}", "#{}", "(A{})", "V{}")
# Above what counts in most texts, and without the round numbers and years that models rewrite.
_FIRST, _END = 71, 100
STYLES = len(_STYLES)


class MaskedPlaceholder(NamedTuple):
    """What a stand-in replaces.

    :param original: The placeholder, or a run of adjacent placeholders.
    :param spaced_before: Whether masking added a space before the stand-in.
    :param spaced_after: Whether it added one after the stand-in.
    """

    original: str
    spaced_before: bool
    spaced_after: bool


@dataclass(frozen=True, slots=True)
class Masked:
    """A text with stand-ins instead of placeholders.

    :param text: The text with stand-ins.
    :param stand_ins: What each stand-in replaces.
    """

    text: str
    stand_ins: dict[str, MaskedPlaceholder]

    def restore(self, text: str) -> str | None:
        """Put the placeholders back into a translation of the masked text; None unless each occurs exactly once."""
        if not self.stand_ins:
            return text
        pattern = _pattern(tuple(self.stand_ins))
        if sorted(match[2] for match in pattern.finditer(text)) != sorted(self.stand_ins):
            return None
        return pattern.sub(self._original, text)

    def _original(self, found: re.Match[str]) -> str:
        stand_in = self.stand_ins[found[2]]
        before = "" if stand_in.spaced_before else found[1]
        return before + stand_in.original + ("" if stand_in.spaced_after else found[3])


def placeholder_spans(text: str) -> list[tuple[int, int]]:
    """Return where runs of adjacent placeholders start and end, in order."""
    return list(_runs(text))


def find_placeholders(text: str) -> list[str]:
    """Return the placeholders of a text in order."""
    return [match[0] for match in PLACEHOLDER.finditer(text)]


def same_placeholders(source: str, target: str) -> bool:
    """Tell whether two texts have the same placeholders, in any order.

    Inline codes of the target must also be nested, and those that enclose letters in the source must do so.
    """
    if Counter(find_placeholders(source)) != Counter(find_placeholders(target)):
        return False
    return not is_nested(source) or (is_nested(target) and _enclosing(source) <= _enclosing(target))


def is_nested(text: str) -> bool:
    """Tell whether every inline code that opens is closed by its own, in the right order."""
    opened: list[int] = []
    for letter in text:
        code = ord(letter)
        if OPENING <= code < CLOSING:
            opened.append(code)
        elif CLOSING <= code < ALONE and (not opened or opened.pop() != code - CLOSING + OPENING):
            return False
    return not opened


def _enclosing(text: str) -> set[str]:
    """Return the inline codes that open around at least one letter."""
    opened: list[str] = []
    found: set[str] = set()
    for letter in text:
        if OPENING <= ord(letter) < CLOSING:
            opened.append(letter)
        elif CLOSING <= ord(letter) < ALONE and opened:
            opened.pop()
        elif letter.isalpha():
            found.update(opened)
    return found


def mask(text: str, style: int = 0) -> Masked:
    """Replace the placeholders of a text by stand-ins; a text without placeholders stays the same object.

    Adjacent placeholders share a stand-in. A space is added between a stand-in and a letter or digit next to it, and
    :meth:`Masked.restore` takes it out again.

    :param style: Which kind of stand-ins, 0 to ``STYLES`` - 1.
    """
    runs = list(_runs(text))
    if not runs:
        return Masked(text, {})
    free = _free_stand_ins(text, style)
    # Equal placeholders are numbered in order of occurrence, and different ones in order of their text.
    order = sorted(range(len(runs)), key=lambda number: (text[slice(*runs[number])], number))
    names = {number: next(free) for number in order}
    parts, last = [], 0
    stand_ins = {}
    for number, (start, end) in enumerate(runs):
        before, after = text[start - 1 : start].isalnum(), text[end : end + 1].isalnum()
        parts += [text[last:start], " " * before, names[number], " " * after]
        stand_ins[names[number]] = MaskedPlaceholder(text[start:end], before, after)
        last = end
    return Masked("".join(parts) + text[last:], stand_ins)


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield where runs of adjacent placeholders start and end."""
    start = end = -1
    for match in PLACEHOLDER.finditer(text):
        if match.start() != end:
            if end >= 0:
                yield start, end
            start = match.start()
        end = match.end()
    if end >= 0:
        yield start, end


def _free_stand_ins(text: str, style: int) -> Iterator[str]:
    taken = set(_NUMBERS.findall(text))
    numbers = (str(number) for number in count(_FIRST) if number < _END or number > 10 * _FIRST)
    return (_STYLES[style].format(number) for number in numbers if number not in taken)


@lru_cache(maxsize=4096)
def _pattern(stand_ins: tuple[str, ...]) -> re.Pattern[str]:
    alternatives = "|".join(map(re.escape, sorted(stand_ins, key=len, reverse=True)))
    return re.compile(rf"( ?)(?<![0-9A-Za-z])({alternatives})(?![0-9A-Za-z])( ?)")
