"""Comparison of systems with several runs, checked with sacreBLEU on every bootstrap sample."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from lacuna.evaluation import share_at_least

REFERENCES = [
    "the small dog sleeps in the garden",
    "a red house stands by the old river",
    "we read the long book in one night",
    "the train leaves at nine in the morning",
    "nobody saw the cat on the roof today",
]
GOOD = [
    ["the small dog sleeps in the yard", "a red house stands by a river", *REFERENCES[2:]],
    ["the dog sleeps in the garden", *REFERENCES[1:]],
]
POOR = [
    ["the small dog sleeps in the garden", "a red home is by the old river", "we read it in one night", "go", "a cat"],
    ["one small dog slept in a garden", *REFERENCES[1:3], "the train goes at nine", "the cat on the roof today"],
]


def share_by_hand(one: list[list[str]], other: list[list[str]], samples: int, seed: int) -> float:
    """Score every drawn test set as a whole, all runs of a system one after the other."""
    rng, hits = np.random.default_rng(seed), 0
    for _ in range(samples):
        drawn = rng.choice(len(REFERENCES), size=len(REFERENCES), replace=True)
        references = [REFERENCES[n] for n in drawn]
        scores = [
            BLEU().corpus_score([run[n] for run in runs for n in drawn], [references * len(runs)]).score
            for runs in (one, other)
        ]
        hits += scores[0] >= scores[1]
    return hits / samples


def test_it_is_the_share_of_drawn_test_sets() -> None:
    shares = share_at_least(REFERENCES, {"good": GOOD, "poor": POOR}, samples=60, seed=5)
    assert shares["poor"]["good"] == pytest.approx(share_by_hand(POOR, GOOD, 60, 5))
    assert shares["good"]["poor"] == pytest.approx(share_by_hand(GOOD, POOR, 60, 5))
    assert shares["good"]["good"] == 1.0


def test_repeating_a_run_makes_nothing_surer() -> None:
    once = share_at_least(REFERENCES, {"good": GOOD[:1], "poor": POOR[1:]}, samples=200)
    thrice = share_at_least(REFERENCES, {"good": GOOD[:1] * 3, "poor": POOR[1:] * 3}, samples=200)
    assert once == thrice
