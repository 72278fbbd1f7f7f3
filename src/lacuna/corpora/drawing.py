"""Drawing some sentence pairs at random. Knows nothing of files, nor of what they are drawn for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lacuna.records import SentencePair


def draw_pairs(pairs: Sequence[SentencePair], most: int, seed: int) -> list[SentencePair]:
    """Draw at most so many pairs, in their order; the same seed draws the same places."""
    chosen = np.random.default_rng(seed).permutation(len(pairs))[:most]
    return [pairs[number] for number in sorted(chosen)]
