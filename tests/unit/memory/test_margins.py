"""Margins of edited memories: updated ones equal those measured from scratch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lacuna.datastore import build_store, entries_of, inspect_store, open_store
from lacuna.datastore.inspection import measured_margins
from lacuna.errors import SettingError
from lacuna.index import build_index
from lacuna.margin import measure_margin, read_margins
from lacuna.margin.reference import reference_margins
from lacuna.margin.updating import follow_edits
from lacuna.memory import Selection, compact_memory
from lacuna.memory.folder_edits import add_pairs, forget_sentences
from lacuna.pruning import Plac, prune_store
from unit.memory.rule_model import RuleModel, pair

MODEL = RuleModel()
MAX = 12


def wanted(memory: Path) -> list[int]:
    store = open_store(memory)
    keys = store.keys.gather(np.arange(store.entries))
    return [int(margin) for margin in reference_margins(keys, store.known, MAX)]


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    store = build_store(MODEL, [pair(rng) for _ in range(150)], tmp_path / "memory", cleaning=None)
    build_index(store)
    measure_margin(store, MAX)
    return tmp_path / "memory"


def test_margins_follow_edits(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    scratch = []
    monkeypatch.setattr("lacuna.margin.measurement._measure", lambda *_: scratch.append(1))
    for number in range(6):
        add_pairs(memory, [pair(rng) for _ in range(2)], MODEL, cleaning=None, merge=number % 2 == 0)
        forget_sentences(memory, Selection(sentences=(7 * number, 7 * number + 3)))
        if number % 2:
            report = measure_margin(open_store(memory), MAX)
            assert report.measured
            assert report.margins.values.tolist() == wanted(memory)
            assert not measure_margin(open_store(memory), MAX).measured
    assert scratch == []
    compact_memory(memory)
    assert read_margins(open_store(memory)).values.tolist() == wanted(memory)
    forget_sentences(memory, Selection(sentences=(100,)))
    assert measure_margin(open_store(memory), MAX).margins.values.tolist() == wanted(memory)
    assert scratch == []


def test_a_summary_of_an_edited_memory_has_the_margins_that_were_measured(memory: Path) -> None:
    before, rng = inspect_store(memory), np.random.default_rng(5)
    assert before.margin_histogram is not None
    assert (before.unmeasured, before.margins_outdated) == (0, False)
    old = measured_margins(open_store(memory))
    assert old is not None
    added = add_pairs(memory, [pair(rng) for _ in range(3)], MODEL, cleaning=None).added
    store, report = open_store(memory), inspect_store(memory)
    new = np.isin(store.sentence, added)
    assert report.margin_histogram == before.margin_histogram
    assert (report.as_json()["unmeasured"], report.as_json()["margins_outdated"]) == (int(new.sum()), True)
    margins = measured_margins(store)
    assert margins is not None
    assert margins.values[~new].tolist() == old.values.tolist()
    assert {one.margin for one in entries_of(store, sentence=added[0], margins=margins.values)} == {None}
    forget_sentences(memory, Selection(sentences=added))
    report = inspect_store(memory)
    assert (report.margin_histogram, report.unmeasured) == (before.margin_histogram, 0)
    assert not report.margins_outdated  # the entries are those of before
    forget_sentences(memory, Selection(sentences=(4,)))
    store, report = open_store(memory), inspect_store(memory)
    assert (report.unmeasured, report.margins_outdated) == (0, True)
    assert report.margin_histogram is not None
    assert sum(sum(some.values()) for some in report.margin_histogram.values()) == store.entries
    measure_margin(store, MAX)
    assert not inspect_store(memory).margins_outdated


def test_a_memory_of_other_entries_than_were_measured_has_no_margins(memory: Path) -> None:
    rng = np.random.default_rng(6)
    add_pairs(memory, [pair(rng) for _ in range(3)], MODEL, cleaning=None)
    forget_sentences(memory, Selection(sentences=tuple(range(150))))
    assert measured_margins(open_store(memory)) is None
    assert inspect_store(memory).margin_histogram is None


def test_what_cannot_be_followed_is_measured(memory: Path) -> None:
    rng = np.random.default_rng(3)
    add_pairs(memory, [pair(rng) for _ in range(60)], MODEL, cleaning=None)
    assert follow_edits(open_store(memory)) is None  # too much is new
    assert measure_margin(open_store(memory), MAX).margins.values.tolist() == wanted(memory)
    forget_sentences(memory, Selection(sentences=(1,)))
    assert follow_edits(open_store(memory), MAX + 1) is None
    compact_memory(memory)
    assert measure_margin(open_store(memory), MAX).margins.values.tolist() == wanted(memory)


def test_new_entries_are_pruned_like_the_memory(memory: Path, tmp_path: Path) -> None:
    new = [pair(np.random.default_rng(4)) for _ in range(30)]
    with pytest.raises(SettingError, match="was not pruned by plac"):
        add_pairs(memory, new, MODEL, prune=True)
    small = tmp_path / "small"
    prune_store(open_store(memory), Plac(1), small, ratio=0.1)
    with pytest.raises(SettingError, match="has no exact margins"):
        add_pairs(small, new, MODEL, prune=True)
    before = measure_margin(open_store(small), MAX)
    report = add_pairs(small, new, MODEL, cleaning=None, prune=True)
    store = open_store(small)
    added = np.isin(store.sentence, report.added)
    whole = build_store(MODEL, new, tmp_path / "new", cleaning=None)
    old, fresh = store.keys.gather(np.flatnonzero(~added)), whole.keys.gather(np.arange(whole.entries))
    known = np.concatenate([store.known[~added], whole.known])
    margins = reference_margins(np.concatenate([old, fresh]), known, MAX)[-whole.entries :]
    candidates = int((whole.known & (margins >= 1)).sum())
    assert int(added.sum()) == whole.entries - min(candidates, round(0.1 * whole.entries))
    assert candidates > 0
    assert before.margins.manifest.entries == int((~added).sum())
