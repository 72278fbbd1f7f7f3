"""The bootstrap, compared with slow loops, hand-worked numbers and the test of sacreBLEU."""

import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from lacuna.errors import SettingError
from lacuna.evaluation import bleu_of_sums, decline_p, resample_sums, significance, two_sided_p


def random_statistics(segments: int, seed: int, quality: float = 0.6) -> NDArray[np.int64]:
    """Return statistics as BLEU could find them: fewer n-grams and fewer matches with each order."""
    rng = np.random.default_rng(seed)
    length = rng.integers(0, 12, segments)
    reference = np.maximum(length + rng.integers(-2, 3, segments), 0)
    totals = np.maximum(length[:, None] - np.arange(4), 0)
    correct = np.minimum.accumulate(rng.binomial(totals, quality), axis=1)
    return np.column_stack([length, reference, correct, totals])


def sacrebleu_score(row: Sequence[int]) -> float:
    numbers = [int(number) for number in row]
    return BLEU.compute_bleu(numbers[2:6], numbers[6:], numbers[0], numbers[1], smooth_method="exp").score


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 30), st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
def test_the_vectorized_bootstrap_is_the_loop(segments: int, seed: int, quality: float) -> None:
    statistics = random_statistics(segments, seed, quality)
    rng = np.random.default_rng(seed)
    looped = []
    for _ in range(20):
        sums = [0] * 10
        for segment in rng.choice(segments, size=segments, replace=True):
            sums = [one + int(other) for one, other in zip(sums, statistics[segment], strict=True)]
        looped.append(sacrebleu_score(sums))
    assert bleu_of_sums(resample_sums(statistics, 20, seed)) == pytest.approx(looped, rel=1e-6)


def test_blocks_draw_what_one_call_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    statistics = random_statistics(13, seed=3)
    whole = resample_sums(statistics, samples=50, seed=7)
    monkeypatch.setattr(significance, "_CELLS", 40)
    assert np.array_equal(resample_sums(statistics, samples=50, seed=7), whole)


def test_systems_side_by_side_are_drawn_alike() -> None:
    statistics = random_statistics(9, seed=4)
    left, right = np.hsplit(resample_sums(np.hstack([statistics, statistics]), 30, 1), 2)
    assert np.array_equal(left, right)


# system length, reference length, matches 1-4, n-grams 1-4
@pytest.mark.parametrize(
    ("sums", "score"),
    [
        ([8, 8, 8, 7, 6, 5, 8, 7, 6, 5], 100.0),
        # precisions 4/4, 3/3, 2/2, 1/1, but half the length: exp(1 - 8/4)
        ([4, 8, 4, 3, 2, 1, 4, 3, 2, 1], 100 * np.exp(-1)),
        # 3/4 * 2/3 * 1/2 * (1/2)/1 = 1/8, and no penalty
        ([4, 4, 3, 2, 1, 0, 4, 3, 2, 1], 100 * 0.125**0.25),
        # 2/4 * (1/2)/3 * (1/4)/2 * (1/8)/1: the pretended match is halved again at each order
        ([4, 4, 2, 0, 0, 0, 4, 3, 2, 1], 100 * (1 / 2 * 1 / 6 * 1 / 8 * 1 / 8) ** 0.25),
        ([3, 3, 3, 2, 1, 0, 3, 2, 1, 0], 0.0),  # no 4-gram to match
        ([4, 4, 0, 0, 0, 0, 4, 3, 2, 1], 0.0),
        ([0, 4, 0, 0, 0, 0, 0, 0, 0, 0], 0.0),
    ],
)
def test_bleu_worked_by_hand(sums: list[int], score: float) -> None:
    assert bleu_of_sums(np.array([sums]))[0] == pytest.approx(score, rel=1e-6)
    assert sacrebleu_score(sums) == pytest.approx(score)


def test_the_two_sided_p_by_hand() -> None:
    baseline = np.array([10.0, 10.0, 10.0, 10.0])
    system = np.array([11.0, 9.0, 10.0, 14.0])
    # |differences| 1 1 0 4, less their mean 1.5: -0.5 -0.5 -1.5 2.5; one of them is beyond 2
    assert two_sided_p(baseline, system, 2.0) == 2 / 5
    assert two_sided_p(baseline, system, -2.0) == 2 / 5
    assert two_sided_p(baseline, system, 3.0) == 1 / 5


def test_a_system_does_not_differ_from_itself() -> None:
    scores = np.array([10.0, 11.0])
    assert two_sided_p(scores, scores, 0.0) == 1.0
    assert decline_p(scores, scores) == 1.0


def test_the_decline_p_is_the_share_of_samples_without_decline() -> None:
    baseline = np.array([10.0, 10.0, 10.0, 10.0])
    assert decline_p(baseline, np.array([9.0, 9.0, 10.0, 9.0])) == 0.25
    assert decline_p(baseline, np.array([9.0, 9.0, 9.0, 9.0])) == 0.0


@pytest.mark.parametrize(("samples", "seed"), [(0, 1), (-5, 1), (10, -1)])
def test_draws_of_nothing_are_refused(samples: int, seed: int) -> None:
    with pytest.raises(SettingError, match="allowed is"):
        resample_sums(random_statistics(3, seed=1), samples, seed)


def test_three_systems_of_2000_segments_take_less_than_5_seconds() -> None:
    statistics = np.hstack([random_statistics(2000, seed) for seed in range(3)])
    started = time.perf_counter()
    for part in np.hsplit(resample_sums(statistics, 1000), 3):
        bleu_of_sums(part)
    assert time.perf_counter() - started < 5
