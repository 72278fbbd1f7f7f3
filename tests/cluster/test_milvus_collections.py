"""Memories in Milvus against the same memory in files, in Milvus Lite and on a real server."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cluster.milvus_server import MilvusServer
from lacuna.datastore import Store, build_store, open_store
from lacuna.errors import IndexingError, SettingError, StoreError
from lacuna.index import ExactIndex, build_index, open_index
from lacuna.margin import measure_margin, read_margins
from lacuna.memory import FolderMemory, MilvusMemory, SegmentMatches, Selection, compact_memory, open_memory
from lacuna.memory.folder_edits import add_pairs, forget_sentences, replace_sentence
from lacuna.memory.publication import publish_store
from lacuna.milvus import Collection, CollectionKind, MilvusAddress, read_link
from lacuna.records import Origin, SentencePair
from unit.memory.rule_model import RuleModel, pair

pytestmark = pytest.mark.cluster

MODEL = RuleModel()
TAGS = (None, "client-a", 'quo"te\\d')
FLAT = CollectionKind.parse("milvus:FLAT")
Place = Callable[[], MilvusAddress]


@pytest.fixture(params=["lite", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Return addresses of new collections, in a file or on a server."""
    numbers = itertools.count()
    if request.param == "lite":
        yield lambda: MilvusAddress.of(str(tmp_path / "lite.db"), f"memory{next(numbers)}")
        return
    server: MilvusServer = request.getfixturevalue("server")
    name = "".join(letter if letter.isalnum() else "_" for letter in tmp_path.name)
    yield lambda: MilvusAddress.of(server.uri, f"{name}_{next(numbers)}")


# What our own code decides, whatever answers.
lite_only = pytest.mark.parametrize("place", ["lite"], indirect=True)


def pairs(count: int, seed: int = 0) -> list[SentencePair]:
    rng = np.random.default_rng(seed)
    return [pair(rng, TAGS[number % len(TAGS)]) for number in range(count)]


def built(folder: Path, count: int = 40) -> Store:
    store = build_store(MODEL, pairs(count), folder, cleaning=None)
    build_index(store, "exact")
    return store


def queries(store: Store, count: int = 25) -> np.ndarray:
    rng = np.random.default_rng(3)
    return store.keys.gather(rng.integers(0, store.entries, count)).astype(np.float32) + np.float32(0.25)


def as_stored(memory: MilvusMemory, wanted: Store) -> None:
    """Compare all that a collection has with a store."""
    assert dict(memory.sentences.present()) == dict(wanted.sentences.present())
    assert memory.collection.count(fresh=True) == wanted.entries
    if not wanted.entries:
        return
    rows = []
    for one, numbers in (
        (memory, memory.collection.entries_where("id >= 0", fresh=True)),
        (FolderMemory.of(wanted), np.arange(wanted.entries)),
    ):
        columns = one.columns(numbers, "sentence", "position", "values", "predictions", "known").values()
        rows.append(sorted(zip(*(column.tolist() for column in columns), map(bytes, one.keys(numbers)), strict=True)))
    assert rows[0] == rows[1]


def remote(address: MilvusAddress) -> MilvusMemory:
    """Open a memory in Milvus."""
    memory = open_memory(str(address))
    assert isinstance(memory, MilvusMemory)
    return memory


def test_a_published_store_answers_like_a_local_one(tmp_path: Path, place: Place) -> None:
    store = built(tmp_path / "store")
    measure_margin(store)
    address = place()
    report = publish_store(store, address, FLAT)
    assert report.sent == report.entries == store.entries
    asked = queries(store)
    exact = ExactIndex(store).search(asked, 6)
    linked = open_memory(tmp_path / "store")
    found = linked.search(asked, 6)
    assert linked.index_kind == "milvus:FLAT"
    np.testing.assert_array_equal(found.distances, exact.distances)
    alone = remote(address)
    hits = alone.search(asked, 6)
    np.testing.assert_allclose(hits.distances, exact.distances, rtol=1e-4, atol=1e-3)
    # Ties may come in another order, so values are compared as those of all neighbors at a distance.
    assert (np.sort(hits.values[:, :1]) >= 0).all()
    as_stored(alone, store)
    margins = alone.collection.fetch(np.arange(store.entries), ["margin", "weight"])
    assert (margins["margin"] == read_margins(store).values).all()
    assert (margins["weight"] == 1).all()


@lite_only
def test_publishing_again_sends_nothing(tmp_path: Path, place: Place) -> None:
    store, address = built(tmp_path / "store"), place()
    publish_store(store, address, FLAT)
    assert publish_store(store, address, FLAT).sent == 0
    other = build_store(MODEL, pairs(7, seed=9), tmp_path / "other", cleaning=None)
    with pytest.raises(StoreError, match="has another memory"):
        publish_store(other, address, FLAT)
    build_index(store, "exact")
    assert read_link(store.path) is None
    assert open_index(store).kind == "exact"


