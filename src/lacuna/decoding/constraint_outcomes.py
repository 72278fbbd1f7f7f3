"""What constraints make of the next tokens of many hypotheses, as arrays.

States of all sentences of a search are numbered when they are first reached, and what may follow a state is worked out
once. Most tokens are in no form: they differ only in whether they continue a word. The few others are listed.

Knows nothing of probabilities and beams.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lacuna.decoding.constraint_states import ALL_MET, Position, SentenceStates, TokenClasses
from lacuna.decoding.constraints import Constraints

# The state of all hypotheses of sentences without constraints.
FREE = 0

# Columns of what is known of a state. The first two of each are of tokens in no form: those that do not continue a
# word, and those that do.
_GAIN, _MET, _UNTIMELY = slice(0, 2), slice(2, 4), slice(4, 6)
_END_GAIN, _END_COMPLETE, _BARRED = 6, 7, 8

# What is known of a listed token.
_Listed = tuple[int, float, float, float]  # token, gain, tokens met, due


@dataclass(frozen=True, slots=True)
class _Facts:
    columns: tuple[float, ...]
    listed: tuple[_Listed, ...] = ()


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


class ConstraintStates:
    """The numbered states of a search."""

    def __init__(self, constraints: Constraints, eos_id: int) -> None:
        boundaries = constraints.boundaries
        self._constraints, self._eos_id = constraints, eos_id
        self._classes = TokenClasses(boundaries, constraints.one_sentence)
        self._insists = constraints.strict
        self._closing = boundaries.closing & (constraints.strict and constraints.one_sentence)
        self._automata: dict[int, SentenceStates] = {}
        self._starts: dict[int, int] = {}
        # By number of the state. The first is that of free sentences.
        self._sentences, self._positions = [-1], [Position()]
        self._facts: list[_Facts | None] = [_Facts((0.0,) * 2 + (float(ALL_MET),) * 2 + (0.0,) * 3 + (1.0, 0.0))]
        self._numbers: dict[tuple[int, Position], int] = {}
        self._followers: dict[tuple[int, int], int | None] = {}

    def start(self, sentence: int) -> int:
        """Return the state of the empty hypothesis of a sentence."""
        constraints = self._constraints.sentences[sentence]
        if constraints is None:
            return FREE
        if sentence not in self._automata:
            self._automata[sentence] = SentenceStates(constraints, self._classes)
        return self._number(sentence, Position())

    def follow(self, state: int, token: int) -> int | None:
        """Return the state after a token, or ``None`` if the token is not allowed."""
        if state == FREE:
            return FREE
        sentence = self._sentences[state]
        automaton = self._automata[sentence]
        key = state, token if token in automaton.watched else self._classes.class_of(token)
        if key not in self._followers:
            position = automaton.follow(self._positions[state], key[1])
            self._followers[key] = None if position is None else self._number(sentence, position)
        return self._followers[key]

    def cut(self, state: int, token: int) -> tuple[float, bool]:
        """Return the change of the bonus if a hypothesis is cut off after a token, and whether all terms are there."""
        if state == FREE:
            return 0.0, True
        after = state if token == self._eos_id else self.follow(state, token)
        if after is None or self._positions[after].due:
            return -np.inf, False
        automaton = self._automata[self._sentences[state]]
        worth, complete = automaton.worth_at_end(self._positions[after])
        return self._constraints.bonus * (worth - automaton.worth(self._positions[state])), complete

    def outcomes(self, states: NDArray[np.int64]) -> Outcomes:
        """Return what is known of the states of some rows: (rows,)."""
        different, places = np.unique(states, return_inverse=True)
        facts = [self._facts_of(state) for state in different.tolist()]
        width = max(len(one.listed) for one in facts)
        table = np.full((len(facts), width, 4), -1.0)
        for line, one in zip(table, facts, strict=True):
            if one.listed:
                line[: len(one.listed)] = one.listed
        columns = np.array([one.columns for one in facts], np.float32)
        continues = self._constraints.boundaries.continues
        values = table[places, :, 1:].astype(np.float32)
        listed = table[places, :, 0].astype(np.int64)
        return Outcomes(listed, columns[places], values, continues, self._closing, self._eos_id)

    def _number(self, sentence: int, position: Position) -> int:
        number = self._numbers.setdefault((sentence, position), len(self._positions))
        if number == len(self._positions):
            self._sentences.append(sentence)
            self._positions.append(position)
            self._facts.append(None)
        return number

    def _facts_of(self, state: int) -> _Facts:
        facts = self._facts[state]
        if facts is None:
            facts = self._facts[state] = self._find_facts(state)
        return facts

    def _find_facts(self, state: int) -> _Facts:
        automaton, position = self._automata[self._sentences[state]], self._positions[state]
        bonus, worth = self._constraints.bonus, automaton.worth(position)

        def outcome(after: Position | None) -> tuple[float, float, float]:
            if after is None:
                return -np.inf, 0.0, 0.0
            return bonus * (automaton.worth(after) - worth), float(automaton.met(after)), float(after.due)

        plain = [automaton.follow(position, self._classes.size + number) for number in range(2)]
        unlisted = [outcome(after) for after in plain]
        listed = []
        for token in sorted(automaton.notable(position)):
            found = outcome(automaton.follow(position, token))
            if found != unlisted[self._classes.continues[token]]:
                listed.append((token, *found))
        at_end, complete = automaton.worth_at_end(position)
        end_gain = -np.inf if position.due else bonus * (at_end - worth)
        untimely = [
            self._insists and not position.closed and after is not None and not automaton.is_complete(after)
            for after in plain
        ]
        columns = (
            *(gain for gain, _, _ in unlisted),
            *(met for _, met, _ in unlisted),
            *map(float, untimely),
            end_gain,
            float(complete),
            float(position.due or any(untimely)),
        )
        return _Facts(columns, tuple(listed))
