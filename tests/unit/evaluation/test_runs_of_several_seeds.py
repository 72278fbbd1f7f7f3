"""Comparison of systems with several runs, checked with sacreBLEU on every bootstrap sample."""

import json
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from lacuna.evaluation import RunScore, RunsDifference, compare_runs, compare_scored, evaluate_systems, score_run

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


def differences_by_hand(one: list[list[str]], other: list[list[str]], samples: int, seed: int) -> list[float]:
    """Score every run on every drawn test set."""
    rng, differences = np.random.default_rng(seed), []
    for _ in range(samples):
        drawn = rng.choice(len(REFERENCES), size=len(REFERENCES), replace=True)
        differences.append(mean_bleu(one, drawn) - mean_bleu(other, drawn))
    return differences


def mean_bleu(runs: list[list[str]], drawn: Sequence[int]) -> float:
    references = [REFERENCES[n] for n in drawn]
    return fmean(BLEU().corpus_score([run[n] for n in drawn], [references]).score for run in runs)


def test_shares_and_intervals_are_those_of_the_drawn_test_sets() -> None:
    found = compare_runs(REFERENCES, {"good": GOOD, "poor": POOR}, samples=60, seed=5)
    by_hand = differences_by_hand(POOR, GOOD, 60, 5)
    everything = range(len(REFERENCES))
    difference = found["poor"]["good"]
    assert difference.bleu == pytest.approx(mean_bleu(POOR, everything) - mean_bleu(GOOD, everything), abs=1e-4)
    assert difference.at_least == pytest.approx(np.mean(np.array(by_hand) >= 0))
    # BLEU of the bootstrap is computed in single precision.
    assert (difference.low, difference.high) == pytest.approx(np.percentile(by_hand, [2.5, 97.5]), abs=1e-4)
    opposite = found["good"]["poor"]
    assert (opposite.low, opposite.bleu, opposite.high) == (-difference.high, -difference.bleu, -difference.low)
    assert found["good"]["good"] == RunsDifference(0.0, 0.0, 0.0, 1.0)


def test_repeating_a_run_makes_nothing_surer() -> None:
    once = compare_runs(REFERENCES, {"good": GOOD[:1], "poor": POOR[1:]}, samples=200)
    thrice = compare_runs(REFERENCES, {"good": GOOD[:1] * 3, "poor": POOR[1:] * 3}, samples=200)
    one, three = once["poor"]["good"], thrice["poor"]["good"]
    assert (one.low, one.high, one.at_least) == pytest.approx((three.low, three.high, three.at_least))


def test_runs_scored_one_by_one_and_saved_compare_as_systems_do() -> None:
    saved = [json.dumps(score_run(REFERENCES, lines).as_json()) for lines in (GOOD[0], POOR[0], GOOD[0])]
    assert not any(word in text for text in saved for word in ("garden", "river"))
    first, *others = (RunScore.from_json(json.loads(text)) for text in saved)
    expected = evaluate_systems(REFERENCES, {"good": GOOD[0], "poor": POOR[0], "same": GOOD[0]})
    found = [first.against(None, "good"), others[0].against(first, "poor"), others[1].against(first, "same")]
    for one, other in zip(found, expected, strict=True):
        for part, value in other.as_json().items():
            assert one.as_json()[part] == (pytest.approx(value, abs=2e-3) if isinstance(value, float) else value), part
    runs = {"good": [first, others[1]], "poor": [others[0]]}
    by_texts = compare_runs(REFERENCES, {"good": [GOOD[0], GOOD[0]], "poor": [POOR[0]]})
    for name, row in compare_scored(runs).items():
        for other, difference in row.items():
            for part in ("bleu", "low", "high", "at_least"):
                assert getattr(difference, part) == pytest.approx(getattr(by_texts[name][other], part), abs=2e-3)
