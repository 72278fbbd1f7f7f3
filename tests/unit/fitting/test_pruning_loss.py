"""The loss by pruning: by hand, against loops, and against memories that were really pruned."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lacuna.combiners import Vanilla
from lacuna.evaluation.significance import SAMPLES, SEED
from lacuna.fitting import DevSet, measure_loss
from lacuna.fitting.pruning_loss import LossTest, find_neighbors_of
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.progress import SILENT
from lacuna.pruning import Plac, prune_store
from lacuna.pruning.pruned_store import StoreEntries
from lacuna.records import SentencePair

Numbers = NDArray[np.float64]


def keep_of(memory: Memory, share: float = 0.5) -> NDArray[np.bool_]:
    table = StoreEntries(memory.store, SILENT)
    ratio = share * np.count_nonzero(table.known) / memory.entries
    return Plac(0).prune(table, ratio=ratio, seed=3).keep


def bound_by_loops(sentences: list[int], gains: list[float], losses: list[float], level: float) -> float:
    """Resample whole sentences, and find the smallest share that is kept in enough of the samples."""
    names = sorted(set(sentences))
    rng, shares = np.random.default_rng(SEED), []
    for _ in range(SAMPLES):
        drawn = [names[place] for place in rng.choice(len(names), size=len(names), replace=True)]
        gain = loss = 0.0
        for name in drawn:
            gain += sum(each for place, each in zip(sentences, gains, strict=True) if place == name)
            loss += sum(each for place, each in zip(sentences, losses, strict=True) if place == name)
        shares.append(loss / gain if gain > 0 else math.inf)
    return sorted(shares)[math.ceil((1 - level) * SAMPLES - 1e-9) - 1]


def test_the_share_by_hand() -> None:
    """Gains 1 + 2 + 1 = 4 and losses 0.1 + 0.1 + 0 = 0.2: 5 %."""
    alone, whole = np.array([-3.0, -3.0, -2.0]), np.array([-2.0, -1.0, -1.0])
    found = LossTest(np.array([0, 0, 1]), alone, whole).measure(np.array([-2.1, -1.1, -1.0]))
    assert found.gain == pytest.approx(4 / 3)
    assert found.loss == pytest.approx(0.2 / 3)
    assert found.share == pytest.approx(0.05)
    # A sample has sentence 0 twice (0.4 of 6), both (0.2 of 4) or sentence 1 twice (0 of 2): 1/15 in a quarter of them.
    assert (found.low, found.high, found.bound) == (0, pytest.approx(1 / 15), pytest.approx(1 / 15))
    assert found.is_within(0.067)
    assert not found.is_within(0.066)  # more than the share, and still not certain


@settings(deadline=None, max_examples=10)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 10_000), st.sampled_from([0.05, 0.0125]))
def test_the_bound_against_loops(sentences: int, tokens: int, seed: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    places = 3 * np.repeat(np.arange(sentences), tokens)  # numbers of sentences without tokens are no sentences
    gains, losses = rng.normal(0.5, 1, len(places)), rng.normal(0.05, 0.1, len(places))
    alone = rng.normal(-3, 1, len(places))
    found = LossTest(places, alone, alone + gains, level).measure(alone + gains - losses)
    bound = bound_by_loops(places.tolist(), gains.tolist(), losses.tolist(), level)
    assert (math.inf if found.bound is None else found.bound) == pytest.approx(bound, rel=1e-6, abs=1e-9)


def test_a_memory_that_adds_nothing_keeps_no_promise() -> None:
    alone = np.full(8, -1.0)
    test = LossTest(np.arange(8), alone, alone - 0.1)
    assert not test.gains()
    found = test.measure(alone)  # a pruned memory that is better than the whole one
    assert (found.share, found.bound) == (None, None)
    assert not found.is_within(0.99)


def test_a_gain_that_is_not_certain_keeps_no_promise() -> None:
    """The sum is above 0, but only by one of ten sentences, which every third sample does not have."""
    alone = np.zeros(10)
    whole = np.array([2.0, *[-0.1] * 9])
    test = LossTest(np.arange(10), alone, whole)
    assert test.gain > 0
    assert not test.gains()
    assert test.measure(whole).bound is None
    assert test.measure(whole).share == 0


@settings(deadline=None)
@given(st.integers(20, 60), st.integers(0, 10_000))
def test_more_of_the_same_text_gives_a_smaller_bound(sentences: int, seed: int) -> None:
    """Four times the same sentences: the same share, and half the distance from it to its bound, but for chance."""
    rng = np.random.default_rng(seed)
    gains, losses = rng.normal(1, 0.5, sentences), rng.exponential(0.05, sentences)

    def measure(times: int) -> tuple[float, float]:
        places = np.arange(times * sentences)
        found = LossTest(places, np.zeros(len(places)), np.tile(gains, times)).measure(np.tile(gains - losses, times))
        assert found.bound is not None
        assert found.share is not None
        return found.share, found.bound - found.share

    (share, width), (same, less) = measure(1), measure(4)
    assert share == pytest.approx(same)
    assert 0.3 * width < less < 0.7 * width


def test_measuring_two_memories_equals_leaving_neighbors_out(
    bundled: Model, memory: Memory, pairs: list[SentencePair], tmp_path: Path
) -> None:
    keep, combiner, dev = keep_of(memory), Vanilla(k=2, knn_weight=0.6, temperature=5.0), DevSet(pairs[:6])
    tokens = find_neighbors_of(bundled, memory, dev, 64)
    left_out = LossTest(tokens.sentences, tokens.alone, tokens.log_p(combiner)).measure(tokens.log_p(combiner, keep))
    assert left_out.loss != 0
    masked = measure_loss(bundled, memory, memory.keeping(keep), dev, combiner)
    ratio = 1 - np.count_nonzero(keep) / memory.entries
    prune_store(memory.store, Plac(0), tmp_path / "small", ratio=ratio, seed=3)
    copied = measure_loss(bundled, memory, open_memory(tmp_path / "small"), pairs[:6], combiner)
    for found in (masked, copied):
        assert found.gain == pytest.approx(left_out.gain, rel=1e-4)
        assert found.loss == pytest.approx(left_out.loss, rel=1e-3, abs=1e-6)


def test_the_gain_is_over_the_model_alone(bundled: Model, memory: Memory, pairs: list[SentencePair]) -> None:
    """With all entries kept nothing is lost, and with none of them everything is."""
    combiner = Vanilla(k=4, knn_weight=0.5, temperature=10.0)
    tokens = find_neighbors_of(bundled, memory, DevSet(pairs[:6]), 64)
    test = LossTest(tokens.sentences, tokens.alone, tokens.log_p(combiner))
    everything, nothing = np.ones(memory.entries, np.bool_), np.zeros(memory.entries, np.bool_)
    assert test.measure(tokens.log_p(combiner, everything)).loss == 0
    lost = test.measure(tokens.log_p(combiner, nothing))
    assert lost.loss == pytest.approx(lost.gain)
