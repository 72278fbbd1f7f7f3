"""Measure at each token of a translation: the knowledge margin, the model's probability and the nearest distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lacuna.decoding import plan_batches
from lacuna.margin import count_known
from lacuna.memory import Memory
from lacuna.models import Model, TeacherForced
from lacuna.translator.retrieval import Retrieval, find_neighbors

# Number of neighbors that are searched. Larger margins add little information, and each costs another distance.
MAX_MARGIN = 64


@dataclass(frozen=True, eq=False, slots=True)
class Knowledge:
    """Measurements at each token: (tokens,) each.

    :param margins: The knowledge margin, up to the number of neighbors searched.
    :param max_probs: The probability of the model's prediction.
    :param nearest: Squared L2 distance of the nearest entry; infinite if there is none.
    """

    margins: NDArray[np.int64]
    max_probs: NDArray[np.float64]
    nearest: NDArray[np.float64]

    def part(self, rows: slice) -> Knowledge:
        """Select tokens."""
        return Knowledge(self.margins[rows], self.max_probs[rows], self.nearest[rows])


def knowledge_of(model: Model, memories: Sequence[Memory], forced: TeacherForced, retrieval: Retrieval) -> Knowledge:
    """Compute the measurements from a teacher-forced pass and its retrieval.

    :param retrieval: As many neighbors of each token as the largest margin.
    """
    _, log_max_probs, _ = model.score_keys(forced.keys.numpy(), forced.predictions.numpy())
    nearest = retrieval.neighbors.distances[:, 0].double().cpu().numpy()
    return Knowledge(known_margins(memories, retrieval), np.exp(log_max_probs.astype(np.float64)), nearest)


def known_margins(memories: Sequence[Memory], retrieval: Retrieval) -> NDArray[np.int64]:
    """Return the knowledge margin of each query, at most the number of neighbors that were found: (queries,)."""
    known = retrieval.columns(memories, "known")["known"].astype(np.bool_)
    return count_known(retrieval.neighbors.distances.cpu().numpy(), known)


def know(
    model: Model,
    memories: Sequence[Memory],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    most_margin: int,
    *,
    batch_size: int = 32,
) -> list[Knowledge]:
    """Run the model on finished translations with teacher forcing, and search the memories for every token.

    :param targets: Tokens of each translation; an empty one has no measurements.
    """
    results = [Knowledge(np.empty(0, np.int64), np.empty(0), np.empty(0))] * len(sources)
    written = [number for number, target in enumerate(targets) if len(target)]
    for batch in plan_batches([len(targets[number]) for number in written], batch_size=batch_size):
        numbers = [written[index] for index in batch]
        forced = model.teacher_force([sources[number] for number in numbers], [targets[number] for number in numbers])
        known = knowledge_of(model, memories, forced, find_neighbors(memories, forced.keys, most_margin))
        ends = np.cumsum(forced.lengths)
        for number, end, length in zip(numbers, ends.tolist(), forced.lengths, strict=True):
            results[number] = known.part(slice(end - length, end))
    return results
