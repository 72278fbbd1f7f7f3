"""Bookkeeping of beam search: backpointers of unfinished hypotheses, and the best finished hypotheses so far.

Everything is an array over sentences or rows until the end of the search, when finished hypotheses are read back from
the last token to the first. The arrays are small, and NumPy handles small arrays faster than torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

_Number = TypeVar("_Number", np.int64, np.float32)

# The node of an empty hypothesis.
ROOT = -1


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished translation.

    :param tokens: Token ids, with the end token unless the translation was cut off at its maximum length.
    :param score: The sum of ``log_probs``, divided by the number of tokens to the power of the length penalty.
    :param log_probs: The scorer's natural log-probability of each token.
    :param score_gaps: For each token, the score gap of the hypothesis before that token, in nats.
    """

    tokens: tuple[int, ...]
    score: float
    log_probs: tuple[float, ...]
    score_gaps: tuple[float, ...]


@dataclass(slots=True)
class Extensions:
    """Tokens that extend rows of a batch. All arrays have the same shape."""

    rows: NDArray[np.int64]  # the row that is extended
    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]  # of the token alone

    def first(self, count: int) -> Extensions:
        """Select the first columns of each sentence."""
        return Extensions(self.rows[:, :count], self.tokens[:, :count], self.log_probs[:, :count])

    def choose(self, columns: NDArray[np.int64]) -> Extensions:
        """Select columns of each sentence: (sentences, width)."""
        rows, tokens = np.take_along_axis(self.rows, columns, 1), np.take_along_axis(self.tokens, columns, 1)
        return Extensions(rows, tokens, np.take_along_axis(self.log_probs, columns, 1))

    def take(self, sentences: NDArray[np.int64], columns: NDArray[np.int64]) -> Extensions:
        """Select columns of some sentences, and flatten them into the rows of the next batch.

        :param sentences: (selected,).
        :param columns: Columns of each selected sentence: (selected, width).
        """
        places = sentences[:, None], columns
        return Extensions(self.rows[places].ravel(), self.tokens[places].ravel(), self.log_probs[places].ravel())


class _Paths(NamedTuple):
    """Tokens from some nodes back to the root, last token first: ``(nodes, tokens)`` each.

    :param lengths: Number of tokens of each path; columns beyond it are undefined: (nodes,).
    """

    lengths: NDArray[np.int64]
    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    score_gaps: NDArray[np.float32]


class Backpointers:
    """A tree of tokens. Each node is an unfinished hypothesis and points to the one that it extends."""

    def __init__(self) -> None:
        self._size = 0
        self._parents: list[NDArray[np.int64]] = []
        self._tokens: list[NDArray[np.int64]] = []
        self._log_probs: list[NDArray[np.float32]] = []
        self._score_gaps: list[NDArray[np.float32]] = []

    def add(
        self, parents: NDArray[np.int64], extensions: Extensions, score_gaps: NDArray[np.float32]
    ) -> NDArray[np.int64]:
        """Add nodes and return their numbers, all ``(nodes,)``."""
        self._parents.append(parents)
        self._tokens.append(extensions.tokens)
        self._log_probs.append(extensions.log_probs)
        self._score_gaps.append(score_gaps)
        self._size += len(parents)
        return np.arange(self._size - len(parents), self._size)

    def follow(self, nodes: NDArray[np.int64]) -> _Paths:
        """Follow nodes back to the root."""
        # The last element is for ROOT.
        parents = np.concatenate([*self._parents, np.zeros(1, np.int64)])
        path = []
        while (nodes > ROOT).any():
            path.append(nodes)
            nodes = np.where(nodes > ROOT, parents[nodes], ROOT)
        steps = np.stack(path, 1) if path else np.zeros((len(nodes), 0), np.int64)
        return _Paths(
            (steps > ROOT).sum(1),
            np.concatenate([*self._tokens, np.zeros(1, np.int64)])[steps],
            np.concatenate([*self._log_probs, np.zeros(1, np.float32)])[steps],
            np.concatenate([*self._score_gaps, np.zeros(1, np.float32)])[steps],
        )


class FinishedHypotheses:
    """The best finished hypotheses of every sentence, best first, at most ``beam`` each."""

    def __init__(self, sentences: int, beam: int) -> None:
        self.scores = np.full((sentences, beam), -np.inf, np.float32)  # -inf: no hypothesis yet
        self._nodes = np.full((sentences, beam), ROOT)  # the node that the last token extends
        self._tokens = np.zeros_like(self._nodes)
        self._log_probs = np.zeros_like(self.scores)

    def merge(
        self,
        sentences: NDArray[np.int64],
        scores: NDArray[np.float32],
        nodes: NDArray[np.int64],
        last: Extensions,
    ) -> None:
        """Merge candidates ``(sentences, candidates)`` and keep the best; a score of -inf is never kept.

        :param nodes: The node that each candidate extends.
        :param last: The last token of each candidate.
        """
        merged = np.concatenate([self.scores[sentences], scores], axis=1)
        best = np.argsort(-merged, axis=1, kind="stable")[:, : self.scores.shape[1]]
        self.scores[sentences] = np.take_along_axis(merged, best, axis=1)
        self._nodes[sentences] = _merged(self._nodes[sentences], nodes, best)
        self._tokens[sentences] = _merged(self._tokens[sentences], last.tokens, best)
        self._log_probs[sentences] = _merged(self._log_probs[sentences], last.log_probs, best)

    def read(self, sentences: Sequence[int], backpointers: Backpointers) -> list[list[Hypothesis]]:
        """Follow the backpointers of the finished hypotheses of some sentences."""
        chosen = list(sentences)
        scores = self.scores[chosen]
        places = np.nonzero(np.isfinite(scores))
        columns = (part[chosen][places].tolist() for part in (self.scores, self._tokens, self._log_probs))
        paths = backpointers.follow(self._nodes[chosen][places])
        hypotheses: list[list[Hypothesis]] = [[] for _ in chosen]
        for sentence, score, token, log_prob, length, *path in zip(
            places[0].tolist(), *columns, *(column.tolist() for column in paths), strict=True
        ):
            tokens, log_probs, score_gaps = (part[:length][::-1] for part in path)
            hypothesis = Hypothesis((*tokens, token), score, (*log_probs, log_prob), (0.0, *score_gaps))
            hypotheses[sentence].append(hypothesis)
        return hypotheses


def _merged(old: NDArray[_Number], new: NDArray[_Number], best: NDArray[np.int64]) -> NDArray[_Number]:
    return np.take_along_axis(np.concatenate([old, new], axis=1), best, axis=1)
