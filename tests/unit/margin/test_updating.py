"""Updated margins against the reference, which measures all entries again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from lacuna.errors import StoreError
from lacuna.margin import Approximate, MeasuredEntries, measure_margin, measurement, read_margins, update_margins
from lacuna.margin.radius import Entries, RadiusQuery, SelfJoin
from lacuna.margin.reference import reference_margins
from lacuna.margin.screening import Screening
from lacuna.margin.storage import write_margins
from unit.margin.stores import Table, clustered, in_memory, make_store


def distances_of(table: Table) -> NDArray[np.float64]:  # (entries, entries)
    """Return all distances; that of an entry to itself is infinite.

    Sums are rounded as in the code: where keys of very different size meet, the order of a sum matters.
    """
    wide = table[0].astype(np.float64)
    differences = [wide - vector for vector in wide]
    sums = [np.einsum("pd,pd->p", difference, difference) for difference in differences]
    distances = np.array(sums).reshape(len(wide), len(wide))
    np.fill_diagonal(distances, np.inf)
    return distances


def check(table: Table, margins: NDArray[np.uint16], unknown: NDArray[np.float64], max_margin: int) -> None:
    """Compare margins with the reference, and unknown distances with their definition."""
    keys, known = table
    assert (margins.dtype, unknown.dtype) == (np.uint16, np.float64)
    assert margins.tolist() == reference_margins(keys, known, max_margin).tolist()
    distances = distances_of(table)
    nearest = distances[:, ~known].min(axis=1, initial=np.inf)
    exact = margins < max_margin
    assert np.allclose(unknown[exact], nearest[exact], rtol=1e-14, atol=0)
    assert (unknown <= nearest * (1 + 1e-14)).all()
    assert (np.count_nonzero(known & (distances < unknown[:, None]), axis=1)[~exact] >= max_margin).all()


def measured(table: Table, max_margin: int) -> MeasuredEntries:
    """Measure by the reference. The unknown distances of margins of ``max_margin`` are the smallest ones allowed."""
    keys, known = table
    distances = distances_of(table)
    unknown = distances[:, ~known].min(axis=1, initial=np.inf)
    margins = reference_margins(keys, known, max_margin).astype(np.uint16)
    for entry in np.flatnonzero(margins == max_margin).tolist():
        unknown[entry] = min(unknown[entry], np.nextafter(np.sort(distances[entry, known])[max_margin - 1], np.inf))
    return MeasuredEntries(in_memory(table), margins, unknown, max_margin)


def changed(table: Table, kept: NDArray[np.bool_], added: Table) -> Table:
    (keys, known), (new_keys, new_known) = table, added
    return np.concatenate([keys[kept], new_keys]), np.concatenate([known[kept], new_known])


def updated(before: MeasuredEntries, kept: NDArray[np.bool_], after: Table) -> MeasuredEntries:
    """Update the margins, and check them."""
    margins, unknown = update_margins(before, kept, in_memory(after))
    check(after, margins, unknown, before.max_margin)
    return MeasuredEntries(in_memory(after), margins, unknown, before.max_margin)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.margin.updating.BLOCK", 64)
    monkeypatch.setattr("lacuna.margin.radius.COLUMNS_AT_ONCE", 16)
    monkeypatch.setattr("lacuna.margin.screening._KEYS_AT_ONCE", 32)
    monkeypatch.setattr("lacuna.margin.radius.BLOCK", 64)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("max_margin", [1, 4, 16, 2048])
@pytest.mark.parametrize("known_share", [0.3, 0.8, 0.97])
def test_additions_and_removals(known_share: float, max_margin: int) -> None:
    keys, known = clustered(700, 24, known_share, seed=3)
    rng = np.random.default_rng(1)
    before = measured((keys[:600], known[:600]), max_margin)
    all_kept, some_kept = np.ones(600, np.bool_), rng.random(600) < 0.95
    none = keys[:0], known[:0]
    added = keys[600:], known[600:]
    for kept, new in ((all_kept, added), (some_kept, none), (some_kept, added)):
        updated(before, kept, changed((keys[:600], known[:600]), kept, new))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("max_margin", [3, 2048])
def test_ties_count_against_the_margin(max_margin: int) -> None:
    rng = np.random.default_rng(2)
    table = rng.integers(0, 4, size=(200, 3)).astype(np.float16), rng.random(200) < 0.9
    before = measured(table, max_margin)
    for _ in range(6):
        kept = rng.random(len(table[0])) < 0.9
        table = changed(table, kept, (rng.integers(0, 4, size=(20, 3)).astype(np.float16), rng.random(20) < 0.9))
        before = updated(before, kept, table)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("max_margin", [5, 2048])
@pytest.mark.parametrize("value", [65504.0, 6e-8])
def test_extreme_float16_keys_come_and_go(value: float, max_margin: int) -> None:
    rng = np.random.default_rng(9)
    keys, known = clustered(300, 40, 0.8, seed=9)
    extreme = keys[:40].copy()
    extreme[:10] = 0
    extreme[10:14], extreme[14:18], extreme[18:24, ::2] = value, -value, value
    added = extreme, rng.random(40) < 0.6
    table = changed((keys, known), np.ones(300, np.bool_), added)
    larger = updated(measured((keys, known), max_margin), np.ones(300, np.bool_), table)
    kept = np.arange(340) % 3 > 0
    smaller = changed(table, kept, (keys[:0], known[:0]))
    updated(larger, kept, smaller)


NUMBERS = st.sampled_from([-2.0, -0.5, 0.0, 0.099976, 0.5, 1.0, 3.0, 1000.0, 65504.0, -65504.0, 6e-8])
FLAGS = st.sampled_from([st.booleans(), st.just(True), st.just(False)])


@st.composite
def tables(draw: st.DrawFn, dimension: int, most: int) -> Table:
    """Draw few distinct values, so that equal keys and ties are frequent; often all or no entries are known."""
    rows = draw(st.integers(0, most))
    keys = draw(hnp.arrays(np.float16, (rows, dimension), elements=NUMBERS))
    return keys, draw(hnp.arrays(np.bool_, rows, elements=draw(FLAGS)))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 3), st.sampled_from([1, 2, 5, 2048]))
def test_any_sequence_of_additions_and_removals(data: st.DataObject, dimension: int, max_margin: int) -> None:
    table = data.draw(tables(dimension, 25))
    before = measured(table, max_margin)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lacuna.margin.updating.BLOCK", 8)
        patch.setattr("lacuna.margin.screening._KEYS_AT_ONCE", 4)
        patch.setattr("lacuna.margin.radius.BLOCK", 8)
        for _ in range(data.draw(st.integers(1, 3))):
            kept = data.draw(hnp.arrays(np.bool_, len(table[0]), elements=data.draw(FLAGS)))
            table = changed(table, kept, data.draw(tables(dimension, 6)))
            before = updated(before, kept, table)


def line(*flags: int) -> Table:
    """Return entries at the places 0, 1, 2 and so on, known or not."""
    return np.arange(len(flags), dtype=np.float16)[:, None], np.array(flags, dtype=bool)


def at(place: float, known: bool) -> Table:
    return np.array([[place]], np.float16), np.array([known])


def test_golden_additions() -> None:
    table = line(1, 1, 1, 1, 0)
    before, kept = measured(table, 2048), np.ones(5, np.bool_)
    assert (before.margin[0], before.unknown_distance[0]) == (3, 16)
    for place, known, margin, distance in (
        (1.5, True, 4, 16),
        (5, True, 3, 16),
        (1.5, False, 1, 2.25),
        (4, True, 3, 16),
    ):
        found = updated(before, kept, changed(table, kept, at(place, known)))
        assert (found.margin[0], found.unknown_distance[0]) == (margin, distance)


@pytest.mark.parametrize("direction", [-np.inf, np.inf])
def test_a_distance_that_was_rounded_differently_still_finds_its_entry(direction: float) -> None:
    """Another processor may add the terms of a distance in another order."""
    keys = np.array([[6e-08, 3, 0.1], [3, 3, 3], [3, 3, 3], [3, 65504, -2]], np.float16)
    table, kept = (keys, np.zeros(4, np.bool_)), np.array([False, True, True, True])
    before = measured(table, 2048)
    rounded = before.unknown_distance.copy()
    rounded[3] = np.nextafter(rounded[3], direction)
    updated(replace(before, unknown_distance=rounded), kept, changed(table, kept, (keys[:0], table[1][:0])))


def test_golden_removals() -> None:
    table = line(1, 1, 0, 1, 1, 0)
    before = measured(table, 2048)
    assert (before.margin[0], before.unknown_distance[0]) == (1, 4)
    for removed, margin, distance in ((1, 0, 4), (2, 3, 25), (4, 1, 4)):
        kept = np.arange(6) != removed
        found = updated(before, kept, changed(table, kept, (table[0][:0], table[1][:0])))
        assert (found.margin[0], found.unknown_distance[0]) == (margin, distance)


def noted(monkeypatch: pytest.MonkeyPatch) -> list[NDArray[np.bool_]]:
    """Return a list that will contain, for each pass, whether each entry is measured."""
    opened: list[NDArray[np.bool_]] = []

    def note(entries: Entries, query: RadiusQuery, screening: Screening) -> SelfJoin:
        opened.append(query.asks)
        return SelfJoin(entries, query, screening)

    monkeypatch.setattr("lacuna.margin.exact.SelfJoin", note)
    return opened


def test_an_unknown_entry_that_replaces_an_equal_one_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = line(1, 1, 1, 1, 0)
    before, kept = measured(table, 2048), np.arange(5) != 4
    opened = noted(monkeypatch)
    updated(before, kept, changed(table, kept, at(4, known=False)))
    assert not opened  # all others of the added one are known, which needs no pass


def test_only_what_changes_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two far clusters; one of them changes."""
    rng = np.random.default_rng(4)
    keys = np.concatenate([rng.normal(size=(60, 4)), 100 + rng.normal(size=(60, 4))]).astype(np.float16)
    table = keys, rng.random(120) < 0.7
    before, kept = measured(table, 2048), np.ones(120, np.bool_)
    kept[100:104] = False
    opened = noted(monkeypatch)
    added = (100 + rng.normal(size=(4, 4))).astype(np.float16), np.array([True, False, True, True])
    updated(before, kept, changed(table, kept, added))
    assert opened
    assert not any(some[:60].any() for some in opened)


