"""What constraints make of the next tokens of many hypotheses, as arrays.

States of all sentences of a search are numbered when they are first reached, and what may follow a state is worked out
once. Most tokens are in no form: they differ only in whether they continue a word. The few others are listed.

Knows nothing of text, models and neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lacuna.decoding.constraint_states import (
    ALL_MET,
    BannedAutomaton,
    Guard,
    Reading,
    TermAutomaton,
    TokenClasses,
)
from lacuna.decoding.constraints import Constraints

# The state of all hypotheses of sentences without constraints.
FREE = 0

# Columns of what is known of a state. The first two of each are of tokens in no form: those that do not continue a
# word, and those that do.
_GAIN, _MET, _UNTIMELY = slice(0, 2), slice(2, 4), slice(4, 6)
_END_GAIN, _END_COMPLETE, _BARRED = 6, 7, 8


class _TermFacts(NamedTuple):
    """Gain, tokens met, and what is untimely after tokens in no form; and the gain and tokens met after others."""

    gains: tuple[float, float]
    met: tuple[float, float]
    untimely: tuple[bool, bool]
    end: tuple[float, bool]
    listed: dict[int, tuple[float, float]]


class _BanFacts(NamedTuple):
    """Gain of the tokens that do not continue a word: minus infinity if none is allowed; gain and due of others."""

    gain: float
    listed: dict[int, tuple[float, bool]]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Judgments on the next tokens of some rows: ``(rows, tokens)`` each.

    :param gains: The change of the bonus, in nats; minus infinity for a token that is not allowed.
    :param met: Tokens of required terms after the token; ``ALL_MET`` if no term is missing.
    :param untimely: The token ends a sentence before all required terms are there.
    :param due: The token completes a banned form, unless the one after it continues the word.
    """

    gains: NDArray[np.float32]
    met: NDArray[np.float32]
    untimely: NDArray[np.bool_]
    due: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What is known of the states of some rows.

    :param listed: Tokens whose gain differs from that of others, -1 for none: (rows, listed).
    """

    listed: NDArray[np.int64]
    _facts: NDArray[np.float32]  # (rows, columns)
    _values: NDArray[np.float32]  # gain, tokens met and due of listed tokens: (rows, listed, 3)
    _continues: NDArray[np.bool_]
    _closing: NDArray[np.bool_]
    _eos_id: int

    @property
    def allowed(self) -> NDArray[np.int64]:
        """The listed tokens without those that are not allowed: (rows, listed)."""
        return np.where(self._values[:, :, 0] > -np.inf, self.listed, -1)

    @property
    def barred(self) -> int:
        """The largest number of single tokens that are not allowed, or not in every row, after a row."""
        return int(((self._values[:, :, 0] == -np.inf) | (self._values[:, :, 2] > 0)).sum(1).max(initial=0))

    @property
    def bars_classes(self) -> bool:
        """Whether whole classes of tokens are not allowed after some row."""
        return bool(self._facts[:, _BARRED].any())

    @property
    def end_complete(self) -> NDArray[np.bool_]:
        """Which rows have all required terms if they end now: (rows,)."""
        return self._facts[:, _END_COMPLETE] > 0

    def judge(self, tokens: NDArray[np.int64]) -> Verdicts:
        """Judge tokens that may follow: (rows, tokens)."""
        rows, column = np.arange(len(tokens))[:, None], self._continues[tokens].astype(np.int64)
        gains, met = self._facts[:, _GAIN][rows, column], self._facts[:, _MET][rows, column]
        untimely = (self._facts[:, _UNTIMELY][rows, column] > 0) & self._closing[tokens]
        due = np.zeros(tokens.shape, np.bool_)
        row, place, which = np.nonzero(tokens[:, :, None] == self.listed[:, None, :])
        values = self._values[row, which]
        gains[row, place], met[row, place] = values[:, 0], values[:, 1]
        untimely[row, place], due[row, place] = False, values[:, 2] > 0
        ends = tokens == self._eos_id
        gains = np.where(ends, self._facts[:, _END_GAIN, None], gains)
        return Verdicts(gains, met, untimely & ~ends, due)


@dataclass(slots=True)
class _Sentence:
    """The automata of a sentence, and what is known of their states."""

    terms: TermAutomaton
    bans: BannedAutomaton
    watched: frozenset[int]  # the tokens of all forms
    term_facts: dict[Reading, _TermFacts]
    ban_facts: dict[Guard, _BanFacts]


class ConstraintStates:
    """The numbered states of a search."""

    def __init__(self, constraints: Constraints, eos_id: int) -> None:
        boundaries = constraints.boundaries
        self._constraints, self._eos_id = constraints, eos_id
        self._classes = TokenClasses(boundaries, constraints.one_sentence)
        self._closing = boundaries.closing & (constraints.strict and constraints.one_sentence)
        self._sentences: dict[int, _Sentence] = {}
        # By number of the state. The first is that of free sentences.
        self._states: list[tuple[int, Reading, Guard]] = [(-1, Reading(), Guard())]
        self._numbers: dict[tuple[int, Reading, Guard], int] = {}
        self._followers: dict[tuple[int, int], int | None] = {}
        # Longer than there are states; a row is filled when it is first needed.
        self._known = np.zeros(64, np.bool_)
        self._facts = np.zeros((64, 9), np.float32)
        self._listed = np.full((64, 1), -1)
        self._values = np.zeros((64, 1, 3), np.float32)  # gain, tokens met, due
        self._widths = np.zeros(64, np.int64)
        self._known[FREE], self._facts[FREE, _MET], self._facts[FREE, _END_COMPLETE] = True, ALL_MET, 1

    def start(self, sentence: int) -> int:
        """Return the state of the empty hypothesis of a sentence."""
        one = self._constraints.sentences[sentence]
        if one is None:
            return FREE
        if sentence not in self._sentences:
            terms, bans = TermAutomaton(one, self._classes), BannedAutomaton(one, self._classes)
            watched = frozenset(token for form in one.forms for token in form)
            self._sentences[sentence] = _Sentence(terms, bans, watched, {}, {})
        return self._number(sentence, Reading(), Guard())

    def follow(self, state: int, token: int) -> int | None:
        """Return the state after a token, or ``None`` if the token is not allowed."""
        number, reading, guard = self._states[state]
        if state == FREE:
            return FREE
        sentence = self._sentences[number]
        key = state, token if token in sentence.watched else self._classes.class_of(token)
        if key not in self._followers:
            guarded = sentence.bans.follow(guard, key[1])
            after, _ = sentence.terms.follow(reading, key[1])
            self._followers[key] = None if guarded is None else self._number(number, after, guarded)
        return self._followers[key]

    def cut(self, state: int, token: int) -> tuple[float, bool]:
        """Return the change of the bonus if a hypothesis is cut off after a token, and whether all terms are there."""
        number, reading, guard = self._states[state]
        if state == FREE:
            return 0.0, True
        terms, bans = self._sentences[number].terms, self._sentences[number].bans
        earned, after, guarded = 0.0, reading, guard
        if token != self._eos_id:
            followed = bans.follow(guard, token)
            if followed is None:
                return -np.inf, False
            guarded, (after, earned) = followed, terms.follow(reading, token)
        at_end, complete = terms.end(after)
        gain = self._constraints.bonus * (earned + at_end - terms.advance(reading))
        return (-np.inf, False) if guarded.due else (gain, complete)

    def outcomes(self, states: NDArray[np.int64]) -> Outcomes:
        """Return what is known of the states of some rows: (rows,)."""
        self._reserve(len(self._states), 1)
        for state in set(states[~self._known[states]].tolist()):
            self._find(state)
        width = int(self._widths[states].max(initial=0))
        return Outcomes(
            self._listed[states, :width],
            self._facts[states],
            self._values[states, :width],
            self._constraints.boundaries.continues,
            self._closing,
            self._eos_id,
        )

    def _number(self, sentence: int, reading: Reading, guard: Guard) -> int:
        state = sentence, reading, guard
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def _reserve(self, states: int, width: int) -> None:
        """Enlarge the tables so that some states and listed tokens fit in."""
        rows, columns = self._listed.shape
        if states > rows or width > columns:
            rows, columns = max(2 * states, rows), max(width, columns)
            for name, empty in (("_known", 0), ("_facts", 0), ("_listed", -1), ("_values", 0), ("_widths", 0)):
                old = getattr(self, name)
                shape = {1: (rows,), 2: (rows, old.shape[-1] if name == "_facts" else columns), 3: (rows, columns, 3)}
                new = np.full(shape[old.ndim], empty, old.dtype)
                new[tuple(slice(size) for size in old.shape)] = old
                setattr(self, name, new)

    def _find(self, state: int) -> None:
        """Fill the tables for a state."""
        number, reading, guard = self._states[state]
        sentence = self._sentences[number]
        terms = sentence.term_facts.get(reading)
        if terms is None:
            terms = sentence.term_facts[reading] = self._term_facts(sentence.terms, reading)
        bans = sentence.ban_facts.get(guard)
        if bans is None:
            bans = sentence.ban_facts[guard] = self._ban_facts(sentence.bans, guard)
        tokens = sorted(terms.listed.keys() | bans.listed.keys())
        values = []
        for token in tokens:
            column = self._classes.continues[token]
            gain, met = terms.listed.get(token) or (terms.gains[column], terms.met[column])
            change, due = bans.listed.get(token) or (0.0 if column else bans.gain, False)
            values.append((gain + change, met, due))
        self._reserve(len(self._states), len(tokens))
        self._listed[state, : len(tokens)], self._widths[state], self._known[state] = tokens, len(tokens), True
        if tokens:
            self._values[state, : len(tokens)] = values
        barred = guard.due or any(terms.untimely)
        end_gain, complete = terms.end
        end_gain += -np.inf if guard.due else 0.0
        plain = terms.gains[0] + bans.gain, terms.gains[1]
        self._facts[state] = (*plain, *terms.met, *terms.untimely, end_gain, complete, barred)

    def _term_facts(self, automaton: TermAutomaton, reading: Reading) -> _TermFacts:
        bonus, advance = self._constraints.bonus, automaton.advance(reading)

        def judge(after: Reading, earned: float) -> tuple[float, float]:
            return bonus * (earned + automaton.advance(after) - advance), float(automaton.met(after))

        plain = [automaton.follow(reading, self._classes.size + number) for number in range(2)]
        judged = [judge(*one) for one in plain]
        insists = self._constraints.strict and not reading.closed
        untimely = [insists and not automaton.is_complete(after) for after, _ in plain]
        listed = {}
        for token in sorted(automaton.notable(reading)):
            after, earned = automaton.follow(reading, token)
            outcome = judge(after, earned)
            # A token that would end a sentence does not do so within a form.
            if outcome != judged[self._classes.continues[token]] or (self._closing[token] and not after.closed):
                listed[token] = outcome
        earned, complete = automaton.end(reading)
        (gain, met), (gain_within, met_within) = judged
        end = bonus * (earned - advance), complete
        return _TermFacts((gain, gain_within), (met, met_within), (untimely[0], untimely[1]), end, listed)

    def _ban_facts(self, automaton: BannedAutomaton, guard: Guard) -> _BanFacts:
        listed = {}
        for token in sorted(automaton.notable(guard)):
            after = automaton.follow(guard, token)
            if after is None or after.due:
                listed[token] = (0.0 if after is not None else -np.inf, after is not None)
        return _BanFacts(-np.inf if guard.due else 0.0, listed)