def test_an_interrupted_publication_resumes(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store, address = built(tmp_path / "store"), place()
    monkeypatch.setattr("lacuna.memory.publication._ROWS_AT_ONCE", 16)
    write, calls = Collection.write_entries, itertools.count()

    def dies(self: Collection, *args: object, **options: object) -> None:
        if next(calls) == 3:
            raise KeyboardInterrupt
        write(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Collection, "write_entries", dies)
    with pytest.raises(KeyboardInterrupt):
        publish_store(store, address, FLAT)
    assert read_link(store.path) is None
    with pytest.raises(StoreError, match="not complete"):
        open_memory(str(address))
    monkeypatch.setattr(Collection, "write_entries", write)
    report = publish_store(store, address, FLAT)
    assert report.sent == store.entries - 48
    as_stored(remote(address), store)


def test_edits_of_a_linked_memory_reach_the_collection(tmp_path: Path, place: Place) -> None:
    folder, address = tmp_path / "store", place()
    publish_store(built(folder, 12), address, FLAT)
    rng = np.random.default_rng(5)
    for step in range(12):
        new = pairs(3, seed=100 + step)
        kind = rng.choice(["add", "forget", "replace", "compact"])
        live = [number for number, _ in open_store(folder).sentences.present()]
        if kind == "add" or len(live) < 3:
            add_pairs(folder, new, MODEL, cleaning=None)
        elif kind == "forget":
            chosen = rng.choice(live, 2, replace=False)
            forget_sentences(folder, Selection(sentences=tuple(int(number) for number in chosen)))
        elif kind == "replace":
            replace_sentence(folder, int(rng.choice(live)), f"new {step}", MODEL)
        else:
            compact_memory(folder)
        memory, store = open_memory(folder), open_store(folder)
        as_stored(remote(address), store)
        asked = queries(store)
        np.testing.assert_array_equal(memory.search(asked, 4).distances, ExactIndex(store).search(asked, 4).distances)


@pytest.fixture
def memory(tmp_path: Path, place: Place) -> MilvusMemory:
    address = place()
    publish_store(built(tmp_path / "store", 10), address, FLAT)
    return remote(address)


def test_edits_of_a_collection(tmp_path: Path, memory: MilvusMemory) -> None:
    known = dict(memory.sentences.present())
    before = memory.collection.count(fresh=True)
    new = pairs(5, seed=77)
    report = memory.add(new, MODEL, cleaning=None)
    assert len(report.added) == len(set(report.added)) == 5
    assert report.commit
    assert memory.numbers_of(new) == report.added
    assert set(memory.sentences.pairs(report.added).values()) == set(new)
    again = memory.add(new, MODEL, cleaning=None)
    assert (again.added, again.repeated, again.commit) == ((), 5, None)
    # As if they had been there from the start:
    everything = build_store(MODEL, [*known.values(), *new], tmp_path / "all", cleaning=None)
    asked = queries(everything)
    np.testing.assert_allclose(
        memory.search(asked, 5).distances, ExactIndex(everything).search(asked, 5).distances, rtol=1e-4, atol=1e-3
    )
    corrected = memory.replace(report.added[0], "something else", MODEL)
    assert corrected.forgotten == report.added[:1]
    assert report.added[0] not in memory.sentences
    assert memory.sentences[corrected.added[0]].target == "something else"
    memory.forget(Selection(sentences=corrected.added + report.added[1:]))
    assert memory.collection.count(fresh=True) == before
    assert dict(memory.sentences.present()) == known


def test_a_pair_with_an_id_replaces_another(memory: MilvusMemory) -> None:
    rng = np.random.default_rng(1)
    first, second = pair(rng, own="7"), pair(rng, own="7")
    [number] = memory.add([first], MODEL, cleaning=None).added
    report = memory.add([second], MODEL, cleaning=None)
    assert report.forgotten == (number,)
    assert [each for _, each in memory.sentences.present() if each.id == "7"] == [second]


def test_matches_are_those_of_the_same_memory_in_files(tmp_path: Path, place: Place) -> None:
    store, address = built(tmp_path / "store"), place()
    publish_store(store, address, FLAT)
    memories = open_memory(tmp_path / "store", "it"), open_memory(str(address), "it")
    sources = [pair.source for pair in store.sentences]
    for tag in (None, "client-a"):
        local, server = (SegmentMatches([memory], tag) for memory in memories)
        for text in [*sources, "  red  dog ", "red dgo", "nothing like it"]:
            assert server.exact(text) == local.exact(text)
            assert server.near(text) == local.near(text)
        assert any(local.exact(text) for text in sources)


def test_a_match_that_was_added_or_forgotten_is_noticed(memory: MilvusMemory) -> None:
    matches = SegmentMatches([memory])
    assert matches.exact("Seite %d") is None
    new = SentencePair("Seite %d", "Page %d", Origin("made", "1"))
    [number] = memory.add([new], MODEL, cleaning=None).added
    match = matches.exact("Seite {n}")
    assert match is not None
    assert (match.sentence, match.pair, match.text) == (number, new, "Page {n}")
    memory.collection.delete_sentences([number])  # as another process does
    assert matches.exact("Seite %d") is None


def test_an_overview_counts_like_that_of_the_files(tmp_path: Path, place: Place) -> None:
    store, address = built(tmp_path / "store"), place()
    measure_margin(store)
    publish_store(store, address, FLAT)
    texts = [f"▁t{number}" for number in range(store.manifest.vocabulary_size)]
    local, server = (each.overview(texts) for each in (open_memory(tmp_path / "store"), remote(address)))
    for name in ("entries", "sentences", "dimension", "known", "known_ratio", "margins", "unmeasured"):
        assert getattr(server, name) == getattr(local, name), name
    for sentence in (0, 7):
        shown = [each.stored_sentence(sentence, texts) for each in (FolderMemory.of(store, "it"), remote(address))]
        assert [(one.position, one.token, one.known, one.margin) for one in shown[0].entries] == [
            (one.position, one.token, one.known, one.margin) for one in shown[1].entries
        ]
        assert (shown[0].source, shown[0].origin, shown[0].tag) == (shown[1].source, shown[1].origin, shown[1].tag)
    assert len(remote(address).key_map(texts).x) > 0


def test_a_tag_filters_like_in_files(tmp_path: Path, place: Place) -> None:
    store, address = built(tmp_path / "store"), place()
    publish_store(store, address, FLAT)
    local, server, asked = open_memory(tmp_path / "store"), open_memory(str(address)), queries(store)
    for tag in ("client-a", 'quo"te\\d'):
        expected = local.tagged(tag).search(asked, 4)
        assert {store.sentences[int(store.sentence[entry])].origin.tag for entry in expected.ids[:, 0]} == {tag}
        found = server.tagged(tag).search(asked, 4)
        np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-4, atol=1e-3)
    for memory in (local, server):
        with pytest.raises(SettingError, match="no sentence of"):
            memory.tagged("nobody")