def test_entries_that_do_not_fit_are_refused() -> None:
    table = line(1, 0, 1)
    before = measured(table, 2048)
    with pytest.raises(ValueError, match="2 of 3 entries kept: these are not the first ones after the change"):
        update_margins(before, np.array([True, True, False]), in_memory((table[0][1:], table[1][1:])))


@pytest.mark.parametrize("max_margin", [4, 2048])
def test_margins_of_a_store_are_updated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_margin: int) -> None:
    monkeypatch.setattr(measurement, "EXACT_LISTS", Approximate(nprobe=2, lists=12))
    keys, known = clustered(500, 16, 0.9, seed=5)
    store = make_store(tmp_path / "store", keys[:450], known[:450])
    margins = measure_margin(store, max_margin).margins
    check((keys[:450], known[:450]), margins.values, margins.unknown_distance, max_margin)
    kept = np.arange(450) % 40 > 0
    table = changed((keys[:450], known[:450]), kept, (keys[450:], known[450:]))
    after = make_store(tmp_path / "after", *table)
    values, unknown = update_margins(MeasuredEntries.of(store, read_margins(store)), kept, after)
    check(table, values, unknown, max_margin)
    write_margins(after, values, max_margin, unknown_distance=unknown)
    read = read_margins(after)
    assert read.values.tolist() == values.tolist()
    assert read.unknown_distance.tolist() == unknown.tolist()
    assert not measure_margin(after, max_margin).measured


def test_approximate_margins_cannot_be_updated(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", *clustered(300, 8, 0.8))
    margins = measure_margin(store, approximate=Approximate(nprobe=1, lists=4)).margins
    assert margins.unknown_distance is None
    with pytest.raises(StoreError, match=r"approximate margins without unknown distances, .*: lacuna margin"):
        MeasuredEntries.of(store, margins)
