"""Tables about knowledge, compared with counting entry by entry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.datastore import build_store
from lacuna.errors import CorpusError, IndexingError, LacunaWarning, SettingError
from lacuna.index import build_index
from lacuna.margin import read_margins
from lacuna.margin.reference import reference_margins
from lacuna.margin.storage import write_margins
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.records import Origin, SentencePair
from lacuna.reproduction.knowledge_tables import (
    _bin_starts,
    _count,
    _names,
    accuracy_by_margin,
    index_sizes,
    known_statistics,
    margin_distribution,
)
from lacuna.reproduction.paper import paper_of
from lacuna.reproduction.tables import Cell, Table
from lacuna.steps import IndexSize
from unit.margin.stores import make_store

DEV = [
    SentencePair("Der Mann liest ein Buch.", "The man is reading a book.", Origin("dev", "1")),
    SentencePair("Die Frau schläft.", "The woman sleeps.", Origin("dev", "2")),
    SentencePair("Ein Hund ist da.", "A dog is here.", Origin("dev", "3")),
    SentencePair("Das Kind ist im Haus.", "The child is in the house.", Origin("dev", "4")),
]


def holds(name: str, margin: int) -> bool:
    """Tell whether a margin lies in a bucket, by its name."""
    if name.endswith("+"):
        return margin >= int(name[:-1])
    first, _, last = name.partition("-")
    return int(first) <= margin <= int(last or first)


def column(table: Table, name: str) -> list[Cell]:
    place = [one.name for one in table.columns].index(name)
    return [row[place] for row in table.rows]


@given(st.integers(1, 65_535), st.lists(st.integers(0, 65_535), max_size=20))
def test_every_margin_is_counted_in_the_bucket_that_names_it(cap: int, drawn: list[int]) -> None:
    margins = np.minimum(drawn, cap).astype(np.uint16)
    leasts = _bin_starts(cap)
    expected = [sum(holds(name, margin) for margin in margins.tolist()) for name in _names(leasts, cap)]
    assert _count(margins, leasts).tolist() == expected
    assert sum(expected) == len(drawn)


def test_bucket_names() -> None:
    assert _names(_bin_starts(64), 64) == ["0-3", "4-7", "8-15", "16-31", "32-63", "64+"]
    assert _names(_bin_starts(20), 20) == ["0-3", "4-7", "8-15", "16-19", "20+"]
    assert _names(_bin_starts(1), 1) == ["0", "1+"]


def test_known_statistics(tmp_path: Path) -> None:
    known = np.array([True, False, True, True, False])
    store = make_store(tmp_path / "store", np.ones((5, 4)), known)
    table = known_statistics(store)
    assert table.rows == (("this store", 3, 2, 5, 0.6),)
    beside = known_statistics(store, paper_of("opus-koran"))
    assert beside.rows[0] == table.rows[0]
    assert beside.rows[1] == ("paper, OPUS-Koran", 294_094, 230_677, 524_771, 0.5604)
    assert beside.note == table.note
    assert "its counts give 77.54 %" in known_statistics(store, paper_of("opus-law")).note
    without = known_statistics(store, paper_of("um-law"))
    assert without.rows == table.rows
    assert "no such figures for UM-Law" in without.note


def test_margin_distribution(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    known, values = rng.random(300) < 0.4, np.minimum(rng.geometric(0.03, 300) - 1, 64).astype(np.uint16)
    store = make_store(tmp_path / "store", rng.normal(size=(300, 4)), known)
    write_margins(store, values, max_margin=64)
    table = margin_distribution(store, read_margins(store))
    assert column(table, "margin") == ["0-3", "4-7", "8-15", "16-31", "32-63", "64+"]
    entries = list(zip(known.tolist(), values.tolist(), strict=True))
    for name, which in (("known", True), ("unknown", False)):
        counts = [
            sum(is_known == which and holds(str(row[0]), margin) for is_known, margin in entries) for row in table.rows
        ]
        assert column(table, f"{name} entries") == counts
        assert column(table, name) == [pytest.approx(count / sum(counts)) for count in counts]
    small = sum(not is_known and margin < 4 for is_known, margin in entries) / sum(not one for one, _ in entries)
    assert table.note.startswith(f"{100 * small:.1f} % of the unknown entries have a margin below 4.")
    assert "64" in table.note


def test_shares_of_no_entries_are_left_open(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", np.ones((3, 4)), np.ones(3, np.bool_))
    write_margins(store, np.full(3, 2, np.uint16), max_margin=2)
    table = margin_distribution(store, read_margins(store))
    assert column(table, "unknown") == [None, None]
    assert column(table, "known") == [0.0, 1.0]
    assert "unknown" not in table.note


@pytest.fixture(scope="module")
def told(bundled: Model, memory: Memory) -> list[tuple[int, bool]]:
    """Return margin and correctness of every dev token, one sentence at a time, by a loop over all entries."""
    store = memory.store
    keys = store.keys.gather(np.arange(store.entries))
    rows = []
    for pair in DEV:
        target = bundled.encode_targets([pair.target])
        forced = bundled.teacher_force(bundled.encode_sources([pair.source]), target)
        margins = reference_margins(keys, store.known, 32, forced.keys.numpy())
        right = [said == token for said, token in zip(forced.predictions.tolist(), target[0], strict=True)]
        rows += zip(margins, right, strict=True)
    return rows


def test_accuracy_by_margin(bundled: Model, memory: Memory, told: list[tuple[int, bool]]) -> None:
    table = accuracy_by_margin(bundled, memory.store, DEV, max_margin=32)
    assert len({margin for margin, _ in told}) > 2
    for name, tokens, accuracy in table.rows:
        here = [right for margin, right in told if holds(str(name), margin)]
        assert tokens == len(here)
        assert accuracy == (pytest.approx(sum(here) / len(here)) if here else None)
    small = [right for margin, right in told if margin < 4]
    assert f"{100 * sum(small) / len(small):.1f} % on those with a margin below 4" in table.note


def test_drawn_tokens(bundled: Model, memory: Memory, told: list[tuple[int, bool]]) -> None:
    everything = accuracy_by_margin(bundled, memory.store, DEV, max_margin=8)
    assert accuracy_by_margin(bundled, memory.store, DEV, max_margin=8, most=len(told) + 5, seed=7) == everything
    some = accuracy_by_margin(bundled, memory.store, DEV, max_margin=8, most=9, seed=3)
    assert sum(int(count or 0) for count in column(some, "tokens")) == 9
    for part, whole in zip(column(some, "tokens"), column(everything, "tokens"), strict=True):
        assert int(part or 0) <= int(whole or 0)
    assert accuracy_by_margin(bundled, memory.store, DEV, max_margin=8, most=9, seed=3) == some


def test_dev_sets_that_cannot_be_measured(bundled: Model, memory: Memory) -> None:
    with pytest.raises(CorpusError, match="none of which fits"):
        accuracy_by_margin(bundled, memory.store, [])
    with pytest.raises(SettingError, match="most: got 0"):
        accuracy_by_margin(bundled, memory.store, DEV, most=0)
    long = SentencePair("viel " * 600, "much " * 600, Origin("dev", "5"))
    with pytest.warns(LacunaWarning, match="1 of 5 pairs"):
        table = accuracy_by_margin(bundled, memory.store, [long, *DEV])
    assert table == accuracy_by_margin(bundled, memory.store, DEV)


def test_index_sizes(bundled: Model, pairs: list[SentencePair], memory: Memory, tmp_path: Path) -> None:
    coded = build_store(bundled, pairs[:6], tmp_path / "coded")
    with pytest.raises(IndexingError, match="no index"):
        IndexSize.of(coded)
    build_index(coded, "Flat")
    table = index_sizes({"whole": IndexSize.of(memory.store), "half": IndexSize.of(coded)})
    [file] = (tmp_path / "coded" / "index").glob("*.faiss")
    whole, half, width = memory.store.entries, coded.entries, coded.dimension
    (_, *first), (_, *second) = table.rows
    keys = sum(path.stat().st_size - 128 for path in memory.store.path.rglob("keys.npy"))  # without the header
    computed = pytest.approx((72 * whole + 17_408 * width) / 2**20)
    assert first == [whole, keys / 2**20, "exact", keys / 2**20, None, computed, None]
    assert second[:4] == [half, half * width * 2 / 2**20, "Flat", file.stat().st_size / 2**20]
    assert second[4] == pytest.approx(1 - file.stat().st_size / keys)
    assert second[6] == pytest.approx(72 * (whole - half) / (72 * whole + 17_408 * width))
