"""Which part of a sentence a token stands for. Knows nothing of models but how they turn tokens into text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import NamedTuple

Decode = Callable[[Sequence[int]], str]


class Marked(NamedTuple):
    """A sentence cut round one of its tokens: ``before + word + after`` is all of it."""

    before: str
    word: str
    after: str


def pieces(decode: Decode, ids: Sequence[int], text: str) -> list[str]:
    """Return what each token adds to the text; together they are the text.

    :param text: As it was written or decoded; where the tokens lack some of it, that counts as part of its neighbors.
    """
    whole = decode(ids)
    # Detokenizing may change what came before (a space, a quotation mark): what has not settled yet counts later.
    ends = list(accumulate((_settled(decode(ids[:count]), whole) for count in range(1, len(ids))), max, initial=0))
    if whole != text:
        changes = _changes(whole, text)
        ends = [0, *accumulate((_moved_end(end, changes) for end in ends[1:]), max)]
    return [text[start:end] for start, end in pairwise([*ends, len(text)])] if ids else []


def mark(decode: Decode, ids: Sequence[int], position: int, text: str) -> Marked:
    """Cut a sentence round one of its tokens; the space before it stays with what is before.

    :param text: The sentence as it was written, which tokens may have changed in places.
    """
    whole = decode(ids)
    is_last = position + 1 >= len(ids)
    start = _settled(decode(ids[:position]), whole)
    end = len(whole) if is_last else max(start, _settled(decode(ids[: position + 1]), whole))
    start += len(whole[start:end]) - len(whole[start:end].lstrip())
    if whole != text:
        changes = _changes(whole, text)
        lost = [change for change in changes if change.first == change.last == start]
        if start == end and lost and not is_last:  # the model has no token for what stands here
            start, end = lost[0].new_first, lost[0].new_last
        else:
            start, end = _moved_start(start, changes, text), _moved_end(end, changes)
    return Marked(text[:start], text[start : max(start, end)], text[max(start, end) :])


def _settled(prefix: str, whole: str) -> int:
    """Count the characters at the beginning that are the same."""
    differing = (place for place, (a, b) in enumerate(zip(prefix, whole, strict=False)) if a != b)
    return next(differing, min(len(prefix), len(whole)))


class _Change(NamedTuple):
    """A stretch of one text, and the stretch of another that stands in its place."""

    first: int
    last: int
    new_first: int
    new_last: int


def _changes(whole: str, text: str) -> list[_Change]:
    return [_Change(*places) for _, *places in SequenceMatcher(None, whole, text, autojunk=False).get_opcodes()]


def _moved_start(place: int, changes: Sequence[_Change], text: str) -> int:
    """Find where a part that begins here begins in the other text."""
    for first, last, new_first, new_last in changes:
        if first <= place < last:
            return min(new_first + place - first, new_last)
    return len(text)


def _moved_end(place: int, changes: Sequence[_Change]) -> int:
    """Find where a part that ends here ends in the other text."""
    for first, last, new_first, new_last in changes:
        if first < place <= last:
            return new_last if place == last else min(new_first + place - first, new_last)
    return 0
