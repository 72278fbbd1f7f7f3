"""How much better one system translates each sentence than another, to pick examples.

Single sentences are compared by chrF, since BLEU of a short sentence is mostly 0. Not a test: see ``significance``.
"""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics.chrf import CHRF


def sentence_gains(references: Sequence[str], before: Sequence[str], after: Sequence[str]) -> list[float]:
    """Return the chrF of ``after`` minus that of ``before`` for each sentence."""
    chrf = CHRF()
    return [
        chrf.sentence_score(new, [reference]).score - chrf.sentence_score(old, [reference]).score
        for reference, old, new in zip(references, before, after, strict=True)
    ]
