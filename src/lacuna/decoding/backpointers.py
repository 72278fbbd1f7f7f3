"""Bookkeeping of beam search: backpointers of unfinished hypotheses, and the best finished hypotheses so far.

Everything is a tensor over sentences or rows until the end of the search, when finished hypotheses are read back from
the last token to the first. Does not know how candidates are found or when a search ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

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
    """Tokens that extend rows of a batch. All tensors have the same shape."""

    rows: torch.Tensor  # the row that is extended
    tokens: torch.Tensor
    log_probs: torch.Tensor  # of the token alone

    def first(self, count: int) -> Extensions:
        """Select the first columns of each sentence."""
        return Extensions(self.rows[:, :count], self.tokens[:, :count], self.log_probs[:, :count])

    def take(self, columns: torch.Tensor) -> Extensions:
        """Select columns of each sentence: ``(sentences, selected)`` out of ``(sentences, candidates)``."""
        return Extensions(*(part.gather(1, columns) for part in (self.rows, self.tokens, self.log_probs)))

    def keep(self, sentences: torch.Tensor) -> Extensions:
        """Select sentences and flatten their extensions into the rows of the next batch."""
        return Extensions(*(part[sentences].flatten() for part in (self.rows, self.tokens, self.log_probs)))


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
        self._blocks: list[tuple[torch.Tensor, ...]] = []

    def add(
        self, parents: torch.Tensor, tokens: torch.Tensor, log_probs: torch.Tensor, score_gaps: torch.Tensor
    ) -> torch.Tensor:
        """Add nodes and return their numbers, all ``(nodes,)``."""
        self._blocks.append((parents, tokens, log_probs, score_gaps))
        self._size += len(parents)
        return torch.arange(self._size - len(parents), self._size, device=parents.device)

    def follow(self, nodes: NDArray[np.int64]) -> _Paths:
        """Follow nodes back to the root."""
        blocks = (_numpy(torch.cat(parts)) for parts in zip(*self._blocks, strict=True))
        parents, *columns = (np.append(part, part.dtype.type(0)) for part in blocks)  # the last element is for ROOT
        path = []
        while (nodes > ROOT).any():
            path.append(nodes)
            nodes = np.where(nodes > ROOT, parents[nodes], ROOT)
        steps = np.stack(path, 1) if path else np.zeros((len(nodes), 0), np.int64)
        return _Paths((steps > ROOT).sum(1), *(column[steps] for column in columns))


class FinishedHypotheses:
    """The best finished hypotheses of every sentence, best first, at most ``beam`` each."""

    def __init__(self, sentences: int, beam: int, device: torch.device) -> None:
        self.scores = torch.full((sentences, beam), float("-inf"), device=device)  # -inf: no hypothesis yet
        self._nodes = torch.full((sentences, beam), ROOT, device=device)  # the node that the last token extends
        self._tokens = torch.zeros_like(self._nodes)
        self._log_probs = torch.zeros_like(self.scores)

    def merge(self, sentences: torch.Tensor, scores: torch.Tensor, nodes: torch.Tensor, last: Extensions) -> None:
        """Merge candidates ``(sentences, candidates)`` and keep the best; a score of -inf is never kept.

        :param nodes: The node that each candidate extends.
        :param last: The last token of each candidate.
        """
        merged, best = torch.cat([self.scores[sentences], scores], 1).topk(self.scores.shape[1])
        self.scores[sentences] = merged
        for old, new in ((self._nodes, nodes), (self._tokens, last.tokens), (self._log_probs, last.log_probs)):
            old[sentences] = torch.cat([old[sentences], new], 1).gather(1, best)

    def read(self, sentences: Sequence[int], backpointers: Backpointers) -> list[list[Hypothesis]]:
        """Follow the backpointers of the finished hypotheses of some sentences."""
        scores, nodes, *last = (
            _numpy(part[list(sentences)]) for part in (self.scores, self._nodes, self._tokens, self._log_probs)
        )
        places = np.nonzero(np.isfinite(scores))
        columns = (part[places].tolist() for part in (scores, *last))
        paths = backpointers.follow(nodes[places])
        found: list[list[Hypothesis]] = [[] for _ in range(len(scores))]
        for sentence, score, token, log_prob, length, *path in zip(
            places[0].tolist(), *columns, *(column.tolist() for column in paths), strict=True
        ):
            tokens, log_probs, score_gaps = (part[:length][::-1] for part in path)
            hypothesis = Hypothesis((*tokens, token), score, (*log_probs, log_prob), (0.0, *score_gaps))
            found[sentence].append(hypothesis)
        return found


def _numpy(tensor: torch.Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.cpu().numpy()
    return array
