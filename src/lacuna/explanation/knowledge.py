"""What is known where a token is chosen: the margin there, how sure the model is, how near the nearest entry.

Knows nothing of what follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lacuna.decoding import plan_batches
from lacuna.models import Model, TeacherForced
from lacuna.translator import Memory, Translator
from lacuna.translator.memory import Retrieval, find_neighbors
from lacuna.translator.translator import shorten

# Neighbors that are asked for. Margins beyond say little more, and each costs another distance.
MOST_MARGIN = 64


@dataclass(frozen=True, eq=False, slots=True)
class Knowledge:
    """What is known at each token: (tokens,) each.

    :param margins: How many of the nearest entries are known before the first unknown one, as far as was looked.
    :param max_probs: The probability of the token that the model finds most probable.
    :param nearest: Squared distance of the nearest entry; infinite where there is none.
    """

    margins: NDArray[np.int64]
    max_probs: NDArray[np.float64]
    nearest: NDArray[np.float64]

    def part(self, rows: slice) -> Knowledge:
        """Return some tokens of it."""
        return Knowledge(self.margins[rows], self.max_probs[rows], self.nearest[rows])


def knowledge_of(model: Model, memories: Sequence[Memory], forced: TeacherForced, found: Retrieval) -> Knowledge:
    """Gather what is known at tokens that were read through the model and looked up in the memories.

    :param found: As many neighbors of each as the largest margin.
    """
    _, log_max_probs, _ = model.score_keys(forced.keys.numpy(), forced.predictions.numpy())
    nearest = found.neighbors.distances[:, 0].double().cpu().numpy()
    return Knowledge(known_run(memories, found), np.exp(log_max_probs.astype(np.float64)), nearest)


def known_run(memories: Sequence[Memory], found: Retrieval) -> NDArray[np.int64]:
    """Count the known entries before the first unknown one, or before the last that was found: (queries,)."""
    known = np.zeros(found.entries.shape, np.bool_)
    for number, memory in enumerate(memories):
        own = (found.memories == number) & (found.entries >= 0)
        known[own] = memory.store.known[found.entries[own]]
    return np.asarray(np.logical_and.accumulate(known, axis=1).sum(axis=1), dtype=np.int64)


def know(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[Sequence[int]],
    most_margin: int,
    *,
    batch_size: int = 32,
) -> list[Knowledge]:
    """Read finished translations through the model once more, and look every token up.

    :param targets: Tokens of each translation; of an empty one, nothing is known.
    """
    model, memories = translator.model, translator.memories
    results = [Knowledge(np.empty(0, np.int64), np.empty(0), np.empty(0))] * len(sources)
    written = [number for number, target in enumerate(targets) if len(target)]
    encoded = model.encode_sources([sources[number] for number in written])
    for batch in plan_batches([len(targets[number]) for number in written], batch_size=batch_size):
        numbers = [written[place] for place in batch]
        forced = model.teacher_force(
            [shorten(encoded[place], model.max_length) for place in batch], [targets[number] for number in numbers]
        )
        known = knowledge_of(model, memories, forced, find_neighbors(memories, forced.keys, most_margin))
        ends = np.cumsum(forced.lengths)
        for number, end, length in zip(numbers, ends.tolist(), forced.lengths, strict=True):
            results[number] = known.part(slice(end - length, end))
    return results
