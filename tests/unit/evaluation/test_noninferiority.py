"""Non-inferiority, compared with sacreBLEU on every bootstrap sample and on made-up scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from lacuna.errors import SettingError
from lacuna.evaluation.noninferiority import NonInferiority, measure_drops, sample_chrf, upper_bound

WORDS = ["a", "an", "the", "dog", "dogs", "cat", "sat", "on", "mat", "é", "中文", "x"]
SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=2, max_size=6)
REFERENCES = [
    f"{noun} number {number} stands in the {place} garden" for number in range(40) for noun, place in [("tree", "old")]
]


@settings(deadline=None, max_examples=60)
@given(SENTENCES, st.randoms(use_true_random=False))
def test_chrf_and_its_samples_are_those_of_sacrebleu(references: list[str], random: object) -> None:
    lines = [" ".join(random.sample(WORDS, random.randint(0, 8))) for _ in references]  # type: ignore[attr-defined]
    scored = sample_chrf(references, lines, samples=5, seed=3)
    assert scored.value == pytest.approx(CHRF().corpus_score(lines, [references]).score)
    rng = np.random.default_rng(3)
    for sample in scored.samples:
        drawn = rng.choice(len(lines), size=len(lines), replace=True)
        score = CHRF().corpus_score([lines[n] for n in drawn], [[references[n] for n in drawn]]).score
        assert sample == pytest.approx(score)


def test_the_bound_is_the_smallest_that_is_not_exceeded_often_enough() -> None:
    samples = np.random.default_rng(0).permutation(np.arange(1.0, 1001.0))
    assert upper_bound(samples, 0.05) == 950  # 950 of 1000 samples are 950 or less
    assert upper_bound(samples, 0.0125) == 988
    assert upper_bound(np.array([3.0]), 0.05) == 3
    assert upper_bound(np.array([1.0, np.inf]), 0.05) == np.inf


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=50), st.sampled_from([0.05, 0.0125, 0.5]))
def test_the_bound_against_a_count(samples: list[float], level: float) -> None:
    enough = [bound for bound in samples if sum(each <= bound for each in samples) >= (1 - level) * len(samples) - 1e-9]
    assert upper_bound(np.array(samples), level) == min(enough)


def test_the_same_translations_pass_any_margin() -> None:
    for drop in measure_drops(REFERENCES, REFERENCES, REFERENCES, max_drop=1e-6):
        assert (drop.baseline, drop.score, drop.lowest) == (pytest.approx(100), pytest.approx(100), 0)
        assert drop.holds


def test_a_drop_is_judged_by_its_bound_and_not_by_its_significance() -> None:
    """With 10 sentences, one of them broken, the decline is not significant, and yet a small drop is not shown."""
    few, broken = REFERENCES[:10], [*REFERENCES[:9], "tree"]
    bleu, chrf = measure_drops(few, few, broken, max_drop=1.0)
    assert bleu.score < bleu.baseline
    assert not bleu.holds
    assert not chrf.holds
    wide, _ = measure_drops(few, few, broken, max_drop=60.0)
    assert wide.holds
    assert wide.lowest == bleu.lowest


def test_more_sentences_of_the_same_kind_pass_a_smaller_margin() -> None:
    broken = ["tree" if number % 10 == 0 else text for number, text in enumerate(REFERENCES)]
    few = measure_drops(REFERENCES, REFERENCES, broken, max_drop=1.0)
    many = measure_drops(REFERENCES * 9, REFERENCES * 9, broken * 9, max_drop=1.0)
    for one, other in zip(few, many, strict=True):
        assert one.lowest < other.lowest < other.score - other.baseline < 0


def test_a_bound_at_the_margin_does_not_pass() -> None:
    assert not NonInferiority("BLEU", 30.0, 29.5, -1.0, 1.0).holds
    assert NonInferiority("BLEU", 30.0, 29.5, -0.999, 1.0).holds


@pytest.mark.parametrize("max_drop", [0.0, -1.0, float("nan"), 101.0])
def test_a_margin_that_is_none_is_refused(max_drop: float) -> None:
    with pytest.raises(SettingError, match="max_drop: got"):
        measure_drops(["a"], ["a"], ["a"], max_drop=max_drop)
