"""Constrained search over scripted probabilities, against enumeration of every translation there can be."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lacuna.decoding import (
    BatchCapacity,
    BeamSettings,
    Constraints,
    Form,
    Hypothesis,
    SentenceConstraints,
    TokenBoundaries,
    decode_all,
    decode_blocks,
    search,
)
from lacuna.errors import ModelError, SettingError
from lacuna.likely_tokens import NextTokens
from lacuna.workers import WorkerPool
from unit.decoding.naive_constraints import boundaries, read
from unit.decoding.scripted import EOS, Prefixes, Scripted, all_translations

SIZE = 5
WIDE = 400
SEEDS = st.integers(0, 10_000)
FORMS = st.lists(st.integers(1, SIZE - 1), min_size=1, max_size=3).map(tuple)
TERMS = st.lists(FORMS, min_size=1, max_size=3).map(tuple)
# Few tokens, so that prefixes, overlaps and repeated terms are frequent.
SENTENCES = st.builds(
    SentenceConstraints,
    st.lists(TERMS, max_size=2).map(tuple),
    st.lists(FORMS, max_size=2).map(tuple),
    st.lists(TERMS, max_size=2).map(tuple),
)
TOKENS = st.frozensets(st.integers(1, SIZE - 1))
BOUNDARIES = st.builds(
    lambda continues, inside, closing: boundaries(SIZE, continues=continues, inside=inside, closing=closing),
    TOKENS,
    TOKENS,
    st.frozensets(st.integers(1, SIZE - 1), max_size=1),
)
PENALTIES = st.sampled_from([0.0, 1.0, 1.4])


def body(tokens: tuple[int, ...]) -> tuple[int, ...]:
    return tokens[:-1] if tokens[-1] == EOS else tokens


def ranked(scorer: Scripted, seed: int, length: int, penalty: float, constraints: Constraints) -> dict[Form, float]:
    """The score with the bonus of every translation that is allowed."""
    one = constraints.sentences[0]
    assert one is not None
    found = {}
    for tokens, total in all_translations(scorer, seed, length):
        reading = read(body(tokens), one, constraints)
        if not reading.banned and (reading.complete or not constraints.strict):
            found[tokens] = (total + reading.bonus) / len(tokens) ** penalty
    return found


@settings(max_examples=150, deadline=None)
@given(
    seed=SEEDS,
    one=SENTENCES,
    words=BOUNDARIES,
    bonus=st.sampled_from([0.0, 1.0, 4.0]),
    length=st.integers(1, 4),
    penalty=PENALTIES,
    one_sentence=st.booleans(),
)
def test_a_beam_wide_enough_finds_every_translation_in_the_order_of_probability_and_bonus(
    seed: int,
    one: SentenceConstraints,
    words: TokenBoundaries,
    bonus: float,
    length: int,
    penalty: float,
    one_sentence: bool,
) -> None:
    scorer, constraints = Scripted(SIZE), Constraints([one], words, bonus, one_sentence=one_sentence)
    truth = ranked(scorer, seed, length, penalty, constraints)
    [found] = search(scorer, [[seed]], BeamSettings(WIDE, penalty, max_new_tokens=length), constraints=constraints)
    assert {hypothesis.tokens for hypothesis in found} == set(truth)
    ranks = [truth[hypothesis.tokens] for hypothesis in found]
    assert ranks == pytest.approx(sorted(ranks, reverse=True), abs=1e-4)
    plain = dict(all_translations(scorer, seed, length))
    for hypothesis in found:
        expected = plain[hypothesis.tokens]
        assert sum(hypothesis.log_probs) == pytest.approx(expected, abs=1e-4)
        assert hypothesis.score == pytest.approx(expected / len(hypothesis.tokens) ** penalty, abs=1e-4)


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, one=SENTENCES, words=BOUNDARIES, length=st.integers(1, 4), bonus=st.sampled_from([0.0, 2.0]))
def test_strict_search_finds_every_translation_with_all_terms_unless_a_sentence_ends_before(
    seed: int, one: SentenceConstraints, words: TokenBoundaries, length: int, bonus: float
) -> None:
    scorer = Scripted(SIZE)
    constraints = Constraints([one], words, bonus, strict=True, one_sentence=False)
    truth = ranked(scorer, seed, length, 1.0, constraints)
    [found] = search(scorer, [[seed]], BeamSettings(WIDE, max_new_tokens=length), constraints=constraints)
    if truth:
        assert {hypothesis.tokens for hypothesis in found} == set(truth)
        ranks = [truth[hypothesis.tokens] for hypothesis in found]
        assert ranks == pytest.approx(sorted(ranks, reverse=True), abs=1e-4)
    else:
        # The best of those that are allowed but for the terms that are missing.
        free = ranked(scorer, seed, length, 1.0, replace(constraints, strict=False))
        [only] = found
        assert free[only.tokens] == pytest.approx(max(free.values()), abs=1e-4)


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, one=SENTENCES, words=BOUNDARIES, length=st.integers(1, 5), beam=st.integers(1, 3))
def test_a_narrow_beam_keeps_the_rules(
    seed: int, one: SentenceConstraints, words: TokenBoundaries, length: int, beam: int
) -> None:
    scorer = Scripted(SIZE, eos_bonus=1.0)
    for strict in (False, True):
        constraints = Constraints([one], words, 1.0, strict=strict)
        try:
            [found] = search(scorer, [[seed]], BeamSettings(beam, max_new_tokens=length), constraints=constraints)
        except ModelError:
            assert {(token,) for token in range(1, SIZE)} <= set(one.banned)
            continue
        assert 1 <= len(found) <= beam
        readings = [read(body(hypothesis.tokens), one, constraints) for hypothesis in found]
        assert not any(reading.banned for reading in readings)
        if strict and len(found) > 1:
            assert all(reading.complete for reading in readings)
        scores = [
            h.score + reading.bonus / len(h.tokens) for h, reading in zip(found, readings, strict=True)
        ]
        assert scores == pytest.approx(sorted(scores, reverse=True), abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    seeds=st.lists(SEEDS, min_size=1, max_size=7),
    beam=st.integers(1, 4),
    capacity=st.builds(BatchCapacity, st.integers(1, 5)),
    joins=st.booleans(),
    strict=st.booleans(),
    data=st.data(),
)
def test_it_does_not_matter_who_else_is_searched(
    seeds: list[int], beam: int, capacity: BatchCapacity, joins: bool, strict: bool, data: st.DataObject
) -> None:
    scorer, chosen = Scripted(12, joins=joins, eos_bonus=0.5), BeamSettings(beam, max_new_tokens=8)
    sources = [[seed] * (1 + seed % 7) for seed in seeds]
    each = data.draw(st.lists(st.none() | SENTENCES, min_size=len(seeds), max_size=len(seeds)))
    words = boundaries(12, continues=(2, 5, 6), inside=(1, 2, 7), closing=(8,))
    constraints = Constraints(each, words, 1.5, strict=strict)
    found = search(scorer, sources, chosen, capacity=capacity, constraints=constraints)
    for source, one, hypotheses in zip(sources, each, found, strict=True):
        [alone] = search(scorer, [source], chosen, constraints=replace(constraints, sentences=[one]))
        assert hypotheses == alone
        if one is None:
            assert hypotheses == search(scorer, [source], chosen)[0]
    blocks = [2, 3, len(sources)]
    groups = decode_blocks(scorer, sources, chosen, blocks, capacity, constraints=constraints, pool=WorkerPool(2))
    assert [hypotheses for group in groups for hypotheses in group] == found
    assert decode_all(scorer, sources, chosen, batch_size=3, constraints=constraints) == found
