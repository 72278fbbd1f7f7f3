"""Units belong together as counts by hand and a naive search say."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.glossaries.association import Incidence, log_likelihood_ratio, mutual_best

Sentences = list[set[int]]


def incidence(sentences: Sentences, lengths: list[int]) -> Incidence:
    rows = [(number, unit) for number, units in enumerate(sentences) for unit in units]
    columns = np.array(rows, np.int64).reshape(-1, 2)[::-1]  # in any order
    return Incidence(columns[:, 0], columns[:, 1], np.array(lengths, np.int64), len(sentences))


def naive_ratio(ours: list[bool], theirs: list[bool]) -> float:
    """Sum over the four cells of the table; 0 for what is rarer together than by chance."""
    total = len(ours)
    cells = list(zip(ours, theirs, strict=True))
    ratio = 0.0
    for one in (True, False):
        for other in (True, False):
            seen = cells.count((one, other))
            if seen:
                ratio += 2 * seen * log(seen * total / (ours.count(one) * theirs.count(other)))
    return ratio if cells.count((True, True)) * total > ours.count(True) * theirs.count(True) else 0.0


def test_a_table_by_hand() -> None:
    # 4 of 8 sentences have the one, the same 4 have the other: 2 * 8 * log 2.
    [perfect, chance, never] = log_likelihood_ratio(np.array([4, 2, 0]), 4, np.array([4, 4, 4]), 8)
    assert perfect == pytest.approx(16 * log(2), abs=1e-6)
    assert (chance, never) == (0, 0)


def test_the_longer_of_equal_units_is_better() -> None:
    sources = incidence([{0, 1, 2}, {0, 1, 2}, set(), set()], [1, 1, 2])
    targets = incidence([{0, 1, 2}, {0, 1, 2}, set(), {3}], [1, 2, 1, 1])
    assert [(each.source, each.target, each.together) for each in mutual_best(sources, targets, 2)] == [(2, 1, 2)]


def test_nothing_in_common() -> None:
    assert mutual_best(incidence([{0}, set()], [1]), incidence([set(), {0}], [1]), 1) == []
    assert mutual_best(incidence([], []), incidence([], []), 1) == []


UNITS = 4
sentences = st.lists(st.tuples(*[st.sets(st.integers(0, UNITS - 1))] * 2), min_size=1, max_size=12)


@settings(max_examples=300)
@given(sentences, st.integers(1, 3))
def test_mutual_best_is_that_of_a_naive_search(pairs: list[tuple[set[int], set[int]]], least: int) -> None:
    lengths = [1, 2, 3, 4]  # no two are equal, so there is one best
    ours, theirs = [[units for units, _ in pairs], [units for _, units in pairs]]
    score: dict[tuple[int, int], float] = {}
    for one in range(UNITS):
        for other in range(UNITS):
            has = [[unit in units for units in side] for unit, side in ((one, ours), (other, theirs))]
            together = sum(a and b for a, b in zip(*has, strict=True))
            ratio = round(naive_ratio(*has), 6)
            if together >= least and ratio > 0:
                score[one, other] = ratio
    expected = []
    for one, other in sorted(score):
        of_one = [(ratio, lengths[pair[1]], pair) for pair, ratio in score.items() if pair[0] == one]
        of_other = [(ratio, lengths[pair[0]], pair) for pair, ratio in score.items() if pair[1] == other]
        if max(of_one)[2] == max(of_other)[2] == (one, other):
            expected.append((one, other))
    found = mutual_best(incidence(ours, lengths), incidence(theirs, lengths), least)
    assert [(each.source, each.target) for each in found] == expected
    assert all(each.score == pytest.approx(score[each.source, each.target]) for each in found)
