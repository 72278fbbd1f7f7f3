"""Cut a text into sentences, and a sentence that is too long for the model into clauses.

The rules and abbreviations of each language are those of sentencex (Wikimedia). It is shown the text without markup and
quotation marks, because it keeps whatever is between two of them together. A cut is never inside a placeholder or
between the two codes of a pair. In scripts without sentence punctuation, such as Thai, only a newline ends a sentence.
Knows nothing of models and files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import sentencex

from lacuna.corpora.placeholders import ALONE, CLOSING, OPENING, PLACEHOLDER

# Characters that sentencex gets at once, because its time is quadratic for Chinese.
_TOGETHER = 8_000
# Characters of a part in which clauses are found. Models translate less at once, so no longer text is tokenized.
_WINDOW = 4_000
# More than the length of a placeholder that may contain white space.
_LOOKAHEAD = 1_100

_NEWLINES = r"\n\r\v\f\x85\u2028\u2029"
_LINE = re.compile(rf"([^{_NEWLINES}]*)[{_NEWLINES}]*")
_QUOTES = '"“”„‟‘’‚‛«»‹›「」『』'
_HIDDEN = re.compile(rf"{PLACEHOLDER.pattern}|[{_QUOTES}]|[\ud800-\udfff]", re.VERBOSE)
# Bullets, arrows, emoji and inline codes are from here on; other placeholders are ASCII.
_FIRST_SYMBOL = "\u2022"
# Full-width punctuation ends a sentence whatever follows; sentencex wants no digit or Latin letter.
_AFTER_FULL_WIDTH = re.compile(r"(?<=[。！？])(\s*)[0-9a-z]")
# So does a period after a long word, which is no abbreviation; sentencex wants no digit.
_AFTER_LONG_WORD = re.compile(r"(?<=[^\W\d_]{6}[.!?])(?<!approx\.)(\s+)[0-9]")
# Languages that write ordinal numbers with a period: "im 19. Jahrhundert", "am 3. Mai".
_WITH_ORDINALS = frozenset({"bs", "cs", "da", "de", "et", "fi", "hr", "hu", "is", "lv", "nb", "nn", "no", "sk", "sl"})
_ORDINAL = re.compile(r"(?<![\w.,])[0-9]{1,2}\.$")
_NEEDS_SPACE = ".!?…"
_GOES_ON = ",;:)]"
_LETTER = re.compile(r"[^\W\d_]")
# French titles, which sentencex takes for ends of sentences.
_TITLE = re.compile(r"(?<!\w)(?:MM?|Mgr|Dr|Pr)\.$")

# French quotation marks have white space on both sides; others show by it which side they are on.
_LAST_CLOSING = re.compile(r".*(?:[\ue800-\uefff]|</[^<>]*>|\s[»›](?=\s))", re.DOTALL)
_OPENS = re.compile(r"[\ue000-\ue7ff]|<[^/<>][^<>]*>|(?<=\s)[«‹](?=\s)")
_OPENING_QUOTE = re.compile(r"[“‘「『«‹„‚]")
_SPACE = re.compile(r"\s+")
_CLOSING_CODES = re.compile(r"[\ue800-\uefff]*")

# The group is the rank of a border between clauses. A border is after the punctuation and what closes there. There are
# ends of sentences where a pair of codes holds several together.
_CLOSES = r"""["'”’»›)\]）」』》\ue800-\uefff]*"""
_CJK = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_CLAUSE_BORDER = re.compile(
    rf"""
      ((?:[.!?…](?={_CLOSES}\s) | [。！？]){_CLOSES}\s*)
    | ((?:[;:](?={_CLOSES}\s) | [；：] | —+ | (?<=\s)[-–](?=\s)){_CLOSES}\s*)
    | ((?:,(?={_CLOSES}\s) | [，、]){_CLOSES}\s*)
    | (\s+)
    | ([{_CJK}](?![，、。；：！？…”’」』》）\u3099\u309a\ufe00-\ufe0f\ue800-\uefff]) | \w(?=[{_CJK}]))
    """,
    re.VERBOSE,
)

_Span = tuple[int, int]


class Piece(NamedTuple):
    """A part of a text.

    :param text: A sentence or clause without white space around it; empty for white space at the start of the text.
    :param gap: The white space after it.
    """

    text: str
    gap: str


def split_sentences(text: str, language: str) -> list[Piece]:
    """Cut a text into sentences; the concatenation of all texts and gaps is the text.

    A newline ends a sentence too, unless it is inside a placeholder or a pair of codes.

    :param language: ISO code, with or without a region; for an unknown language the rules of English are used.
    """
    plain, placeholders, pairs = _without_markup(text, 0, len(text))
    borders = list(_sentence_borders(text, plain, re.split("[-_]", language)[0].lower()))
    held = _held(borders, placeholders + pairs)
    return _pieces(text, [border for border, is_held in zip(borders, held, strict=True) if not is_held])


def split_clauses(text: str, fits: Callable[[str], bool]) -> list[Piece]:
    """Cut a sentence into pieces that fit, at the clause borders that are nearest to the middle.

    In order of preference, a cut is after a sentence, after ``;`` ``:`` or a dash, after a comma, at white space, or
    after a Chinese or Japanese character, and rather not between two codes of a pair. A piece without any border is
    returned although it does not fit. The concatenation of all texts and gaps is the sentence.

    :param fits: Whether a text is short enough. It is called with at most 4,000 characters.
    """
    cuts: list[int] = []
    for start, end in _windows(text):
        borders = list(_clause_borders(text, start, end))
        waiting = [(start, end)]
        while waiting:
            first, last = waiting.pop()
            if last - first <= _WINDOW and fits(text[first:last].strip()):
                cut = None
            else:
                cut = _best_border(borders, first, last)
            if cut is None:
                cuts.append(last)
            else:
                waiting += [(cut, last), (first, cut)]
    return _pieces(text, cuts)


def _pieces(text: str, borders: Iterable[int]) -> list[Piece]:
    """Cut a text at some borders, in order; those with only white space on one side do not count."""
    pieces: list[Piece] = []
    for start, end in pairwise([0, *borders, len(text)]):
        part = text[start:end]
        words = part.lstrip()
        before = part[: len(part) - len(words)]
        if before and pieces:
            pieces[-1] = Piece(pieces[-1].text, pieces[-1].gap + before)
        elif before:
            pieces.append(Piece("", before))
        if words:
            sentence = words.rstrip()
            pieces.append(Piece(sentence, words[len(sentence) :]))
    return pieces


def _without_markup(text: str, start: int, end: int) -> tuple[str, list[_Span], list[_Span]]:
    """Return a text of the same length for sentencex, and where placeholders and pairs of codes start and end.

    Markup and quotation marks become spaces; other placeholders become a capitalized word.
    """
    parts: list[str] = []
    placeholders: list[_Span] = []
    pairs: list[_Span] = []
    opened: dict[int, int] = {}
    last = start
    for match in _HIDDEN.finditer(text, start, end):
        hidden, size = match[0], match.end() - match.start()
        parts += [text[last : match.start()], " " * size if _is_markup(hidden) else "X".ljust(size, "x")]
        last = match.end()
        code = ord(hidden[0])
        if size > 1:
            placeholders.append(match.span())
        elif OPENING <= code < CLOSING:
            opened[code] = match.start()
        elif CLOSING <= code < ALONE and code - CLOSING + OPENING in opened:
            pairs.append((opened.pop(code - CLOSING + OPENING), last))
    return "".join([*parts, text[last:end]]), placeholders, pairs


def _is_markup(hidden: str) -> bool:
    return hidden[0] in "<&| \t" or hidden[0] in _QUOTES or hidden[0] >= _FIRST_SYMBOL


def _held(borders: Sequence[int], spans: list[_Span]) -> Iterator[bool]:
    """Tell for each border, in order, whether it is inside a span."""
    spans = sorted(spans)
    reach = number = 0
    for border in borders:
        while number < len(spans) and spans[number][0] < border:
            reach = max(reach, spans[number][1])
            number += 1
        yield reach > border


def _sentence_borders(text: str, plain: str, language: str) -> Iterator[int]:
    """Yield the ends of sentences and lines, in order."""
    plain = _AFTER_LONG_WORD.sub(r"\1X", _AFTER_FULL_WIDTH.sub(r"\1X", plain))
    for line in _LINE.finditer(plain):
        start = line.start()
        for end, next_start in _found_sentences(plain, start, line.end(1), language):
            ordinal = language in _WITH_ORDINALS and _ORDINAL.search(plain, max(start, end - 5), end)
            if next_start < line.end(1) and not ordinal and _is_border(plain, start, end, next_start):
                yield end + _side(text[end:next_start])
            start = next_start
        codes = _CLOSING_CODES.match(text, line.end())
        yield codes.end() if codes else line.end()


def _found_sentences(plain: str, start: int, end: int, language: str) -> Iterator[_Span]:
    """Yield where each sentence of a line ends and the next one starts."""
    while start < end:
        window = plain[start : min(start + _TOGETHER, end)]
        sentences = sentencex.segment(language, window)
        if start + len(window) < end:
            sentences.pop()  # it goes on after the window
            if not sentences:
                start += len(window)
        for sentence in sentences:
            yield start + len(sentence.rstrip()), start + len(sentence)
            start += len(sentence)


def _is_border(plain: str, start: int, end: int, next_start: int) -> bool:
    """Tell whether a sentence ends here: not in a word, after a number of a list, before a comma or lower case."""
    in_word = end == next_start and plain[end - 1 : end] in _NEEDS_SPACE
    following = plain[next_start : next_start + 1]
    if in_word or following.islower() or following in _GOES_ON:
        return False
    return bool(_LETTER.search(plain, start, end)) and not _TITLE.search(plain, max(start, end - 4), end)


def _side(between: str) -> int:
    """Return how much of what is between two sentences belongs to the first one.

    What closes belongs to the first and what opens to the second; otherwise, the first white space decides.
    """
    closing = _LAST_CLOSING.match(between)
    first = closing.end() if closing else 0
    opening = _OPENS.search(between, first)
    last = opening.start() if opening else len(between)
    if space := _SPACE.search(between, first, last):
        return space.end()
    quote = _OPENING_QUOTE.search(between, first, last)
    return quote.start() if quote else last


def _windows(text: str) -> Iterator[_Span]:
    """Yield parts of bounded length, so that the time is linear; longer ones have no border."""
    start = 0
    while len(text) - start > _WINDOW:
        end, cut = start, None
        while cut is None and end < len(text):
            end = min(end + _WINDOW, len(text))
            cut = _best_border(_clause_borders(text, max(start, end - _WINDOW), end), start, end)
        if cut is None:
            break
        yield start, cut
        start = cut
    yield start, len(text)


class _Border(NamedTuple):
    position: int
    in_pair: bool
    rank: int


def _clause_borders(text: str, start: int, end: int) -> Iterator[_Border]:
    """Yield the borders between clauses in a part of a sentence."""
    matches = [match for match in _CLAUSE_BORDER.finditer(text, start, end) if start < match.end() < end]
    positions = [match.end() for match in matches]
    _, placeholders, pairs = _without_markup(text, start, end + _LOOKAHEAD)
    held, paired = _held(positions, placeholders), _held(positions, pairs)
    for match, position, is_held, in_pair in zip(matches, positions, held, paired, strict=True):
        if not is_held:
            yield _Border(position, in_pair, match.lastindex or 0)


def _best_border(borders: Iterable[_Border], start: int, end: int) -> int | None:
    middle, quarter = (start + end) / 2, (end - start) / 4

    def preference(border: _Border) -> tuple[bool, bool, int, float]:
        distance = abs(border.position - middle)
        return border.in_pair, distance > quarter, border.rank, distance

    best = min((border for border in borders if start < border.position < end), key=preference, default=None)
    return best.position if best else None
