"""Measured margins against the reference."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from lacuna.datastore import Store
from lacuna.errors import IndexingError, SettingError
from lacuna.margin import Approximate, margin_of, measure_margin, measurement, read_margins
from lacuna.margin.reference import reference_margins
from lacuna.progress import SILENT
from unit.margin.stores import clustered, make_store

# Near lists contain few neighbors, so that the passes over all entries decide.
DIVIDED = Approximate(nprobe=2, lists=12)


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "EXACT_LISTS", DIVIDED)
    monkeypatch.setattr("lacuna.margin.radius.BLOCK", 64)
    monkeypatch.setattr("lacuna.margin.approximate.BLOCK", 64)


def measured(store: Store, max_margin: int = 2048, approximate: Approximate | None = None) -> NDArray[np.uint16]:
    measure_margin(store, max_margin, approximate=approximate)
    return read_margins(store).values


def grid(rows: int, seed: int) -> tuple[NDArray[np.float16], NDArray[np.bool_]]:
    """Return keys with integers from 0 to 3 in three dimensions, so that most distances are tied."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, size=(rows, 3)).astype(np.float16), rng.random(rows) < 0.95


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("max_margin", [1, 4, 16, 2048])
@pytest.mark.parametrize("known_share", [0.3, 0.8, 0.97])
def test_passes_over_all_entries_give_the_reference(tmp_path: Path, known_share: float, max_margin: int) -> None:
    keys, known = clustered(700, 24, known_share, seed=3)
    store = make_store(tmp_path / "store", keys, known)
    assert measured(store, max_margin).tolist() == reference_margins(keys, known, max_margin).tolist()


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("max_margin", [3, 8, 2048])
@pytest.mark.parametrize("seed", range(3))
def test_ties_count_against_the_margin(tmp_path: Path, seed: int, max_margin: int) -> None:
    keys, known = grid(300, seed)
    store = make_store(tmp_path / "store", keys, known)
    assert measured(store, max_margin).tolist() == reference_margins(keys, known, max_margin).tolist()


@pytest.mark.usefixtures("divided")
def test_wide_keys_without_principal_components(tmp_path: Path) -> None:
    # With equal variance in all directions, projections rule out nothing, and whole keys are multiplied.
    rng = np.random.default_rng(5)
    keys, known = rng.normal(size=(300, 160)).astype(np.float16), rng.random(300) < 0.9
    store = make_store(tmp_path / "store", keys, known)
    assert measured(store).tolist() == reference_margins(keys, known, 2048).tolist()


def test_a_small_store_is_one_list(tmp_path: Path) -> None:
    keys, known = clustered(300, 8, 0.7)
    store = make_store(tmp_path / "store", keys, known)
    assert measured(store).tolist() == reference_margins(keys, known, 2048).tolist()


def test_probing_all_lists_is_exact_but_for_rounding(tmp_path: Path) -> None:
    keys, known = clustered(500, 16, 0.8, seed=1)
    store = make_store(tmp_path / "store", keys, known)
    found, truth = measured(store, 32, Approximate(nprobe=7, lists=7)), reference_margins(keys, known, 32)
    assert np.mean(found == truth) > 0.8
    assert np.mean((found >= 8) == (truth >= 8)) > 0.98


def test_probing_few_lists_reports_the_true_agreement(tmp_path: Path) -> None:
    keys, known = clustered(900, 16, 0.8, seed=2)
    store = make_store(tmp_path / "store", keys, known)
    margins = measured(store, 64, Approximate(nprobe=1, lists=90, sample=900))
    truth = reference_margins(keys, known, 64)
    manifest = read_margins(store).manifest
    assert manifest.method == "approximate"
    assert 0.2 < manifest.agreement.equal == np.mean(margins == truth) < 1
    alike = (margins[known] >= 8) == (truth[known] >= 8)
    assert manifest.agreement.decisions["8"] == alike.mean() < 1


@pytest.mark.parametrize(
    ("flags", "max_margin", "margin"),
    [((1, 1, 0, 1), 2048, 2), ((0, 1, 1, 1), 2048, 0), ((1, 1, 1, 1, 1, 1), 4, 4)],
)
def test_golden_flags(tmp_path: Path, flags: tuple[int, ...], max_margin: int, margin: int) -> None:
    """Neighbors on a line at increasing distances from the first entry; the flags are known or not."""
    keys = np.array([[0.0], *([place + 1.0] for place in range(len(flags)))], dtype=np.float16)
    store = make_store(tmp_path / "store", keys, np.array([0, *flags], dtype=bool))
    assert measured(store, max_margin)[0] == margin
    query = np.array([[-0.25]], dtype=np.float32)
    others = make_store(tmp_path / "others", keys[1:], np.array(flags, dtype=bool))
    assert margin_of(others, query, max_margin).tolist() == [margin]


def test_golden_itself_is_left_out_by_number_not_by_rank(tmp_path: Path) -> None:
    # Entry 2 has two equal keys before it in the store and an unknown neighbor after.
    keys = np.array([[1.0], [1.0], [1.0], [2.0]], dtype=np.float16)
    store = make_store(tmp_path / "store", keys, np.array([1, 1, 1, 0], dtype=bool))
    assert measured(store).tolist() == [2, 2, 2, 3]


