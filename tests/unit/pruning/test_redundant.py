"""Redundant entries, compared with a slow version; every dropped entry leaves enough copies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import SettingError
from lacuna.pruning import Redundant
from lacuna.pruning.redundant import COPIES
from unit.pruning.tables import RATIOS, SEEDS, Table, tables


def copies_of(table: Table, entry: int, k: int) -> list[int]:
    return [int(near) for near in table.near[entry, :k] if near >= 0 and table.values[near] == table.values[entry]]


def slow_candidates(table: Table, copies: int, k: int, seed: int) -> set[int]:
    stay = {entry for entry in range(len(table.known)) if not table.known[entry]}
    found = set()
    for entry in np.random.default_rng(seed).permutation(np.flatnonzero(table.known)).tolist():
        if sum(near in stay for near in copies_of(table, entry, k)) >= copies:
            found.add(entry)
        else:
            stay.add(entry)
    return found


@given(tables(), st.integers(1, 4), st.integers(0, 6), RATIOS, SEEDS)
def test_it_is_the_slow_version_and_leaves_enough_copies(
    table: Table, copies: int, more: int, ratio: float, seed: int
) -> None:
    k = copies + more
    candidates = slow_candidates(table, copies, k, seed)
    wanted = round(ratio * len(table.known))
    if wanted > len(candidates):
        with pytest.raises(SettingError, match=f"at most {len(candidates)} .*smaller ratio"):
            Redundant(copies, k).prune(table, ratio=ratio, seed=seed)
    pruning = Redundant(copies, k).prune(table, ratio=ratio, seed=seed, clamp=True)
    dropped = set(np.flatnonzero(~pruning.keep).tolist())
    assert dropped <= candidates
    assert len(dropped) == min(wanted, len(candidates))
    for entry in dropped:
        assert table.known[entry]
        assert sum(pruning.keep[near] for near in copies_of(table, entry, k)) >= copies
    assert sum(group.dropped for group in pruning.groups.values()) == len(dropped)
    assert sum(map(sum, pruning.groups.values())) == len(table.known)


def test_worked_example() -> None:
    # Five known entries of one value that see each other: with two copies, all but two may go. The last one is unknown,
    # and stands for a copy.
    near = np.array([[other for other in range(6) if other != entry] for entry in range(6)])
    alike = Table(np.array([True] * 5 + [False]), near=near)
    for seed in range(10):
        assert Redundant(copies=2, k=5).prune(alike, ratio=1, seed=seed, clamp=True).keep.sum() == 2
    groups = Redundant(copies=2, k=5).prune(alike, ratio=1 / 3, seed=0).groups
    assert groups == {"unknown": (1, 0), "known, fewer than 2 copies": (1, 0), "known, 2 copies or more": (2, 2)}


@given(tables(), RATIOS, SEEDS)
def test_without_a_number_of_copies_it_leaves_as_many_as_the_ratio_allows(
    table: Table, ratio: float, seed: int
) -> None:
    wanted = round(ratio * len(table.known))
    copies = next((each for each in COPIES if len(slow_candidates(table, each, 16, seed)) >= wanted), 1)
    found, expected = (
        Redundant(number).prune(table, ratio=ratio, seed=seed, clamp=True).keep for number in (None, copies)
    )
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("settings", "says"), [((4, 0), "k: got 0"), ((0, 5), "copies: got 0"), ((6, 5), "1 to k")])
def test_settings_out_of_range_are_refused(settings: tuple[int, int], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Redundant(*settings)