def test_excluded_sentences_are_not_found(tmp_path: Path, place: Place) -> None:
    store, address = built(tmp_path / "store"), place()
    publish_store(store, address, FLAT)
    asked, without = queries(store), [0, 3, 7]
    expected = ExactIndex(store).search(asked, store.entries)
    found = open_memory(str(address)).excluding(without).search(asked, 5)
    kept = ~np.isin(store.sentence[expected.ids], without)
    wanted = np.stack([distances[keep][:5] for distances, keep in zip(expected.distances, kept, strict=True)])
    np.testing.assert_allclose(found.distances, wanted, rtol=1e-4, atol=1e-3)


def test_lossy_codes_are_reranked_by_the_keys_on_the_server(tmp_path: Path, place: Place) -> None:
    store, address = built(tmp_path / "store"), place()
    publish_store(store, address, CollectionKind.parse("milvus:IVF_SQ8", nprobe=1000))
    asked = queries(store)
    found = open_memory(str(address)).search(asked, 3)
    np.testing.assert_allclose(found.distances, ExactIndex(store).search(asked, 3).distances, rtol=1e-4, atol=1e-3)


@lite_only
def test_limits(memory: MilvusMemory) -> None:
    with pytest.raises(IndexingError, match="at most 16,384"):
        memory.search(np.zeros((1, memory.dimension), np.float32), 16_385)
    with pytest.raises(IndexingError, match="4-dimensional"):
        memory.search(np.zeros((1, 3), np.float32), 2)
    with pytest.raises(StoreError, match="needs the files of the store"):
        _ = memory.store
    few = memory.search(np.zeros((2, memory.dimension), np.float32), 10_000)
    entries = memory.collection.count()
    assert (few.ids[:, entries:] == -1).all()
    assert np.isinf(few.distances[:, entries:]).all()
    assert (few.values[:, entries:] == -1).all()


@lite_only
def test_another_model_is_refused(tmp_path: Path, memory: MilvusMemory) -> None:
    other_model = RuleModel(fingerprint="e" * 64)
    with pytest.raises(StoreError, match="another model"):
        memory.add(pairs(1), other_model, cleaning=None)
    other = build_store(other_model, pairs(3), tmp_path / "other", cleaning=None)
    address = memory.collection.address
    with pytest.raises(StoreError, match="a memory of another model"):
        publish_store(other, address, FLAT)
    with pytest.raises(StoreError, match="no such memory"):
        Collection.open(MilvusAddress(address.uri, "nothing_here"))
