"""What must be remembered of an unfinished hypothesis to tell which forms it contains: an automaton over its tokens.

A hypothesis is read from left to right. Where no word is open, or the next token does not continue it, the longest form
that is complete there and ends with its word counts, if a term without a form is left for it; reading goes on behind
it. So forms do not overlap, and *Datei* in *Datei öffnen* counts only if no term takes *Datei öffnen*. A form that may
still become longer is *pending*: its last tokens are read again when it is clear that it does not.

Knows nothing of probabilities and beams.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lacuna.decoding.constraints import Form, SentenceConstraints, TokenBoundaries

# More than the tokens of any required forms.
ALL_MET = 1 << 20


class TokenClasses:
    """Properties of single tokens, and a number beyond the vocabulary for each combination of them.

    Of a token that is in no form, only these properties matter: its *class* stands for it.
    """

    def __init__(self, boundaries: TokenBoundaries, one_sentence: bool) -> None:
        closing = boundaries.closing & one_sentence
        self.size = len(boundaries.continues)
        self._class_of = boundaries.continues + np.int64(2) * boundaries.inside + np.int64(4) * closing
        # Bytes are read one by one ten times as fast as arrays.
        self.continues = boundaries.continues.tobytes() + bytes(number & 1 for number in range(8))
        self.inside = boundaries.inside.tobytes() + bytes(number >> 1 & 1 for number in range(8))
        self.closing = closing.tobytes() + bytes(number >> 2 for number in range(8))

    def class_of(self, token: int) -> int:
        """Return the token that stands for all tokens with the same properties."""
        return self.size + int(self._class_of[token])


class Position(NamedTuple):
    """What is remembered of a hypothesis.

    :param counted: Numbers of the forms that count so far, sorted.
    :param closed: A sentence has ended, so no form may begin.
    :param before: A word is open before the pending tokens.
    :param pending: The last tokens, if they are the beginning of a form or a form whose word may go on.
    :param beginnings: Beginnings of banned forms with which the hypothesis ends.
    :param inside: A word is open after the last token; only kept for banned forms.
    :param due: The hypothesis ends with a banned form, unless the next token continues its word.
    """

    counted: tuple[int, ...] = ()
    closed: bool = False
    before: bool = False
    pending: Form = ()
    beginnings: frozenset[Form] = frozenset()
    inside: bool = False
    due: bool = False


@dataclass(frozen=True, slots=True)
class _Open:
    """The forms that can still count.

    :param forms: Their numbers.
    :param parts: For each beginning of such a form the part of its bonus, for a bonus of 1.
    :param following: The tokens that may follow each beginning.
    :param met: The tokens of required terms that are there.
    :param helpful: Beginnings of forms that cover one more required term.
    :param complete: Whether all required terms are covered.
    """

    forms: Mapping[Form, int]
    parts: Mapping[Form, float]
    following: Mapping[Form, Sequence[int]]
    met: int
    helpful: frozenset[Form]
    complete: bool


class SentenceStates:
    """The automaton of one sentence."""

    def __init__(self, constraints: SentenceConstraints, classes: TokenClasses) -> None:
        self._classes = classes
        terms = [set(forms) for forms in (*constraints.required, *constraints.wanted)]
        self._forms = sorted(set[Form]().union(*terms))
        # The terms that each form can count for.
        self._terms = [tuple(number for number, term in enumerate(terms) if form in term) for form in self._forms]
        required = len(constraints.required)
        self._required = [tuple(term for term in owners if term < required) for owners in self._terms]
        self._all_required = required
        self._weights = [math.sqrt(len(form)) for form in self._forms]
        self._open: dict[tuple[int, ...], _Open] = {}
        self._banned = frozenset(constraints.banned)
        self._banned_following = _following(self._banned)
        self.watched = frozenset(token for form in constraints.forms for token in form)

    def follow(self, position: Position, token: int) -> Position | None:
        """Return the position after one more token, or ``None`` if that token is not allowed.

        :param token: A token, or the class that stands for it if it is in no form.
        """
        beginnings, inside, due = self._read_banned(position, token)
        if due is None:
            return None
        counted, closed, before, pending = self._read(position, (*position.pending, token))
        return Position(counted, closed, before, pending, beginnings, inside, due)

    def worth(self, position: Position) -> float:
        """Return the bonus so far, for a bonus of 1: of the forms that count, or would if this were the end.

        A form that is being written gives a part of its bonus with each token.
        """
        if not position.pending:
            return self._sum(position.counted)
        part = self._open_forms(position.counted).parts[position.pending]
        return max(self._sum(position.counted) + part, self.worth_at_end(position)[0])

    def worth_at_end(self, position: Position) -> tuple[float, bool]:
        """Return the bonus of a hypothesis that ends here, for a bonus of 1, and whether it has all required terms."""
        counted = self._read(position, position.pending, ended=True)[0] if position.pending else position.counted
        return self._sum(counted), self._open_forms(counted).complete

    def is_complete(self, position: Position) -> bool:
        """Say whether all required terms are there, whatever comes next."""
        return self._open_forms(position.counted).complete

    def met(self, position: Position) -> int:
        """Return how many tokens of required terms are there, or :data:`ALL_MET` if no term is missing."""
        current = self._open_forms(position.counted)
        if current.complete:
            return ALL_MET
        return current.met + (len(position.pending) if position.pending in current.helpful else 0)

    def notable(self, position: Position) -> set[int]:
        """Return the tokens that may begin, continue or complete a form here: those whose class says too little."""
        following = self._open_forms(position.counted).following
        ends = (position.pending[start:] for start in range(len(position.pending) + 1))
        found = {token for end in ends for token in following.get(end, ())}
        for beginning in (*position.beginnings, ()):
            found.update(self._banned_following.get(beginning, ()))
        return found

    def _read(
        self, position: Position, tokens: Form, *, ended: bool = False
    ) -> tuple[tuple[int, ...], bool, bool, Form]:
        """Read the pending tokens and a new one, as far as is clear what they are."""
        continues, inside, closing = self._classes.continues, self._classes.inside, self._classes.closing
        counted, closed, before = position.counted, position.closed, position.before
        start = 0
        while start < len(tokens):
            current = self._open_forms(counted)
            if closed or not current.forms:
                # Nothing can begin, so nothing else needs to be remembered.
                return counted, True, False, ()
            end = longest = start
            if not (before and continues[tokens[start]]):
                while end < len(tokens) and tokens[start : end + 1] in current.parts:
                    end += 1
                    goes_on = end < len(tokens) and inside[tokens[end - 1]] and continues[tokens[end]]
                    if tokens[start:end] in current.forms and not goes_on:
                        longest = end
                may_grow = (longest == end and inside[tokens[-1]]) or tokens[start:end] in current.following
                if start < end == len(tokens) and may_grow and not ended:
                    return counted, closed, before, tokens[start:]
            if longest > start:
                counted = tuple(sorted((*counted, current.forms[tokens[start:longest]])))
                start = longest
            else:
                closed = bool(closing[tokens[start]])
                start += 1
            before = bool(inside[tokens[start - 1]])
        if closed or not self._open_forms(counted).forms:
            return counted, True, False, ()
        return counted, closed, before, ()

    def _read_banned(self, position: Position, token: int) -> tuple[frozenset[Form], bool, bool | None]:
        """Return what is remembered of banned forms after a token; ``None`` as the last if it is not allowed."""
        if not self._banned:
            return position.beginnings, False, False
        continues, inside = self._classes.continues[token], bool(self._classes.inside[token])
        if position.due and not continues:
            return frozenset(), inside, None
        starts = position.beginnings if position.inside and continues else (*position.beginnings, ())
        found = [(*start, token) for start in starts if token in self._banned_following.get(start, ())]
        complete = not self._banned.isdisjoint(found)
        longer = frozenset(form for form in found if form in self._banned_following)
        return longer, inside, None if complete and not inside else complete

    def _sum(self, counted: tuple[int, ...]) -> float:
        return sum(self._weights[form] for form in counted)

    def _open_forms(self, counted: tuple[int, ...]) -> _Open:
        found = self._open.get(counted)
        if found is None:
            found = self._open[counted] = self._find_open(counted)
        return found

    def _find_open(self, counted: tuple[int, ...]) -> _Open:
        numbers = range(len(self._forms))
        usable = [form for form in numbers if self._assignable((*counted, form), self._terms) > len(counted)]
        met = covered = 0
        for place, form in enumerate(counted):
            if self._assignable(counted[: place + 1], self._required) > covered:
                covered, met = covered + 1, met + len(self._forms[form])
        helpful = [form for form in usable if self._assignable((*counted, form), self._required) > covered]
        parts: dict[Form, float] = {}
        for number in usable:
            form = self._forms[number]
            for beginning in _beginnings(form):
                part = self._weights[number] * len(beginning) / len(form)
                parts[beginning] = max(part, parts.get(beginning, 0.0))
        return _Open(
            forms={self._forms[number]: number for number in usable},
            parts=parts,
            following=_following(self._forms[number] for number in usable),
            met=met,
            helpful=frozenset(beginning for number in helpful for beginning in _beginnings(self._forms[number])),
            complete=covered == self._all_required,
        )

    @staticmethod
    def _assignable(forms: Sequence[int], terms: Sequence[Sequence[int]]) -> int:
        """Return for how many of some forms there is a term of their own: the size of a maximum matching.

        :param terms: The terms that each form can count for.
        """
        taken: dict[int, int] = {}

        def assign(place: int, tried: set[int]) -> bool:
            for term in terms[forms[place]]:
                if term not in tried:
                    tried.add(term)
                    if term not in taken or assign(taken[term], tried):
                        taken[term] = place
                        return True
            return False

        return sum(assign(place, set()) for place in range(len(forms)))


def _beginnings(form: Form) -> list[Form]:
    """Return the beginnings of a form, itself included."""
    return [form[:length] for length in range(1, len(form) + 1)]


def _following(forms: Iterable[Form]) -> dict[Form, tuple[int, ...]]:
    """Return the tokens that follow each beginning of some forms, the empty one included."""
    found: dict[Form, set[int]] = {}
    for form in forms:
        for place, token in enumerate(form):
            found.setdefault(form[:place], set()).add(token)
    return {beginning: tuple(sorted(tokens)) for beginning, tokens in found.items()}
