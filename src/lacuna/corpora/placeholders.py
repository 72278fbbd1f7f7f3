"""Placeholders: parts of a text that a translation must repeat unchanged, such as ``%s``, ``{name}`` or ``<b>``.

A model garbles what it has rarely seen, so placeholders are masked before a text is tokenized: each becomes a
*stand-in*, a two-digit number that does not occur in the text otherwise, because models copy numbers reliably. The
numbering depends on the placeholders alone and not on their order, so the two sides of a sentence pair can be masked
independently and get the same stand-ins. An accelerator (``_File``) is taken out and put back, and an entity that
spells a letter of a word (``f&uuml;r``) is read as that letter. Knows nothing of models and files.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from lacuna.corpora.accelerators import Accelerator, count_underscores, find_accelerator

# Inline codes of documents (tags, XLIFF codes) are private-use characters while they are translated: a code that opens,
# the code CLOSING - OPENING higher that closes it, or a code that stands alone.
OPENING, CLOSING, ALONE, LAST = 0xE000, 0xE800, 0xF000, 0xF8FF


_NOT_IN_URL = r"\s<>\"'(){}\[\]\u3000-\u9fff\ue000-\uffef"
_NOT_IN_PATH = r"\s\\/:*?\"<>|()\[\]{},;\u3000-\u9fff\ue000-\uffef"
# Arrows, mathematical signs, boxes, emoji: one character with what modifies or joins it.
_SYMBOL = r"[\u2022\u2023\u2043\u2190-\u2211\u2213-\u2bff\U0001f000-\U0001faff]"
_MODIFIER = r"[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
_NO_PATH_BEFORE = r"(?<![\w/.~<>)\]}-])"
_STEP = r"/[A-Za-z0-9_.+-]*[A-Za-z0-9_+-]"  # of a path; a period after it ends the sentence
_ROOTS = "bin|boot|dev|etc|home|lib|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var"
PLACEHOLDER = re.compile(
    rf"""
      # A URL, without the punctuation after it
      (?:(?<![A-Za-z])[a-z][a-z+]{{1,9}}://|(?<!\w)www\.)[^{_NOT_IN_URL}]*[^{_NOT_IN_URL}.,;:!?]
      # An e-mail address
    | (?<![\w.+-])[A-Za-z0-9](?:[\w.+-]{{0,63}}\w)?@(?:[\w-]{{1,63}}\.){{1,8}}[^\W\d_]{{2,24}}(?!\w)
      # C:\Program Files\x.ini, \\server\share
    | (?<!\w)(?:[A-Za-z]:|\\)\\(?:[^{_NOT_IN_PATH}]+(?:\ [^{_NOT_IN_PATH}]+){{0,3}}\\)*
      (?:[^{_NOT_IN_PATH}]*[^{_NOT_IN_PATH}.!])?
    | {_NO_PATH_BEFORE}(?:~|\.{{1,2}})?(?:{_STEP}){{2,}}/?(?![\w/])  # /etc/x.conf, ../a/b
    | {_NO_PATH_BEFORE}(?:~|\.{{1,2}}){_STEP}(?![\w/])      # ~/.profile, ./configure
    | {_NO_PATH_BEFORE}/(?:{_ROOTS})/?(?![\w/])             # /etc
    | (?<!\d)[0-9\#*]\ufe0f?\u20e3                          # a keycap
    | {_SYMBOL}(?:{_MODIFIER}|\u200d{_SYMBOL})*
    """
    r"""
    | ``[^`\n]{1,200}``                                     # a literal of reStructuredText
    | </?[A-Za-z][^<>]{0,1000}>                             # <b>, </b>, <a href="...">
    | &(?:[A-Za-z][A-Za-z0-9_.\-]{1,40}|\#\d{1,7}|\#[xX][0-9A-Fa-f]{1,6});  # &amp;
    | \{\{[^{}]{0,200}\}\}                                  # {{ x }}
    | \$\{[^{}]{0,200}\}                                    # ${x}
    | %\([^()\s%]{1,100}\)[-+#0]*\d*(?:\.\d+)?[a-zA-Z]      # %(n)d
    | \{[\w.!:\-+\[\]<>=^%, ]{0,100}\}                      # {name}, {0}, {}, {x:.2f}
    | %\d{1,2}\$[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcrsS@]  # %1$s
    | (?<!\d)%[sd]                                          # %s, also before a letter; but not 100%sicher
    | %[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcrsS@](?![^\W\d_])  # %5.2f; not 100%ige
    | %L?\d{1,2}(?!\d)                                      # %1 of Qt
    | %%
    | (?<![\w@.])@[A-Za-z][A-Za-z0-9_]+(?!\w)              # @anna
    | (?<![\w$])\$[A-Za-z_][A-Za-z0-9_]*(?![^\W_])          # $HOME
    | (?<![\w-])--[a-z][a-z0-9]+(?:-[a-z0-9]+)*(?![\w-])(?!.{0,200}\w--(?!\w))  # --verbose, but no dashes
      # API_KEY, array_map, my_file.txt; but not Be_enden
    | (?<!\w)(?![A-Z][a-z]*_[a-z]+(?!\w))[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+(?:\.[A-Za-z0-9]{1,5})?(?!\w)
    | (?<!\w)__?[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*(?:__?(?!\w)|(?=\())  # _MAX_, __init__, _exit()
    | (?<![\w$])[a-z]{2,}[0-9]*[A-Z][A-Za-z0-9]*(?!\w)      # getElement
    | _{3,}
    | [ \t]?(?:\|{1,2}|&&)[ \t]?                            # | between links
    | [\ue000-\uf8ff]
    """,
    re.VERBOSE,
)
# What every placeholder has a part of: most texts have nothing of it, and need no search for placeholders.
_HINT = re.compile(r"[/\\@<&{%$_|`\u20e3\u2022-\u2bff\ue000-\uf8ff\U0001f000-\U0001faff]|--|[a-z0-9][A-Z]|www\.")
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
    """A text with stand-ins instead of placeholders, and without accelerator.

    :param text: The text with stand-ins.
    :param stand_ins: What each stand-in replaces.
    :param accelerator: What was taken out.
    """

    text: str
    stand_ins: dict[str, MaskedPlaceholder]
    accelerator: Accelerator | None = None

    def restore(self, text: str) -> str | None:
        """Put everything back into a translation of the masked text; None unless each stand-in occurs exactly once."""
        if self.stand_ins:
            pattern = _pattern(tuple(self.stand_ins))
            if sorted(match[2] for match in pattern.finditer(text)) != sorted(self.stand_ins):
                return None
            text = pattern.sub(self._original, text)
        return text if self.accelerator is None else self.accelerator.put_back(text, placeholder_spans(text))

    def _original(self, match: re.Match[str]) -> str:
        stand_in = self.stand_ins[match[2]]
        before = "" if stand_in.spaced_before else match[1]
        return before + stand_in.original + ("" if stand_in.spaced_after else match[3])


def placeholder_spans(text: str) -> list[tuple[int, int]]:
    """Return where runs of adjacent placeholders start and end, in order."""
    return list(_runs(text))


def find_placeholders(text: str) -> list[str]:
    """Return the placeholders of a text in order."""
    return [match[0] for match in _matches(text)]


def same_placeholders(source: str, target: str) -> bool:
    """Tell whether two texts have the same placeholders, in any order, and as many marks of accelerators.

    Inline codes of the target must also be nested, and those that enclose letters in the source must do so.
    """
    if Counter(find_placeholders(source)) != Counter(find_placeholders(target)) or _marks(source) != _marks(target):
        return False
    return not is_nested(source) or (is_nested(target) and _enclosing(source) <= _enclosing(target))


def without_accelerator(text: str) -> tuple[str, Accelerator | None]:
    """Return a text without its accelerator, and the accelerator if there is one.

    Entities that spell letters of words are replaced by these letters, since their ``&`` is no accelerator.
    """
    text = _with_letters(text)
    result = find_accelerator(text, placeholder_spans(text))
    # Without the mark, something else may look like a placeholder, which would not be one when it is put back.
    if result[1] is not None and find_placeholders(result[0]) != find_placeholders(text):
        return text, None
    return result


def _marks(text: str) -> tuple[bool, int]:
    """Return whether a text has the accelerator ``&``, and the number of its underscores."""
    if "&" not in text and "_" not in text:
        return False, 0
    accelerator = without_accelerator(text)[1]
    return accelerator is not None and accelerator.mark == "&", count_underscores(text, placeholder_spans(text))


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
    enclosing: set[str] = set()
    for letter in text:
        if OPENING <= ord(letter) < CLOSING:
            opened.append(letter)
        elif CLOSING <= ord(letter) < ALONE and opened:
            opened.pop()
        elif letter.isalpha():
            enclosing.update(opened)
    return enclosing


def mask(text: str, style: int = 0) -> Masked:
    """Replace the placeholders of a text by stand-ins; a text with nothing to mask stays the same object.

    Adjacent placeholders share a stand-in. A space is added between a stand-in and a letter or digit next to it, and
    :meth:`Masked.restore` takes it out again.

    :param style: Which kind of stand-ins, 0 to ``STYLES`` - 1.
    """
    text, accelerator = without_accelerator(text)
    runs = list(_runs(text))
    if not runs:
        return Masked(text, {}, accelerator)
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
    return Masked("".join(parts) + text[last:], stand_ins, accelerator)


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield where runs of adjacent placeholders start and end."""
    start = end = -1
    for match in _matches(text):
        if match.start() != end:
            if end >= 0:
                yield start, end
            start = match.start()
        end = match.end()
    if end >= 0:
        yield start, end


def _matches(text: str) -> Iterator[re.Match[str]]:
    """Yield the placeholders of a text, in order."""
    if _HINT.search(text) is None:
        return
    for match in PLACEHOLDER.finditer(text):
        if not _is_entity(match) or _stands_alone(match):
            yield match


def _is_entity(match: re.Match[str]) -> bool:
    return match[0][0] == "&" and match[0][-1] == ";"


def _stands_alone(entity: re.Match[str]) -> bool:
    """Tell whether an entity is a placeholder, and not a letter of a word (``f&uuml;r``) or no entity (``AT&T;``)."""
    text, start, end = entity.string, entity.start(), entity.end()
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    character = html.unescape(entity[0])
    if character == entity[0]:  # the entity of a document type, such as &app;
        return not before.isalnum()
    if _is_part_of_word(character):
        return not (before.isalpha() or after.isalpha())
    return character not in ("'", "\u2019") or not (before.isalpha() and after.isalpha())


def _is_part_of_word(character: str) -> bool:
    """Tell whether a character is a letter, or invisible in a word, such as a soft hyphen."""
    return character.isalpha() or unicodedata.category(character[:1]) in ("Cf", "Mn")


def _with_letters(text: str) -> str:
    """Replace entities that spell a letter or an apostrophe of a word by what they spell."""
    if "&" not in text:
        return text

    def spelled(match: re.Match[str]) -> str:
        character = html.unescape(match[0])
        if not _is_entity(match) or character == match[0] or _stands_alone(match):
            return match[0]
        return "" if unicodedata.category(character[:1]) == "Cf" else character

    return PLACEHOLDER.sub(spelled, text)


def _free_stand_ins(text: str, style: int) -> Iterator[str]:
    taken = set(_NUMBERS.findall(text))
    numbers = (str(number) for number in count(_FIRST) if number < _END or number > 10 * _FIRST)
    return (_STYLES[style].format(number) for number in numbers if number not in taken)


@lru_cache(maxsize=4096)
def _pattern(stand_ins: tuple[str, ...]) -> re.Pattern[str]:
    alternatives = "|".join(map(re.escape, sorted(stand_ins, key=len, reverse=True)))
    return re.compile(rf"( ?)(?<![0-9A-Za-z])({alternatives})(?![0-9A-Za-z])( ?)")
