"""The rules of beam search: settings, candidates of a step, and when a sentence ends.

Knows nothing of text, models and neighbors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lacuna.decoding.backpointers import ROOT, Backpointers, Extensions, FinishedHypotheses, Hypothesis
from lacuna.errors import ModelError, SettingError
from lacuna.likely_tokens import NextTokens

_NONE = np.float32(-np.inf)


@dataclass(frozen=True, slots=True)
class BeamSettings:
    """Settings of beam search.

    :param beam: Unfinished hypotheses kept for each sentence; 1 is greedy search.
    :param length_penalty: The score of a hypothesis is its log-probability divided by its length to this power.
    :param max_new_tokens: Maximum number of tokens of a translation.
    :param max_length_factor: If given, the maximum is also ``max_length_factor`` times the tokens of the source plus
        ``max_length_offset``.
    :param max_length_offset: See ``max_length_factor``; has no effect without it.
    """

    beam: int = 5
    length_penalty: float = 1.0
    max_new_tokens: int = 200
    max_length_factor: float | None = None
    max_length_offset: int = 10

    def __post_init__(self) -> None:
        for name in ("beam", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name}: got {getattr(self, name)}; allowed is 1 or more")
        if not -10 <= self.length_penalty <= 10:
            raise SettingError(f"length_penalty must be from -10 to 10, got {self.length_penalty}; 1 is usual")
        if self.max_length_factor is not None and not 0 <= self.max_length_factor <= 1000:
            raise SettingError(f"max_length_factor must be from 0 to 1000, got {self.max_length_factor}")
        if self.max_length_offset < 1:
            raise SettingError(f"max_length_offset must be 1 or more, got {self.max_length_offset}")

    def limit(self, source_length: int) -> int:
        """Return the maximum number of tokens of the translation of a source."""
        if self.max_length_factor is None:
            return self.max_new_tokens
        return min(self.max_new_tokens, int(self.max_length_factor * source_length) + self.max_length_offset)


@dataclass(slots=True)
class LiveHypotheses:
    """Sentences under search, and their unfinished hypotheses.

    :param sentences: Numbers of the sentences: (live,).
    :param limits: Maximum number of tokens of each: (live,).
    :param lengths: Current number of tokens of each: (live,).
    :param totals: Log-probabilities of the hypotheses, best first: (live, width).
    :param nodes: Their nodes in the backpointers: (live, width).
    """

    sentences: NDArray[np.int64]
    limits: NDArray[np.int64]
    lengths: NDArray[np.int64]
    totals: NDArray[np.float32]
    nodes: NDArray[np.int64]

    @classmethod
    def start(cls, sentences: Sequence[int], limits: Sequence[int]) -> LiveHypotheses:
        """Start with one empty hypothesis for each sentence."""
        numbers = np.array(sentences, np.int64)
        root = np.full((len(numbers), 1), ROOT, np.int64)
        totals = np.zeros((len(numbers), 1), np.float32)
        return cls(numbers, np.array(limits, np.int64), np.zeros_like(numbers), totals, root)

    def __len__(self) -> int:
        return len(self.sentences)

    def join(self, others: LiveHypotheses) -> LiveHypotheses:
        """Append other sentences, with the same number of hypotheses each."""
        return LiveHypotheses(
            np.concatenate([self.sentences, others.sentences]),
            np.concatenate([self.limits, others.limits]),
            np.concatenate([self.lengths, others.lengths]),
            np.concatenate([self.totals, others.totals]),
            np.concatenate([self.nodes, others.nodes]),
        )

    def score_gaps(self) -> NDArray[np.float32]:
        """Return how many nats each row is below the best row of its sentence: (rows,)."""
        return (self.totals[:, :1] - self.totals).ravel()


class BeamRules:
    """Applies the rules of beam search to next tokens, and collects finished hypotheses.

    :param sentences: Total number of sentences.
    """

    def __init__(self, sentences: int, eos_id: int, settings: BeamSettings) -> None:
        self._eos_id = eos_id
        self._settings = settings
        self._backpointers = Backpointers()
        self._finished = FinishedHypotheses(sentences, settings.beam)

    def ask(self, live: LiveHypotheses) -> tuple[int, NDArray[np.int64] | None]:
        """Return how many next tokens of each row are wanted, and which others: (rows, tokens), -1 for none."""
        return self.wanted, None

    def step(self, live: LiveHypotheses, following: NextTokens) -> tuple[LiveHypotheses, Extensions]:
        """Choose among the next tokens of all rows; return the sentences that continue and their new rows."""
        totals, candidates = self._candidates(live, following)
        nodes = live.nodes.ravel()[candidates.rows]
        lengths = live.lengths + 1
        ends = candidates.tokens == self._eos_id
        ends |= (lengths >= live.limits)[:, None]
        divisors = self._divisors(lengths)
        # Only the best `beam` candidates may finish; the others replace them if they end.
        beam = min(self._settings.beam, totals.shape[1])
        if ends[:, :beam].any():
            final_scores = np.where(ends, totals / divisors[:, None], _NONE)[:, :beam].astype(np.float32)
            self._finished.merge(live.sentences, final_scores, nodes[:, :beam], candidates.first(beam))
        # Candidates are sorted: those that do not end keep their order.
        best = np.argsort(ends, axis=1, kind="stable")[:, :beam]
        unfinished = np.where(ends, _NONE, totals)[np.arange(len(best))[:, None], best]
        continues = np.flatnonzero(self._continues(live.sentences, unfinished[:, 0], divisors))
        return self._extend(live, candidates, continues, best[continues], unfinished[continues])

    def results(self, sentences: Sequence[int]) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of some sentences, best first."""
        return self._finished.read(sentences, self._backpointers)

    @property
    def wanted(self) -> int:
        """Number of next tokens to ask for.

        A row cannot give more than all candidates of its sentence. Twice the beam, since half may be end tokens.
        """
        return 2 * self._settings.beam

    @property
    def width(self) -> int:
        """Number of rows of each sentence after its first token, if the vocabulary is as large."""
        return self._settings.beam

    def _candidates(self, live: LiveHypotheses, following: NextTokens) -> tuple[NDArray[np.float32], Extensions]:
        """Return the best extensions of each sentence, best first, and their totals: ``(live, candidates)``."""
        sums = (live.totals.reshape(-1, 1) + following.log_probs).reshape(len(live), -1)
        return self._best(live, following, sums)

    def _best(
        self, live: LiveHypotheses, following: NextTokens, sums: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], Extensions]:
        """Return the extensions with the largest sums."""
        # Stable, so that ties do not depend on the machine.
        best = np.argsort(-sums, axis=1, kind="stable")[:, : self.wanted]
        totals = sums[np.arange(len(live))[:, None], best]
        check_sums(sums, totals[:, 0], live.lengths)
        return totals, self._extensions(live, following, best)

    @staticmethod
    def _extensions(live: LiveHypotheses, following: NextTokens, best: NDArray[np.int64]) -> Extensions:
        """Return some extensions of each sentence, numbered row by row: (live, candidates)."""
        count, width = live.totals.shape
        tokens, log_probs = following
        rows, places = np.arange(count)[:, None], best // tokens.shape[1]
        tokens, log_probs = tokens.reshape(count, -1)[rows, best], log_probs.reshape(count, -1)[rows, best]
        return Extensions(rows * width + places, tokens, log_probs)

    def _extend(
        self,
        live: LiveHypotheses,
        candidates: Extensions,
        continues: NDArray[np.int64],
        best: NDArray[np.int64],
        totals: NDArray[np.float32],
    ) -> tuple[LiveHypotheses, Extensions]:
        """Return sentences that continue, and their new rows.

        :param best: The candidates that become rows: (continues, width).
        :param totals: Of these: (continues, width).
        """
        extensions = candidates.take(continues, best)
        parents = live.nodes.ravel()[extensions.rows]
        kept = LiveHypotheses(
            live.sentences[continues],
            live.limits[continues],
            live.lengths[continues] + 1,
            totals,
            parents.reshape(best.shape),
        )
        kept.nodes = self._backpointers.add(parents, extensions, kept.score_gaps()).reshape(best.shape)
        return kept, extensions

    def _divisors(self, lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return by what the totals of hypotheses are divided."""
        return (lengths.astype(np.float64) ** self._settings.length_penalty).astype(np.float32)

    def _continues(
        self, sentences: NDArray[np.int64], best: NDArray[np.float32], divisors: NDArray[np.float32]
    ) -> NDArray[np.bool_]:
        """Decide which sentences continue.

        A sentence ends when ``beam`` hypotheses are finished and the best unfinished one, if it ended here, would not
        be better than the worst of them. A longer one could still be, if the length penalty is positive; transformers
        ignores that, too. With a beam of 1 this is greedy search: the hypothesis that ended was the best candidate, so
        no other of its length is better.

        :param best: Log-probability of the best unfinished hypothesis of each sentence: (live,).
        """
        improvable = best / divisors > self._finished.scores[sentences, -1]  # -inf while there are fewer than `beam`
        return np.asarray(improvable & (best > _NONE))


def check_sums(sums: NDArray[np.float32], best: NDArray[np.float32], lengths: NDArray[np.int64]) -> None:
    """Raise on scores that are not log-probabilities, and on a sentence without any possible first token."""
    wrong = np.isnan(sums).any(axis=1) | (best == -_NONE)
    if wrong.any():
        step = int(lengths[wrong].min())
        raise ModelError(f"step {step}: the scorer gave NaN or infinity where log-probabilities are needed")
    if ((best == _NONE) & (lengths == 0)).any():
        raise ModelError("no token is allowed to start a translation: all are banned or have no probability")
