"""The rules of beam search with constraints: soft ones, which only add a bonus, and strict ones.

Strict search is dynamic beam allocation (Post and Vilar, 2018): the places of a sentence are divided among *banks* of
hypotheses with equally many tokens of required terms, so that those with more of them are not outdone by more probable
ones without. What may begin or continue a form is looked up in tries (Hu et al., 2019).

Knows nothing of text, models and neighbors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lacuna.decoding.backpointers import ROOT, Extensions, FinishedHypotheses, Hypothesis
from lacuna.decoding.beam import BeamRules, BeamSettings, LiveHypotheses, check_sums
from lacuna.decoding.constraint_outcomes import FREE, ConstraintStates, Outcomes
from lacuna.decoding.constraint_states import ALL_MET
from lacuna.decoding.constraints import Constraints
from lacuna.likely_tokens import NextTokens

_NONE = np.float32(-np.inf)

# Tokens to ask for in addition where whole classes of tokens are not allowed.
_SPARE = 16

# How much longer than the first complete hypotheses strict search waits for others, relative to their length.
_PATIENCE = 1.5
_NEVER = np.iinfo(np.int32).max


class ConstrainedBeamRules(BeamRules):
    """Beam search in which forms add to the total of a hypothesis, and banned forms do not occur."""

    def __init__(self, sentences: int, eos_id: int, settings: BeamSettings, constraints: Constraints) -> None:
        super().__init__(sentences, eos_id, settings)
        self._states = ConstraintStates(constraints, eos_id)
        self._is_free = np.array([one is None for one in constraints.sentences], np.bool_)
        self._state_of_node = np.zeros(0, np.int64)  # longer than there are nodes
        self._outcomes: Outcomes | None = None

    def ask(self, live: LiveHypotheses) -> tuple[int, NDArray[np.int64] | None]:
        """See :meth:`BeamRules.ask`. The next step must be that of these hypotheses."""
        outcomes = self._outcomes = self._states.outcomes(self._states_of(live))
        count = self.wanted + outcomes.barred + (_SPARE if outcomes.bars_classes else 0)
        return count, outcomes.allowed if outcomes.listed.shape[1] else None

    def step(self, live: LiveHypotheses, following: NextTokens) -> tuple[LiveHypotheses, Extensions]:
        """See :meth:`BeamRules.step`."""
        before = self._states_of(live)
        kept, extensions = super().step(live, following)
        self._remember(before[extensions.rows], extensions, kept)
        return kept, extensions

    def results(self, sentences: Sequence[int]) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of some sentences, best first, with scores that leave out the bonus."""
        found = super().results(sentences)
        return [
            hypotheses if self._is_free[sentence] else [self._without_bonus(one) for one in hypotheses]
            for sentence, hypotheses in zip(sentences, found, strict=True)
        ]

    def _without_bonus(self, hypothesis: Hypothesis) -> Hypothesis:
        length = len(hypothesis.log_probs)
        return replace(hypothesis, score=sum(hypothesis.log_probs) / length**self._settings.length_penalty)

    def _candidates(self, live: LiveHypotheses, following: NextTokens) -> tuple[NDArray[np.float32], Extensions]:
        sums, *_ = self._judged(live, following)
        return self._best(live, following, sums)

    def _judged(
        self, live: LiveHypotheses, following: NextTokens
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
        """Return the total of each extension, tokens met, and whether all terms are there if it ends.

        All are of shape ``(live, candidates)``.
        """
        assert self._outcomes is not None, "ask() comes before step()"
        outcomes, self._outcomes = self._outcomes, None
        tokens, log_probs = following
        verdicts = outcomes.judge(tokens)
        gains, complete = verdicts.gains, np.repeat(outcomes.end_complete[:, None], tokens.shape[1], axis=1)
        self._cut_off(live, tokens, gains, complete)
        sums = live.totals.reshape(-1, 1) + log_probs + gains
        if verdicts.untimely.any():
            rest = np.where(verdicts.untimely | (tokens == self._eos_id), _NONE, sums)
            possible = np.isfinite(rest).any(axis=1, keepdims=True)
            sums = np.where(verdicts.untimely & possible, _NONE, sums)
        shape = len(live), -1
        sums = sums.reshape(shape)
        if verdicts.due.any():
            # At least one hypothesis must be sure to have a next token.
            due = verdicts.due.reshape(shape) & np.isfinite(sums)
            order = np.argsort(np.where(due, -sums, np.float32(np.inf)), axis=1, kind="stable")
            sums[np.arange(len(live))[:, None], order[:, self.width - 1 :]] += np.where(
                np.take_along_axis(due, order, 1)[:, self.width - 1 :], _NONE, np.float32(0)
            )
        return sums, verdicts.met.reshape(shape), complete.reshape(shape)

    def _cut_off(
        self,
        live: LiveHypotheses,
        tokens: NDArray[np.int64],
        gains: NDArray[np.float32],
        complete: NDArray[np.bool_],
    ) -> None:
        """Judge the last tokens of sentences that reach their maximum length, in place."""
        width = live.totals.shape[1]
        states = self._states_of(live)
        for row in np.flatnonzero(np.repeat(live.lengths + 1 >= live.limits, width) & (states != FREE)).tolist():
            for place, token in enumerate(tokens[row].tolist()):
                gains[row, place], complete[row, place] = self._states.cut(int(states[row]), token)

    def _states_of(self, live: LiveHypotheses) -> NDArray[np.int64]:
        """Return the state of each row: (rows,)."""
        if live.nodes[:1, 0].tolist() == [ROOT]:
            return np.array([self._states.start(sentence) for sentence in live.sentences.tolist()], np.int64)
        return self._state_of_node[live.nodes.ravel()]

    def _remember(self, before: NDArray[np.int64], extensions: Extensions, kept: LiveHypotheses) -> None:
        """Note the states of new rows.

        :param before: The states that they extend.
        """
        nodes = kept.nodes.ravel()
        if not len(nodes):
            return
        if nodes[-1] >= len(self._state_of_node):
            grown = np.zeros(2 * int(nodes[-1]) + 1024, np.int64)
            grown[: len(self._state_of_node)] = self._state_of_node
            self._state_of_node = grown
        # A row without a hypothesis needs no state, nor does one of a free sentence.
        for place in np.flatnonzero((before != FREE) & np.isfinite(kept.totals.ravel())).tolist():
            state = self._states.follow(int(before[place]), int(extensions.tokens[place]))
            assert state is not None, "a token that is not allowed was chosen"
            self._state_of_node[nodes[place]] = state


class StrictBeamRules(ConstrainedBeamRules):
    """Beam search in which a hypothesis may end only when it contains every required term."""

    def __init__(self, sentences: int, eos_id: int, settings: BeamSettings, constraints: Constraints) -> None:
        super().__init__(sentences, eos_id, settings, constraints)
        self._incomplete = FinishedHypotheses(sentences, 1)
        self._full_since = np.full(sentences, _NEVER)  # the length at which `beam` hypotheses were finished

    @property
    def width(self) -> int:
        """See :attr:`BeamRules.width`. The other half is for hypotheses that would be outdone without their bank."""
        return 2 * self._settings.beam

    def step(self, live: LiveHypotheses, following: NextTokens) -> tuple[LiveHypotheses, Extensions]:
        """See :meth:`BeamRules.step`."""
        before = self._states_of(live)
        sums, met, complete = self._judged(live, following)
        order = np.argsort(-sums, axis=1, kind="stable")
        check_sums(sums, np.take_along_axis(sums, order[:, :1], 1)[:, 0], live.lengths)
        totals, met = np.take_along_axis(sums, order, 1), np.take_along_axis(met, order, 1)
        complete = np.take_along_axis(complete, order, 1)
        candidates = self._extensions(live, following, order)
        lengths = live.lengths + 1
        ends = candidates.tokens == self._eos_id
        ends |= (lengths >= live.limits)[:, None]
        divisors = self._divisors(lengths)
        self._finish(live, totals / divisors[:, None], candidates, ends, np.where(ends, complete, met == ALL_MET))
        best, unfinished = self._allocate(live, np.where(ends, _NONE, totals), met)
        hopeful = self._hopeful(live.sentences, lengths, unfinished, np.take_along_axis(met, best, 1) == ALL_MET)
        going_on = np.flatnonzero(self._continues(live.sentences, hopeful, divisors))
        kept, extensions = self._extend(live, candidates, going_on, best[going_on], unfinished[going_on])
        self._remember(before[extensions.rows], extensions, kept)
        return kept, extensions

    def results(self, sentences: Sequence[int]) -> list[list[Hypothesis]]:
        """Return the complete hypotheses of some sentences, best first; the best incomplete one if there are none."""
        found = super().results(sentences)
        missing = [place for place, hypotheses in enumerate(found) if not hypotheses]
        others = self._incomplete.read([sentences[place] for place in missing], self._backpointers) if missing else []
        for place, hypotheses in zip(missing, others, strict=True):
            found[place] = [self._without_bonus(one) for one in hypotheses]
        return found

    def _finish(
        self,
        live: LiveHypotheses,
        scores: NDArray[np.float32],
        candidates: Extensions,
        ends: NDArray[np.bool_],
        complete: NDArray[np.bool_],
    ) -> None:
        """Collect hypotheses that end: complete ones if they are among the best ``beam`` complete candidates.

        All arrays are sorted by total: (live, candidates).
        """
        if not ends.any():
            return
        nodes, beam = live.nodes.ravel()[candidates.rows], self._settings.beam
        for finished, counts in ((self._finished, complete), (self._incomplete, ~complete)):
            # Incomplete ones need to be among the best of all.
            rank = np.cumsum(counts if finished is self._finished else np.ones_like(counts), axis=1)
            chosen = np.argsort(~(ends & counts & (rank <= beam)), axis=1, kind="stable")[:, :beam]
            taken = np.take_along_axis(ends & counts & (rank <= beam), chosen, 1)
            final = np.where(taken, np.take_along_axis(scores, chosen, 1), _NONE).astype(np.float32)
            finished.merge(live.sentences, final, np.take_along_axis(nodes, chosen, 1), candidates.choose(chosen))

    def _hopeful(
        self,
        sentences: NDArray[np.int64],
        lengths: NDArray[np.int64],
        totals: NDArray[np.float32],
        complete: NDArray[np.bool_],
    ) -> NDArray[np.float32]:
        """Return the total of the best row of each sentence that could become a better result.

        Incomplete rows are the more probable ones as long as they leave terms out, and would keep the search going to
        the maximum length. So they are waited for half as long again as it took to finish ``beam`` complete ones.
        """
        full = np.isfinite(self._finished.scores[sentences, -1])
        self._full_since[sentences] = np.where(full, np.minimum(self._full_since[sentences], lengths), _NEVER)
        waited_for = lengths <= _PATIENCE * self._full_since[sentences]
        best: NDArray[np.float32] = np.where(complete | waited_for[:, None], totals, _NONE).max(axis=1)
        return best

    def _allocate(
        self, live: LiveHypotheses, totals: NDArray[np.float32], met: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Choose the rows of each sentence: the best of each bank in turns, beginning with the fullest bank.

        :param totals: Of candidates, best first except for those that end: (live, candidates).
        :return: The chosen candidates and their totals, best first: (live, width).
        """
        possible = np.isfinite(totals)
        banks = np.where(possible, -met, np.float32(1))  # the fullest bank first, those that are impossible last
        order = np.lexsort((-totals, banks), axis=1)
        sorted_banks = np.take_along_axis(banks, order, 1)
        places = np.arange(totals.shape[1])
        first = np.ones(totals.shape, np.bool_)
        first[:, 1:] = sorted_banks[:, 1:] != sorted_banks[:, :-1]
        turn = places - np.maximum.accumulate(np.where(first, places, 0), axis=1)
        # Sorted by turn, then by bank, as the order is stable; what is impossible comes last.
        chosen = np.argsort(np.where(sorted_banks > 0, len(places), turn), axis=1, kind="stable")[:, : self.width]
        best = np.take_along_axis(order, chosen, 1)
        found = np.take_along_axis(totals, best, 1)
        by_total = np.argsort(-found, axis=1, kind="stable")
        best, found = np.take_along_axis(best, by_total, 1), np.take_along_axis(found, by_total, 1)
        # A free sentence is searched as it would be without the others.
        found[self._is_free[live.sentences], self._settings.beam :] = _NONE
        return best, found


def rules_for(sentences: int, eos_id: int, settings: BeamSettings, constraints: Constraints | None) -> BeamRules:
    """Return the rules of a search."""
    if constraints is None:
        return BeamRules(sentences, eos_id, settings)
    constraints.check(sentences)
    kind = StrictBeamRules if constraints.strict else ConstrainedBeamRules
    return kind(sentences, eos_id, settings, constraints)
