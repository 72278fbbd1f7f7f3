"""A memory in a folder: its states, what it reads, and which entries are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lacuna.datastore import Store, build_store, open_store
from lacuna.errors import IndexingError, NotFoundError, SettingError, StoreError
from lacuna.index import ExactIndex, build_index
from lacuna.memory import FolderMemory, Selection, memory_at, open_memory
from lacuna.records import Origin, SentencePair
from unit.memory.rule_model import RuleModel, pair

MODEL = RuleModel()
TAGS = (None, "client-a")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    rng = np.random.default_rng(0)
    pairs = [pair(rng, TAGS[number % 2]) for number in range(20)]
    return build_store(MODEL, pairs, tmp_path / "it", cleaning=None)


@pytest.fixture
def memory(store: Store) -> FolderMemory:
    build_index(store, "exact")
    made = open_memory(store.path)
    assert isinstance(made, FolderMemory)
    return made


def test_it_reads_what_the_store_has(memory: FolderMemory, store: Store) -> None:
    entries = np.array([5, 0, 5, store.entries - 1])
    columns = memory.columns(entries, "values", "known", "sentence", "position")
    for name, column in columns.items():
        assert (column == getattr(store, name)[entries]).all()
    assert (memory.keys(entries) == store.keys.gather(entries)).all()
    assert (memory.name, memory.place, memory.folders) == ("it", str(store.path), (store.path,))
    assert (memory.entries, memory.dimension, memory.fingerprint) == (store.entries, 4, store.fingerprint)
    assert (memory.index_kind, memory.is_edited, memory.model) == ("exact", False, store.manifest.model)


@pytest.mark.parametrize("case", ["excluding", "tagged", "keeping"])
def test_some_entries_are_found(memory: FolderMemory, store: Store, case: str) -> None:
    without = [1, 3, 8]
    tagged = [number for number, one in store.sentences.present() if one.origin.tag == "client-a"]
    some, keep = {
        "excluding": lambda: (memory.excluding(without), ~np.isin(store.sentence, without)),
        "tagged": lambda: (memory.tagged("client-a"), np.isin(store.sentence, tagged)),
        "keeping": lambda: (memory.keeping(store.known), store.known),
    }[case]()
    queries = np.random.default_rng(1).random((9, 4), np.float32) * 3
    keys = store.keys.gather(np.flatnonzero(keep)).astype(np.float64)
    expected = np.sort(((queries[:, None].astype(np.float64) - keys) ** 2).sum(-1), axis=1)[:, :5]
    found = some.search(queries, 5)
    np.testing.assert_allclose(found.distances, expected, rtol=1e-5)
    assert keep[found.ids].all()
    assert (found.values == store.values[found.ids]).all()
    opened, arguments = some.reopening()
    again = opened(*arguments).search(queries, 5)
    assert all(np.array_equal(one, other) for one, other in zip(again[:3], found[:3], strict=True))


def test_weights_of_a_choice_of_entries(memory: FolderMemory, store: Store) -> None:
    weights = np.random.default_rng(2).integers(1, 9, store.entries).astype(np.float32)
    some = memory.keeping(store.known, weights)
    queries = np.random.default_rng(1).random((9, 4), np.float32) * 3
    opened, arguments = some.reopening()
    for each in (some, opened(*arguments)):
        found = each.search(queries, 5)
        assert found.weights is not None
        assert np.array_equal(found.weights, weights[found.ids])
    assert memory.search(queries, 5).weights is None


def test_a_label_that_no_pair_has(memory: FolderMemory) -> None:
    with pytest.raises(SettingError, match="tag: got 'nobody', but no sentence of"):
        memory.tagged("nobody")


def test_each_edit_makes_another_state(memory: FolderMemory) -> None:
    assert not memory.has_changed()
    assert memory.latest() is memory
    new = SentencePair("neu", "new", Origin("made", "1"))
    [number] = memory.add([new], MODEL, cleaning=None).added
    assert memory.has_changed()
    with pytest.raises(NotFoundError, match="has sentences 0 to 19"):
        memory.pair(number)
    after = memory.latest()
    assert after.pair(number) == new
    assert after.numbers_of([new, new]) == (number, number)
    assert (after.is_edited, after.has_changed(), after.latest()) == (True, False, after)
    after.replace(number, "newer", MODEL)
    last = after.latest()
    assert last.pair(number + 1).target == "newer"
    with pytest.raises(NotFoundError, match=f"sentence: {number} of it was forgotten"):
        last.pair(number)
    last.forget(Selection(sentences=(number + 1,)))
    assert dict(last.latest().sentences.present()) == dict(memory.sentences.present())


def test_a_state_that_cannot_be_opened_is_tried_once(memory: FolderMemory) -> None:
    memory.add([SentencePair("neu", "new", Origin("made", "1"))], MODEL, cleaning=None)
    (memory.path / "memory.json").write_text("{}")
    with pytest.raises(StoreError):
        memory.latest()
    assert not memory.has_changed()
    assert memory.latest() is memory


def test_matches_are_of_the_state(memory: FolderMemory) -> None:
    table = memory.sources()
    assert memory.sources() is table
    assert memory.tagged("client-a").sources() is table
    memory.add([SentencePair("neu", "new", Origin("made", "1"))], MODEL, cleaning=None)
    assert "neu" in memory.latest().sources().shapes
    assert memory.sources() is table


def test_a_missing_folder_becomes_a_memory(tmp_path: Path) -> None:
    place = tmp_path / "new"
    with pytest.raises(StoreError):
        open_memory(place)
    made = memory_at(place)
    assert not place.exists()
    made.add([SentencePair("neu", "new", Origin("made", "1"))], MODEL, cleaning=None)
    assert [one.target for one in open_store(place).sentences] == ["new"]
    assert made.sentences[0].target == "new"


def test_edits_need_no_index_but_a_search_does(store: Store) -> None:
    memory_at(store.path).forget(Selection(sentences=(0,)))
    assert 0 not in open_store(store.path).sentences
    with pytest.raises(IndexingError):
        open_memory(store.path)


def test_a_memory_of_an_open_store(store: Store) -> None:
    memory = FolderMemory.of(store, "mine", ExactIndex(store))
    assert memory.name == "mine"
    opener, arguments = memory.reopening()
    build_index(store, "exact")
    again = opener(*arguments)
    assert (again.name, again.entries) == ("mine", store.entries)
