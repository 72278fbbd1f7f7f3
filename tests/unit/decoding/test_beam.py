"""Beam search over scripted probabilities, against enumeration of every translation there can be."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lacuna.decoding import BatchCapacity, BeamSettings, Hypothesis, Scorer, search
from lacuna.errors import ModelError, SettingError
from lacuna.likely_tokens import NextTokens
from lacuna.models.top_tokens import best_tokens
from unit.decoding.scripted import EOS, Prefixes, Scripted, all_translations

SEEDS = st.integers(0, 10_000)
PENALTIES = st.sampled_from([-1.0, 0.0, 0.6, 1.0, 1.4])


def tokens_of(found: Sequence[Sequence[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, size=st.integers(2, 4), length=st.integers(1, 3), penalty=PENALTIES, ban=st.booleans())
def test_a_beam_wide_enough_finds_every_translation_in_order(
    seed: int, size: int, length: int, penalty: float, ban: bool
) -> None:
    scorer = Scripted(size, banned_ids=(1,) if ban else ())
    truth = {tokens: total / len(tokens) ** penalty for tokens, total in all_translations(scorer, seed, length)}
    [found] = search(scorer, [[seed]], BeamSettings(200, penalty, max_new_tokens=length))
    assert {hypothesis.tokens for hypothesis in found} == set(truth)
    assert [hypothesis.score for hypothesis in found] == pytest.approx(
        [truth[hypothesis.tokens] for hypothesis in found], abs=1e-5
    )
    assert [hypothesis.score for hypothesis in found] == sorted((h.score for h in found), reverse=True)


@settings(max_examples=30, deadline=None)
@given(seeds=st.lists(SEEDS, min_size=1, max_size=6), beam=st.integers(1, 6), penalty=PENALTIES)
def test_a_batch_finds_what_single_sentences_find(seeds: list[int], beam: int, penalty: float) -> None:
    scorer, chosen = Scripted(9, banned_ids=(3,)), BeamSettings(beam, penalty, max_new_tokens=12)
    together = search(scorer, [[seed] for seed in seeds], chosen)
    alone = [search(scorer, [[seed]], chosen)[0] for seed in seeds]
    assert tokens_of(together) == tokens_of(alone)
    assert [[h.log_probs for h in each] for each in together] == [[h.log_probs for h in each] for each in alone]


@settings(max_examples=40, deadline=None)
@given(
    seeds=st.lists(SEEDS, min_size=1, max_size=9),
    beam=st.integers(1, 6),
    penalty=PENALTIES,
    capacity=st.builds(BatchCapacity, st.integers(1, 5), st.none() | st.integers(1, 30)),
    joins=st.booleans(),
    size=st.integers(2, 9),
)
def test_it_does_not_matter_who_else_is_searched_or_since_when(
    seeds: list[int], beam: int, penalty: float, capacity: BatchCapacity, joins: bool, size: int
) -> None:
    scorer, chosen = Scripted(size, joins=joins, eos_bonus=0.5), BeamSettings(beam, penalty, max_new_tokens=10)
    sources = [[seed] * (1 + seed % 7) for seed in seeds]
    ended: list[int] = []
    found = search(scorer, sources, chosen, capacity=capacity, on_finished=ended.append)
    assert found == [search(scorer, [source], chosen)[0] for source in sources]
    assert sum(ended) == len(seeds)


@settings(max_examples=30, deadline=None)
@given(seeds=st.lists(SEEDS, min_size=1, max_size=5), beam=st.integers(1, 5))
def test_each_token_has_the_probability_it_was_chosen_by(seeds: list[int], beam: int) -> None:
    scorer = Scripted(7, eos_bonus=1.0)
    found = search(scorer, [[seed] for seed in seeds], BeamSettings(beam, max_new_tokens=10))
    for seed, hypotheses in zip(seeds, found, strict=True):
        for hypothesis in hypotheses:
            expected = [
                float(scorer.log_probs(seed, hypothesis.tokens[:n])[token]) for n, token in enumerate(hypothesis.tokens)
            ]
            assert list(hypothesis.log_probs) == expected
            assert hypothesis.score == pytest.approx(sum(expected) / len(expected), abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_beam_one_is_greedy(seed: int) -> None:
    scorer = Scripted(6, banned_ids=(2,), eos_bonus=1.0)
    [[found]] = search(scorer, [[seed]], BeamSettings(1, max_new_tokens=8))
    tokens: list[int] = []
    while len(tokens) < 8 and EOS not in tokens:
        scores = scorer.log_probs(seed, tokens)
        scores[2] = -math.inf
        tokens.append(int(scores.argmax()))
    assert found.tokens == tuple(tokens)


class Counting(Scripted):
    """Notes how many rows each step has."""

    rows: list[int]

    def score(
        self,
        state: Prefixes,
        count: int,
        score_gap: torch.Tensor | None = None,
        also: NDArray[np.int64] | None = None,
    ) -> NextTokens:
        self.rows.append(len(state.tokens))
        return super().score(state, count)


def counting(joins: bool) -> Counting:
    scorer = Counting(8, eos_bonus=3.0, joins=joins)
    object.__setattr__(scorer, "rows", [])
    return scorer


def test_finished_sentences_leave_the_batch() -> None:
    scorer = counting(joins=True)
    found = search(scorer, [[seed] for seed in range(12)], BeamSettings(3, max_new_tokens=40))
    assert scorer.rows[:2] == [12, 36]
    assert scorer.rows[1:] == sorted(scorer.rows[1:], reverse=True)
    assert scorer.rows[-1] < 36
    assert all(len(hypotheses) == 3 for hypotheses in found)


def test_others_take_the_places_of_finished_sentences() -> None:
    refilled, emptied = counting(joins=True), counting(joins=False)
    for scorer in (refilled, emptied):
        search(scorer, [[seed] for seed in range(40)], BeamSettings(3, max_new_tokens=40), capacity=BatchCapacity(8))
        assert max(scorer.rows) == 8 * 3
    assert sum(refilled.rows) == sum(emptied.rows)
    assert len(refilled.rows) < len(emptied.rows)


def test_no_more_source_tokens_at_once_than_there_is_capacity_for() -> None:
    scorer = counting(joins=True)
    search(
        scorer,
        [[seed] * 10 for seed in range(9)],
        BeamSettings(3, max_new_tokens=9),
        capacity=BatchCapacity(8, tokens=45),
    )
    assert max(scorer.rows) == 4 * 3


def test_the_same_search_twice_finds_the_same() -> None:
    scorer, sources = Scripted(30), [[seed] for seed in range(5)]
    assert search(scorer, sources, BeamSettings()) == search(scorer, sources, BeamSettings())


def test_no_source_is_no_translation() -> None:
    assert search(Scripted(), [], BeamSettings()) == []


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_translations_are_cut_off_at_each_sentences_own_length(beam: int) -> None:
    endless = Scripted(6, eos_bonus=-100.0)
    limits = BeamSettings(beam, max_new_tokens=9, max_length_factor=1.5, max_length_offset=2)
    found = search(endless, [[seed] * length for seed, length in enumerate((1, 2, 4, 30))], limits)
    assert [len(hypotheses[0].tokens) for hypotheses in found] == [3, 5, 8, 9]
    assert all(EOS not in hypothesis.tokens for hypotheses in found for hypothesis in hypotheses)


def test_a_scorer_may_allow_less_than_the_settings() -> None:
    [[found, *_]] = search(Scripted(max_new_tokens=4, eos_bonus=-100.0), [[1]], BeamSettings(2))
    assert len(found.tokens) == 4


class Watching(Scripted):
    """Notes what it is told of each row, and what is true of it."""

    told: list[tuple[float, float]]

    def score(
        self,
        state: Prefixes,
        count: int,
        score_gap: torch.Tensor | None = None,
        also: NDArray[np.int64] | None = None,
    ) -> NextTokens:
        rows = list(zip(state.seeds, state.tokens, strict=True))
        totals = [
            sum(float(self.log_probs(seed, tokens[:n])[token]) for n, token in enumerate(tokens))
            for seed, tokens in rows
        ]
        best = {seed: max(t for t, (own, _) in zip(totals, rows, strict=True) if own == seed) for seed, _ in rows}
        gaps = [0.0] * len(rows) if score_gap is None else score_gap.tolist()
        for gap, total, (seed, _) in zip(gaps, totals, rows, strict=True):
            self.told.append((gap, best[seed] - total))
        return super().score(state, count)


def test_the_scorer_is_given_the_score_gap_of_each_row() -> None:
    scorer = Watching()
    object.__setattr__(scorer, "told", [])
    results = search(scorer, [[1], [2], [3]], BeamSettings(beam=3, max_new_tokens=6))
    told, true = zip(*scorer.told, strict=True)
    assert told == pytest.approx(true, abs=1e-4)
    assert max(told) > 0
    for hypotheses in results:
        for hypothesis in hypotheses:
            assert len(hypothesis.score_gaps) == len(hypothesis.tokens)
            assert hypothesis.score_gaps[0] == 0
            assert set(hypothesis.score_gaps) <= set(told)


class Fixed(Scripted):
    """The same scores at every step."""

    scores: tuple[float, ...] = ()

    def score(
        self,
        state: Prefixes,
        count: int,
        score_gap: torch.Tensor | None = None,
        also: NDArray[np.int64] | None = None,
    ) -> NextTokens:
        return best_tokens(torch.tensor([self.scores] * len(state.tokens)), count, self.banned_ids)


def fixed(*scores: float, banned: tuple[int, ...] = ()) -> Scorer[Prefixes]:
    scorer = Fixed(len(scores), banned_ids=banned)
    object.__setattr__(scorer, "scores", scores)
    return scorer


def test_impossible_tokens_are_never_chosen_nor_turn_into_nan() -> None:
    [found] = search(
        fixed(math.log(0.25), math.log(0.75), -math.inf, -math.inf), [[1]], BeamSettings(5, max_new_tokens=3)
    )
    assert {hypothesis.tokens for hypothesis in found} == {(0,), (1, 0), (1, 1, 0), (1, 1, 1)}
    assert all(math.isfinite(value) for h in found for value in (h.score, *h.log_probs))


def test_a_search_that_can_only_end_ends() -> None:
    [[found]] = search(fixed(0.0, -math.inf, -math.inf), [[1]], BeamSettings(5))
    assert found == Hypothesis((0,), 0.0, (0.0,), (0.0,))


def test_nothing_allowed_is_an_error() -> None:
    with pytest.raises(ModelError, match="no token is allowed"):
        search(fixed(-0.7, -0.7, banned=(0, 1)), [[1]], BeamSettings(2))


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_scores_that_are_no_log_probabilities_are_an_error(wrong: float) -> None:
    with pytest.raises(ModelError, match="NaN or infinity"):
        search(fixed(-1.0, wrong, -1.0), [[1]], BeamSettings(2))


@pytest.mark.parametrize(
    "wrong",
    [
        {"beam": 0},
        {"max_new_tokens": 0},
        {"length_penalty": math.nan},
        {"length_penalty": math.inf},
        {"max_length_factor": -0.1},
        {"max_length_factor": math.nan},
        {"max_length_offset": 0},
    ],
)
def test_settings_out_of_range_are_an_error(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        BeamSettings(**wrong)  # type: ignore[arg-type]
