"""What must be remembered of an unfinished hypothesis to tell which forms it contains: automata over its tokens.

A hypothesis is read from left to right. Where no word is open, or the next token does not continue it, the longest form
that is complete there and ends with its word counts, if a term without a form is left for it; reading goes on behind
it. So forms do not overlap, and *Datei* in *Datei öffnen* counts only if no term takes *Datei öffnen*. A form that may
still become longer is *pending*: its last tokens are read again when it is clear that it does not.

Knows nothing of text, models and neighbors.
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
        # Bytes are read one by one ten times as fast as arrays.
        bits = boundaries.continues + 2 * boundaries.inside + 4 * closing
        self._bits: bytes = bits.astype(np.uint8).tobytes()
        self.continues = boundaries.continues.tobytes() + bytes(number & 1 for number in range(8))
        self.inside = boundaries.inside.tobytes() + bytes(number >> 1 & 1 for number in range(8))
        self.closing = closing.tobytes() + bytes(number >> 2 for number in range(8))

    def class_of(self, token: int) -> int:
        """Return the number that stands for all tokens with the same properties."""
        return self.size + self._bits[token]


class Reading(NamedTuple):
    """What is remembered of a hypothesis for the terms.

    :param counted: Kinds of the forms that count so far, sorted. Forms are of one kind if they are of the same terms.
    :param closed: No form may begin: a sentence has ended, or every term has its form.
    :param before: A word is open before the pending tokens.
    :param pending: The last tokens, if they are the beginning of a form or a form whose word may go on.
    """

    counted: tuple[int, ...] = ()
    closed: bool = False
    before: bool = False
    pending: Form = ()


@dataclass(frozen=True, slots=True)
class _Open:
    """The forms that can still count.

    :param forms: Their kinds.
    :param parts: For each beginning of such a form the part of its bonus.
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


class TermAutomaton:
    """Reads the required and wanted terms of one sentence. A bonus is given as for a form of one token with bonus 1."""

    def __init__(self, constraints: SentenceConstraints, classes: TokenClasses) -> None:
        self._classes = classes
        terms = [set(forms) for forms in (*constraints.required, *constraints.wanted)]
        owners = {form: tuple(n for n, term in enumerate(terms) if form in term) for form in set[Form]().union(*terms)}
        self._terms = sorted(set(owners.values()))  # of each kind of forms
        self._required = [tuple(term for term in kind if term < len(constraints.required)) for kind in self._terms]
        self._kinds = {form: self._terms.index(kind) for form, kind in sorted(owners.items())}
        self._lengths = [max(len(form) for form in self._kinds if owners[form] == kind) for kind in self._terms]
        # The same for all forms of a term, or a longer one would win over one that fits better.
        shortest = [min(map(len, term)) for term in terms]
        self._worth = {form: math.sqrt(min(shortest[n] for n in kind)) for form, kind in owners.items()}
        self._all_required = len(constraints.required)
        self._open: dict[tuple[int, ...], _Open] = {}

    def follow(self, reading: Reading, token: int) -> tuple[Reading, float]:
        """Return what is remembered after one more token, and the bonus of forms that count now.

        :param token: A token, or the class that stands for it if it is in no form.
        """
        return self._read(reading, (*reading.pending, token), ended=False)

    def end(self, reading: Reading) -> tuple[float, bool]:
        """Return the bonus of forms that count if this is the end, and whether all required terms are there."""
        last, earned = self._read(reading, reading.pending, ended=True) if reading.pending else (reading, 0.0)
        return earned, self._open_forms(last.counted).complete

    def advance(self, reading: Reading) -> float:
        """Return the bonus of what is pending: a part with each token of a form, and all of it for a whole one."""
        if not reading.pending:
            return 0.0
        return max(self._open_forms(reading.counted).parts[reading.pending], self.end(reading)[0])

    def is_complete(self, reading: Reading) -> bool:
        """Say whether all required terms are there, whatever comes next."""
        return self._open_forms(reading.counted).complete

    def met(self, reading: Reading) -> int:
        """Return how many tokens of required terms are there, or :data:`ALL_MET` if no term is missing."""
        current = self._open_forms(reading.counted)
        if current.complete:
            return ALL_MET
        return current.met + (len(reading.pending) if reading.pending in current.helpful else 0)

    def notable(self, reading: Reading) -> set[int]:
        """Return the tokens that may begin or continue a form."""
        if reading.closed and not reading.pending:
            return set()
        following = self._open_forms(reading.counted).following
        ends = (reading.pending[start:] for start in range(len(reading.pending) + 1))
        return {token for end in ends for token in following.get(end, ())}

    def _read(self, reading: Reading, tokens: Form, *, ended: bool) -> tuple[Reading, float]:
        """Read the pending tokens and a new one, as far as is clear what they are."""
        continues, inside, closing = self._classes.continues, self._classes.inside, self._classes.closing
        counted, closed, before, _ = reading
        start, earned, size = 0, 0.0, len(tokens)
        current = self._open_forms(counted)
        while start < size and not closed and current.forms:
            end = longest = start
            if not (before and continues[tokens[start]]):
                while end < size and tokens[start : end + 1] in current.parts:
                    end += 1
                    goes_on = end < size and inside[tokens[end - 1]] and continues[tokens[end]]
                    if tokens[start:end] in current.forms and not goes_on:
                        longest = end
                if start < end == size and not ended:
                    whole = longest == end and inside[tokens[-1]]
                    if whole or tokens[start:] in current.following:
                        return Reading(counted, closed, before, tokens[start:]), earned
            if longest > start:
                form = tokens[start:longest]
                counted, earned = tuple(sorted((*counted, current.forms[form]))), earned + self._worth[form]
                current = self._open_forms(counted)
                start = longest
            else:
                closed = bool(closing[tokens[start]])
                start += 1
            before = bool(inside[tokens[start - 1]])
        closed = closed or not current.forms
        return Reading(counted, closed, before and not closed), earned

    def _open_forms(self, counted: tuple[int, ...]) -> _Open:
        found = self._open.get(counted)
        if found is None:
            found = self._open[counted] = self._find_open(counted)
        return found

    def _find_open(self, counted: tuple[int, ...]) -> _Open:
        kinds = range(len(self._terms))
        usable = {kind for kind in kinds if _matched((*counted, kind), self._terms) > len(counted)}
        met = covered = 0
        for place, kind in enumerate(counted):
            if _matched(counted[: place + 1], self._required) > covered:
                covered, met = covered + 1, met + self._lengths[kind]
        helpful = {kind for kind in usable if _matched((*counted, kind), self._required) > covered}
        forms = {form: kind for form, kind in self._kinds.items() if kind in usable}
        parts: dict[Form, float] = {}
        for form in forms:
            for length in range(1, len(form) + 1):
                part = length / len(form) * self._worth[form]
                parts[form[:length]] = max(part, parts.get(form[:length], 0.0))
        return _Open(
            forms=forms,
            parts=parts,
            following=_following(forms),
            met=met,
            helpful=frozenset(
                form[: n + 1] for form, kind in forms.items() if kind in helpful for n in range(len(form))
            ),
            complete=covered == self._all_required,
        )


