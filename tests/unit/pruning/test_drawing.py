"""PLAC, its reverse and the baselines: exact ratios, the right candidates, seeded choices."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import LacunaError, SettingError
from lacuna.pruning import AllKnown, Known, Plac, Pruner, Random, Reverse
from unit.pruning.tables import RATIOS, SEEDS, Table, tables

DRAWING = st.one_of(
    st.builds(Plac, st.integers(0, 40), st.sampled_from(["random", "highest-margin-first"])),
    st.builds(Reverse, st.integers(1, 40)),
    st.builds(Random),
    st.builds(Known),
)


def candidates(pruner: Pruner, table: Table) -> list[bool]:
    """Say for each entry whether it may go, one at a time."""
    rules = {
        "plac": lambda known, margin: known and margin >= pruner.min_margin,  # type: ignore[attr-defined]
        "reverse": lambda known, margin: margin < pruner.min_margin,  # type: ignore[attr-defined]
        "random": lambda known, margin: True,
        "known": lambda known, margin: known,
    }
    return [rules[pruner.name](*pair) for pair in zip(table.known.tolist(), table.margin.tolist(), strict=True)]


@given(tables(), DRAWING, RATIOS, SEEDS)
def test_exactly_the_ratio_is_dropped_and_only_candidates(
    table: Table, pruner: Pruner, ratio: float, seed: int
) -> None:
    may, entries = candidates(pruner, table), len(table.known)
    wanted = round(ratio * entries)
    if wanted > sum(may):
        with pytest.raises(SettingError, match=f"at most {sum(may)} "):
            pruner.prune(table, ratio=ratio, seed=seed)
        keep = pruner.prune(table, ratio=ratio, seed=seed, clamp=True).keep
        assert keep.tolist() == [not candidate for candidate in may]
        return
    pruning = pruner.prune(table, ratio=ratio, seed=seed)
    assert np.count_nonzero(~pruning.keep) == wanted
    assert all(candidate for candidate, kept in zip(may, pruning.keep, strict=True) if not kept)
    assert pruning.weights is None
    assert sum(group.kept for group in pruning.groups.values()) == entries - wanted
    assert sum(group.dropped for group in pruning.groups.values()) == wanted


@given(tables(), DRAWING, RATIOS, SEEDS)
def test_a_seed_decides(table: Table, pruner: Pruner, ratio: float, seed: int) -> None:
    keep = [pruner.prune(table, ratio=ratio, seed=seed, clamp=True).keep for _ in range(2)]
    assert np.array_equal(*keep)


@pytest.mark.parametrize("pruner", [Plac(4), Plac(4, "highest-margin-first"), Reverse(4), Random(), Known()])
def test_another_seed_draws_others(pruner: Pruner) -> None:
    margins = [9, 2] if isinstance(pruner, Reverse) else [2, 9]
    table = Table(np.ones(400, bool), np.repeat(np.array(margins, np.uint16), 200))
    masks = {pruner.prune(table, ratio=0.25, seed=seed).keep.tobytes() for seed in range(20)}
    assert len(masks) == 20


def test_every_candidate_is_as_likely_as_any_other() -> None:
    table = Table(np.array([1, 1, 1, 1, 0], bool), np.full(5, 8, np.uint16))
    drawn = Counter(tuple(Plac().prune(table, ratio=0.4, seed=seed).keep.tolist()) for seed in range(3000))
    # Six pairs of four, each 500 times; five standard deviations are 102.
    assert len(drawn) == 6
    assert all(abs(count - 500) < 102 for count in drawn.values())


def test_the_highest_margins_go_first_and_chance_decides_among_equals() -> None:
    table = Table(np.array([1, 1, 1, 0, 1, 1], bool), np.array([8, 30, 8, 90, 20, 7], np.uint16))
    pruner = Plac(min_margin=8, order="highest-margin-first")
    for ratio, gone in ((1 / 6, {1}), (2 / 6, {1, 4}), (4 / 6, {0, 1, 2, 4})):
        assert set(np.flatnonzero(~pruner.prune(table, ratio=ratio, seed=0).keep)) == gone
    third = {int(np.flatnonzero(~pruner.prune(table, ratio=0.5, seed=seed).keep)[0]) for seed in range(30)}
    assert third == {0, 1}  # entry 0 goes with some seeds; with the others it is entry 2, and 1 is the first gone


def test_duplicates_of_a_known_key_do_not_drag_the_unknown_one_along() -> None:
    # Six entries of one key, five known, one unknown with another value: each sees four known ones first.
    table = Table(np.array([1, 1, 1, 1, 1, 0], bool), np.array([4, 4, 4, 4, 4, 5], np.uint16))
    keep = Plac(min_margin=4).prune(table, ratio=1, seed=1, clamp=True).keep
    assert keep.tolist() == [False] * 5 + [True]


def test_all_known() -> None:
    table = Table(np.array([1, 0, 1, 0, 0], bool))
    pruning = AllKnown().prune(table, ratio=None, seed=3)
    assert pruning.keep.tolist() == [False, True, False, True, True]
    assert pruning.groups == {"unknown": (3, 0), "known": (0, 2)}
    with pytest.raises(SettingError, match="leave it out"):
        AllKnown().prune(table, ratio=0.4, seed=3)


def test_the_groups_of_plac() -> None:
    table = Table(np.array([1, 1, 1, 0, 0], bool), np.array([9, 9, 2, 9, 1], np.uint16))
    groups = Plac(min_margin=8).prune(table, ratio=0.2, seed=0).groups
    assert groups == {"unknown": (2, 0), "known, margin below 8": (1, 0), "known, margin 8 or more": (1, 1)}


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("pruner", [Plac(), Reverse(), Random(), Known()])
def test_nothing_to_drop(pruner: Pruner, rows: int) -> None:
    table = Table(np.zeros(rows, bool), np.full(rows, 8, np.uint16))
    assert pruner.prune(table, ratio=0, seed=0).keep.tolist() == [True] * rows


def test_a_ratio_out_of_reach_names_what_can_be_reached() -> None:
    margins = np.repeat(np.array([0, 4, 8, 16, 32, 33], np.uint16), 10)
    table = Table(np.append(np.ones(59, bool), False), margins)
    # Of 60 entries 49, 39, 29 and 19 are known and have a margin of 4, 8, 16 and 32 or more.
    with pytest.raises(SettingError, match=r"0\.8166 with 4, 0\.65 with 8, 0\.4833 with 16, 0\.3166 with 32") as error:
        Plac(min_margin=16).prune(table, ratio=0.6, seed=0)
    assert "asks for 36 of 60 entries" in str(error.value)
    assert "at most 29 (0.4833)" in str(error.value)
    assert np.count_nonzero(~Plac(min_margin=16).prune(table, ratio=0.4833, seed=0).keep) == 29
    # Below 4, 8, 16 and 32 are 10, 20, 30 and 40.
    with pytest.raises(SettingError, match=r"0\.1666 with 4, 0\.3333 with 8, 0\.5 with 16, 0\.6666 with 32"):
        Reverse(min_margin=8).prune(table, ratio=0.5, seed=0)


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan"), None])
def test_a_ratio_must_be_a_share(ratio: float | None) -> None:
    for pruner in (Plac(), Random(), Known(), Reverse()):
        with pytest.raises(SettingError, match="ratio"):
            pruner.prune(Table(np.ones(3, bool), np.zeros(3, np.uint16)), ratio=ratio, seed=0, clamp=True)


def test_settings_out_of_range() -> None:
    for make in (lambda: Plac(min_margin=-1), lambda: Plac(order="any"), lambda: Reverse(min_margin=0)):  # type: ignore[arg-type]
        with pytest.raises(SettingError, match="got"):
            make()
    with pytest.raises(LacunaError, match="seed: got -1"):
        Random().prune(Table(np.ones(3, bool)), ratio=0.5, seed=-1)


@pytest.mark.parametrize(("dropped", "warned"), [(0, False), (74, False), (75, False), (76, True), (100, True)])
def test_plac_warns_where_few_candidates_are_left(dropped: int, warned: bool) -> None:
    table = Table(np.arange(400) < 200, np.where(np.arange(400) % 2 == 0, 9, 2).astype(np.uint16))
    warnings = Plac(8).prune(table, ratio=dropped / 400, seed=1).warnings
    assert bool(warnings) == warned
    assert all(f"{dropped}% of the known entries with a margin of 8 or more" in each for each in warnings)
    assert Known().prune(table, ratio=0.5, seed=1).warnings == ()


@given(tables(), st.integers(0, 40), SEEDS)
def test_the_ratio_that_a_warning_proposes_gives_no_warning(table: Table, min_margin: int, seed: int) -> None:
    plac = Plac(min_margin)
    most = plac.prune(table, ratio=1.0, seed=seed, clamp=True)
    possible = sum(candidates(plac, table))
    assert bool(most.warnings) == (possible > 0)
    for warning in most.warnings:
        found = re.search(r"ratio of at most ([0-9.]+) ", warning)
        assert found is not None
        pruning = plac.prune(table, ratio=float(found[1]), seed=seed)
        assert pruning.warnings == ()
        assert np.count_nonzero(~pruning.keep) <= 0.75 * possible
