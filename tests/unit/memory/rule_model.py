"""A model whose keys depend on source and target prefix only, so that edits and a new build give the same keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xxhash

from lacuna.records import Origin, SentencePair
from unit.datastore.numpy_model import VOCABULARY, NumpyModel, Rows

WORDS = ("red", "green", "blue", "dog", "cat", "runs", "sleeps", "here")


class RuleModel(NumpyModel):
    """Keys are small whole numbers, so that many distances are equal; about half of the entries are known."""

    def teacher_force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Rows:
        rows = [
            (xxhash.xxh3_64_intdigest(repr((source, target[:place])).encode()), target[place])
            for source, target in zip(sources, targets, strict=True)
            for place in range(len(target))
        ]
        keys = np.array([[digest >> shift & 3 for shift in range(0, 8, 2)] for digest, _ in rows], dtype=np.float32)
        gold = np.array([token for _, token in rows])
        known = np.array([digest >> 20 & 1 for digest, _ in rows], dtype=np.bool_)
        numbers = np.ones(len(rows), np.float32)
        return Rows(keys, np.where(known, gold, (gold + 1) % VOCABULARY), -numbers, numbers)


def pair(rng: np.random.Generator, tag: str | None = None, own: str | None = None) -> SentencePair:
    """Return a pair of random words."""
    source, target = (" ".join(rng.choice(WORDS, int(rng.integers(1, 5)))) for _ in range(2))
    return SentencePair(source, target, Origin("random", str(rng.integers(1000)), tag), own)
