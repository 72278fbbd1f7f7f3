"""The books of a beam search: what led to each unfinished translation, and the best finished ones so far.

Everything is a tensor over sentences or rows until the end, when the finished translations are read back from last
token to first. Knows nothing of how candidates are found or when a search ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

# Where a translation without tokens stands.
ROOT = -1


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One finished translation.

    :param tokens: Its tokens, with the end token unless it was cut off at the greatest length.
    :param score: The sum of ``log_probs`` over the number of tokens to the power of the length penalty.
    :param log_probs: The scorer's natural log-probability of each token.
    :param behind: For each token, how much less probable all before it were than the best of its sentence, in nats.
    """

    tokens: tuple[int, ...]
    score: float
    log_probs: tuple[float, ...]
    behind: tuple[float, ...]


@dataclass(slots=True)
class Links:
    """Choices of tokens, one of each entry per choice; the choices share any shape."""

    rows: torch.Tensor  # row of the batch the token was scored in
    tokens: torch.Tensor
    log_probs: torch.Tensor  # of the token alone

    def take(self, columns: torch.Tensor) -> Links:
        """Choose columns of each sentence: ``(sentences, some)`` out of ``(sentences, candidates)``."""
        return Links(*(part.gather(1, columns) for part in (self.rows, self.tokens, self.log_probs)))

    def keep(self, sentences: torch.Tensor) -> Links:
        """Keep some sentences and lay their choices out in one dimension, as the rows of the next batch."""
        return Links(*(part[sentences].flatten() for part in (self.rows, self.tokens, self.log_probs)))


class _Past(NamedTuple):
    """The tokens on the way to some nodes, last first: ``(nodes, tokens)`` each.

    :param lengths: How many tokens there are; what lies to the right of them in a row means nothing: (nodes,).
    :param behind: Of the unfinished translations that end with each token.
    """

    lengths: NDArray[np.int64]
    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    behind: NDArray[np.float32]


class Trails:
    """A tree of tokens: each node stands for an unfinished translation, and knows the one that it goes on from."""

    def __init__(self) -> None:
        self._size = 0
        self._grown: list[tuple[torch.Tensor, ...]] = []

    def grow(
        self, parents: torch.Tensor, tokens: torch.Tensor, log_probs: torch.Tensor, behind: torch.Tensor
    ) -> torch.Tensor:
        """Add nodes and give their numbers, all ``(nodes,)``."""
        self._grown.append((parents, tokens, log_probs, behind))
        self._size += len(parents)
        return torch.arange(self._size - len(parents), self._size, device=parents.device)

    def follow(self, nodes: NDArray[np.int64]) -> _Past:
        """Go from nodes back to where their translations begin."""
        grown = (_numpy(torch.cat(parts)) for parts in zip(*self._grown, strict=True))
        parents, *columns = (np.append(part, part.dtype.type(0)) for part in grown)  # the last one is for ROOT
        path = []
        while (nodes > ROOT).any():
            path.append(nodes)
            nodes = np.where(nodes > ROOT, parents[nodes], ROOT)
        steps = np.stack(path, 1) if path else np.zeros((len(nodes), 0), np.int64)
        return _Past((steps > ROOT).sum(1), *(column[steps] for column in columns))


class Finished:
    """The best finished translations of every sentence, best first, at most ``beam`` each."""

    def __init__(self, sentences: int, beam: int, device: torch.device) -> None:
        self.scores = torch.full((sentences, beam), float("-inf"), device=device)  # -inf where there is none yet
        self._nodes = torch.full((sentences, beam), ROOT, device=device)  # what the last token goes on from
        self._tokens = torch.zeros_like(self._nodes)
        self._log_probs = torch.zeros_like(self.scores)

    def merge(self, sentences: torch.Tensor, scores: torch.Tensor, nodes: torch.Tensor, links: Links) -> None:
        """Take candidates ``(sentences, some)`` in where they are better; those at -inf never are.

        :param nodes: What each candidate goes on from.
        """
        merged, best = torch.cat([self.scores[sentences], scores], 1).topk(self.scores.shape[1])
        self.scores[sentences] = merged
        for old, new in ((self._nodes, nodes), (self._tokens, links.tokens), (self._log_probs, links.log_probs)):
            old[sentences] = torch.cat([old[sentences], new], 1).gather(1, best)

    def read(self, trails: Trails) -> list[list[Hypothesis]]:
        """Follow every finished translation back to its start."""
        sentences, places = np.nonzero(np.isfinite(_numpy(self.scores)))
        last = (_numpy(part)[sentences, places].tolist() for part in (self.scores, self._tokens, self._log_probs))
        past = trails.follow(_numpy(self._nodes)[sentences, places])
        found: list[list[Hypothesis]] = [[] for _ in range(len(self.scores))]
        for sentence, score, token, log_prob, length, *trail in zip(
            sentences.tolist(), *last, *(column.tolist() for column in past), strict=True
        ):
            tokens, log_probs, behind = (part[:length][::-1] for part in trail)
            hypothesis = Hypothesis((*tokens, token), score, (*log_probs, log_prob), (0.0, *behind))
            found[sentence].append(hypothesis)
        return found


def _numpy(tensor: torch.Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.cpu().numpy()
    return array