def test_golden_duplicates_cannot_hide_an_unknown_one(tmp_path: Path) -> None:
    keys = np.full((6, 4), 1.5, dtype=np.float16)
    store = make_store(tmp_path / "store", keys, np.array([1, 1, 1, 1, 1, 0], dtype=bool))
    assert measured(store).tolist() == [0, 0, 0, 0, 0, 5]


@pytest.mark.parametrize("entries", [0, 1, 5])
@pytest.mark.parametrize("flag", [True, False])
def test_golden_all_known_or_all_unknown(tmp_path: Path, entries: int, flag: bool) -> None:
    keys = np.arange(entries * 2, dtype=np.float16).reshape(entries, 2)
    store = make_store(tmp_path / "store", keys, np.full(entries, flag))
    assert measured(store, 3).tolist() == [min(3, entries - 1) if flag else 0] * entries
    query = np.ones((1, 2), np.float32)
    assert margin_of(store, query, 3).tolist() == [min(3, entries) if flag else 0]


@st.composite
def small_stores(draw: st.DrawFn) -> tuple[NDArray[np.float16], NDArray[np.bool_]]:
    """Draw few distinct values in few dimensions, so that equal keys and ties are frequent."""
    shape = draw(st.tuples(st.integers(0, 40), st.integers(1, 3)))
    numbers = st.sampled_from([-2.0, -0.5, 0.0, 0.099976, 0.5, 1.0, 3.0, 1000.0, 65504.0, -65504.0, 6e-8])
    keys = draw(hnp.arrays(np.float16, shape, elements=numbers))
    return keys, draw(hnp.arrays(np.bool_, shape[0]))


@settings(max_examples=60)
@given(small_stores(), st.sampled_from([1, 2, 5, 2048]), st.integers(1, 6))
@example((np.zeros((3, 1), np.float16), np.array([True, False, True])), 2, 2)
def test_any_store(drawn: tuple[NDArray[np.float16], NDArray[np.bool_]], max_margin: int, lists: int) -> None:
    keys, known = drawn
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurement, "EXACT_LISTS", Approximate(nprobe=1, lists=lists))
        patch.setattr("lacuna.margin.radius.BLOCK", 8)
        patch.setattr("lacuna.margin.approximate.BLOCK", 8)
        patch.setattr("os.fsync", lambda _: None)  # otherwise most of the time
        store = make_store(Path(folder) / "store", keys, known, shards=1)
        assert measured(store, max_margin).tolist() == reference_margins(keys, known, max_margin).tolist()
        queries = np.concatenate([keys[:3].astype(np.float32), np.full((1, keys.shape[1]), 0.3, np.float32)])
        assert (
            margin_of(store, queries, max_margin).tolist()
            == reference_margins(keys, known, max_margin, queries).tolist()
        )


@pytest.mark.usefixtures("divided")
def test_margins_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    keys, known = clustered(700, 24, 0.8, seed=6)
    nearby = Approximate(nprobe=2, lists=30, sample=50)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            assert (
                measured(make_store(tmp_path / f"exact-{threads}", keys, known)).tolist()
                == reference_margins(keys, known, 2048).tolist()
            )
            found.append(measured(make_store(tmp_path / f"near-{threads}", keys, known), 2048, nearby).tolist())
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("value", [65504.0, 60000.0, 6e-8])
def test_extreme_float16_keys(tmp_path: Path, value: float) -> None:
    rng = np.random.default_rng(9)
    keys, known = clustered(300, 40, 0.8, seed=9)
    keys[rng.integers(300, size=20)] = 0
    keys[rng.integers(300, size=6)] = value
    keys[rng.integers(300, size=6)] = -value
    keys[rng.integers(300, size=6), ::2] = value
    store = make_store(tmp_path / "store", keys, known)
    assert measured(store).tolist() == reference_margins(keys, known, 2048).tolist()


@pytest.mark.parametrize("max_margin", [3, 2048])
def test_margins_of_queries(tmp_path: Path, max_margin: int) -> None:
    keys, known = clustered(900, 24, 0.9, seed=7)
    queries = np.concatenate([keys[850:].astype(np.float32), keys[:250].astype(np.float32) + 0.05])
    store = make_store(tmp_path / "store", keys, known)
    assert (
        margin_of(store, queries, max_margin).tolist() == reference_margins(keys, known, max_margin, queries).tolist()
    )
    assert margin_of(store, queries[:0]).shape == (0,)


def test_settings_out_of_range_are_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", *clustered(50, 4, 0.5))
    before = sorted(store.path.rglob("*"))
    for wrong in (0, -1, 65_536):
        with pytest.raises(SettingError, match="allowed: 1 to 65,535"):
            measure_margin(store, wrong, progress=SILENT)
        with pytest.raises(SettingError, match="max_margin"):
            margin_of(store, np.ones((1, 4), np.float32), wrong)
    with pytest.raises(SettingError, match="nprobe: got 0"):
        Approximate(nprobe=0)
    with pytest.raises(IndexingError, match="4-dimensional"):
        margin_of(store, np.ones((1, 5), np.float32))
    assert sorted(store.path.rglob("*")) == before
