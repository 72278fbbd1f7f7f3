"""The books of a beam search: which token followed which row, and the best finished translations so far.

Everything is a tensor over sentences or rows until the end, when the finished translations are read back from last
token to first. Knows nothing of how candidates are found or when a search ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One finished translation.

    :param tokens: Its tokens, with the end token unless it was cut off at the greatest length.
    :param score: The sum of ``log_probs`` over the number of tokens to the power of the length penalty.
    :param log_probs: The scorer's natural log-probability of each token.
    :param rows: For each step, the row of the scorer's batch in which the token was scored.
    :param behind: For each step, how much less probable it was until then than the best of its sentence, in nats.
    """

    tokens: tuple[int, ...]
    score: float
    log_probs: tuple[float, ...]
    rows: tuple[int, ...]
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


class Finished:
    """The best finished translations of every sentence, best first, at most ``beam`` each."""

    def __init__(self, sentences: int, beam: int, device: torch.device) -> None:
        self.scores = torch.full((sentences, beam), float("-inf"), device=device)  # -inf where there is none yet
        self._steps = torch.zeros(sentences, beam, dtype=torch.long, device=device)
        self._last = Links(torch.zeros_like(self._steps), torch.zeros_like(self._steps), torch.zeros_like(self.scores))

    def merge(self, live: torch.Tensor, scores: torch.Tensor, links: Links, step: int) -> None:
        """Take candidates ``(live sentences, some)`` in where they are better; those at -inf never are."""
        beam = self.scores.shape[1]
        merged, best = torch.cat([self.scores[live], scores], 1).topk(beam)
        steps = torch.full_like(links.rows, step)
        self.scores[live] = merged
        for old, new in (
            (self._steps, steps),
            (self._last.rows, links.rows),
            (self._last.tokens, links.tokens),
            (self._last.log_probs, links.log_probs),
        ):
            old[live] = torch.cat([old[live], new], 1).gather(1, best)

    def read(self, history: History) -> list[list[Hypothesis]]:
        """Follow every finished translation back to its start."""
        sentences, places = np.nonzero(np.isfinite(_numpy(self.scores)))
        pick = (sentences, places)
        ends = (_numpy(part)[pick] for part in (self._last.rows, self._last.tokens, self._last.log_probs))
        columns = history.follow(_numpy(self._steps)[pick], *ends)
        found: list[list[Hypothesis]] = [[] for _ in range(len(self.scores))]
        scores, lengths = _numpy(self.scores)[pick].tolist(), (_numpy(self._steps)[pick] + 1).tolist()
        rows, tokens, log_probs, behind = (column.tolist() for column in columns)
        for n, (sentence, score, length) in enumerate(zip(sentences.tolist(), scores, lengths, strict=True)):
            own_tokens, *others = (tuple(column[n][:length]) for column in (tokens, log_probs, rows, behind))
            found[sentence].append(Hypothesis(own_tokens, score, *others))
        return found


class History:
    """What made the rows of each batch: entry ``t`` holds the choices of step ``t``, one per row of step ``t + 1``.

    :param behind: Of the first rows; see :class:`Hypothesis`.
    """

    def __init__(self, behind: torch.Tensor) -> None:
        self.steps: list[Links] = []
        self.behind = [behind]  # of the rows of each step

    def add(self, choices: Links, behind: torch.Tensor) -> None:
        """Note the choices of a step, and how far behind the rows are that come of them."""
        self.steps.append(choices)
        self.behind.append(behind)

    def follow(
        self,
        steps: NDArray[np.int64],
        rows: NDArray[np.int64],
        tokens: NDArray[np.int64],
        log_probs: NDArray[np.float32],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
        """Trace hypotheses back from their last choices: ``(hypotheses, steps)`` each.

        Gives rows, tokens, log-probabilities, and how far behind they were.

        :param steps: The step of each last choice; what lies to the right of it in a row of the answer means nothing.
        """
        shape = (len(steps), int(steps.max(initial=-1)) + 1)
        all_rows, all_tokens = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        all_log_probs, all_behind = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        here = np.zeros_like(rows)
        for step in range(shape[1] - 1, -1, -1):
            ending, before = steps == step, steps > step
            if before.any():
                made = self.steps[step]
                source = here[before]
                all_tokens[before, step] = _numpy(made.tokens)[source]
                all_log_probs[before, step] = _numpy(made.log_probs)[source]
                here[before] = _numpy(made.rows)[source]
            all_tokens[ending, step], all_log_probs[ending, step] = tokens[ending], log_probs[ending]
            here[ending] = rows[ending]
            all_rows[:, step] = here
            present = ending | before
            all_behind[present, step] = _numpy(self.behind[step])[here[present]]
        return all_rows, all_tokens, all_log_probs, all_behind


def _numpy(tensor: torch.Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.cpu().numpy()
    return array