class Guard(NamedTuple):
    """What is remembered of a hypothesis for the banned forms.

    :param beginnings: Beginnings of banned forms with which the hypothesis ends.
    :param inside: A word is open after the last token.
    :param due: The hypothesis ends with a banned form, unless the next token continues its word.
    """

    beginnings: frozenset[Form] = frozenset()
    inside: bool = False
    due: bool = False


class BannedAutomaton:
    """Watches for the banned forms of one sentence."""

    def __init__(self, constraints: SentenceConstraints, classes: TokenClasses) -> None:
        self._classes = classes
        self._banned = frozenset(constraints.banned)
        self._following = _following(self._banned)

    def follow(self, guard: Guard, token: int) -> Guard | None:
        """Return what is remembered after one more token, or ``None`` if that token is not allowed.

        :param token: A token, or the class that stands for it if it is in no form.
        """
        if not self._banned:
            return guard
        continues, inside = self._classes.continues[token], bool(self._classes.inside[token])
        if guard.due and not continues:
            return None
        starts = guard.beginnings if guard.inside and continues else (*guard.beginnings, ())
        found = [(*start, token) for start in starts if token in self._following[start]]
        whole = not self._banned.isdisjoint(found)
        if whole and not inside:
            return None
        return Guard(frozenset(form for form in found if form in self._following), inside, whole)

    def notable(self, guard: Guard) -> set[int]:
        """Return the tokens that may begin, continue or complete a banned form."""
        return {token for start in (*guard.beginnings, ()) for token in self._following.get(start, ())}


def _following(forms: Iterable[Form]) -> dict[Form, tuple[int, ...]]:
    """Return the tokens that follow each beginning of some forms, the empty one included."""
    found: dict[Form, set[int]] = {}
    for form in forms:
        for place, token in enumerate(form):
            found.setdefault(form[:place], set()).add(token)
    return {beginning: tuple(sorted(tokens)) for beginning, tokens in found.items()}


def _matched(kinds: Sequence[int], terms: Sequence[Sequence[int]]) -> int:
    """Return for how many of some forms there is a term of their own: the size of a maximum matching.

    :param kinds: The kind of each form.
    :param terms: The terms of each kind.
    """
    taken: dict[int, int] = {}

    def assign(place: int, tried: set[int]) -> bool:
        for term in terms[kinds[place]]:
            if term not in tried:
                tried.add(term)
                if term not in taken or assign(taken[term], tried):
                    taken[term] = place
                    return True
        return False

    return sum(assign(place, set()) for place in range(len(kinds)))
