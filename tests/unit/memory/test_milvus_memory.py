"""A memory in Milvus, with a dict in place of the server: edits, and matches that follow the edits of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from lacuna.datastore.manifest import describe_model
from lacuna.errors import SettingError, StoreError, UnavailableError
from lacuna.memory import MilvusMemory, SegmentMatches, Selection, milvus_memory
from lacuna.memory.lookup import pair_key
from lacuna.milvus import Collection, MilvusAddress
from lacuna.records import Origin, SentencePair
from unit.memory.rule_model import RuleModel

MODEL = RuleModel()
LONG = " ".join(["very"] * 50)


class FakeCollection(dict[int, SentencePair]):
    """The sentences of a collection, and how often they were read."""

    address = MilvusAddress("http://nowhere:1", "it")
    mean = np.zeros(4, np.float32)
    info = SimpleNamespace(model=describe_model(MODEL))
    reads = 0
    away = False

    def sentences(self, numbers: Sequence[int], fresh: bool = False) -> dict[int, SentencePair]:
        if self.away:
            raise UnavailableError("away")
        return {number: self[number] for number in numbers if number in self}

    def sentences_like(self, keys: Sequence[tuple[str, ...]]) -> dict[int, SentencePair]:
        return {number: pair for number, pair in self.items() if pair_key(pair) in keys}

    def all_sentences(self) -> Iterator[tuple[int, SentencePair]]:
        self.reads += 1
        return iter(sorted(self.items(), key=lambda item: item[0]))

    def sentence_numbers(self) -> list[int]:
        return sorted(self)

    def write_sentences(self, pairs: dict[int, SentencePair], key: Callable[[SentencePair], object]) -> None:
        self.update(pairs)

    def write_entries(self, rows: object) -> None: ...

    def settle(self) -> None: ...

    def delete_sentences(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            del self[number]

    def count(self, fresh: bool = False) -> int:
        return len(self)

    count_sentences = count


def one(source: str, target: str, own: str | None = None, tag: str | None = None) -> SentencePair:
    return SentencePair(source, target, Origin("made.tsv", "1", tag), own)


@pytest.fixture
def server() -> FakeCollection:
    return FakeCollection()


@pytest.fixture
def memory(server: FakeCollection) -> MilvusMemory:
    made = MilvusMemory(cast(Collection, server))
    made.add([one("rot", "red", "r")], MODEL, cleaning=None)
    return made


def test_a_pair_that_is_too_long_does_not_remove_the_one_with_its_id(
    memory: MilvusMemory, server: FakeCollection
) -> None:
    new = [one("rot", LONG, "r"), one("weiß", "white", "w"), one("grau", LONG)]
    report = memory.add(new, MODEL, cleaning=None)
    assert sorted(pair.target for pair in server.values()) == ["red", "white"]
    assert (len(report.added), report.forgotten, report.skipped, report.kept) == (1, (), 2, 1)
    again = memory.add(new, MODEL, cleaning=None)
    assert (again.commit, again.repeated, again.skipped, again.kept) == (None, 1, 2, 1)
    memory.add([one("rot", "crimson", "r")], MODEL, cleaning=None)
    assert sorted(pair.target for pair in server.values()) == ["crimson", "white"]


def test_what_is_too_long_altogether_is_refused(memory: MilvusMemory, server: FakeCollection) -> None:
    with pytest.raises(StoreError, match="nothing to add, all 1 pairs are too long for the model"):
        memory.add([one("rot", LONG, "r")], MODEL, cleaning=None)
    [number] = server
    with pytest.raises(StoreError, match="the corrected pair is too long for the model; shorten it"):
        memory.replace(number, LONG, MODEL)
    assert [pair.target for pair in server.values()] == ["red"]


def test_what_needs_files_is_refused(memory: MilvusMemory, tmp_path: Path) -> None:
    for refused in (lambda: memory.store, lambda: memory.keeping(np.ones(1, np.bool_))):
        with pytest.raises(StoreError, match=r"milvus://nowhere:1/it: this needs the files of the store"):
            refused()
    with pytest.raises(SettingError, match=r"^prune: needs the margins of a memory in files; leave it out"):
        memory.add([one("rot", "red")], MODEL, prune=True)
    with pytest.raises(SettingError, match=r"^receipt: a receipt is about files; leave it out"):
        memory.forget(Selection(tag="x"), receipt=tmp_path)


def test_matches_follow_the_edits_of_this_process_at_once(memory: MilvusMemory, server: FakeCollection) -> None:
    matches = SegmentMatches([memory])
    found = matches.exact(" rot ")
    assert found is not None
    assert (found.text, found.memory, found.pair) == ("red", "it", one("rot", "red", "r"))
    memory.add([one("Datei %s", "File %s")], MODEL, cleaning=None)
    found = matches.exact("Datei {name}")
    assert found is not None
    assert found.text == "File {name}"
    [near] = matches.near("Dateien %s")
    assert (near.text, near.similarity) == ("File %s", pytest.approx(1 - 2 / len("Dateien _")))
    memory.replace(found.sentence, "The file %s", MODEL)
    replaced = matches.exact("Datei %s")
    assert replaced is not None
    assert replaced.text == "The file %s"
    memory.forget(Selection(sentences=(replaced.sentence,)))
    assert matches.exact("Datei %s") is None
    assert server.reads == 1  # all sentences are read once, then only what is new


def test_matches_follow_the_edits_of_others_after_a_while(
    memory: MilvusMemory, server: FakeCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    matches = SegmentMatches([memory])
    assert matches.exact("rot") is not None
    [number] = server
    del server[number]
    server[7] = one("blau", "blue", tag="color")
    assert matches.exact("rot") is None  # a match is always read again
    assert matches.near("rot") == []
    assert matches.exact("blau") is None
    monkeypatch.setattr(milvus_memory, "time", SimpleNamespace(monotonic=lambda: 1e12))
    assert matches.exact("blau") is not None
    assert SegmentMatches([memory], "color").exact("blau") is not None
    assert SegmentMatches([memory], "other").exact("blau") is None
    assert memory.sources().numbers == {7}


def test_matches_without_a_server(memory: MilvusMemory, server: FakeCollection) -> None:
    assert SegmentMatches([memory]).exact("rot") is not None
    server.away = True
    with pytest.raises(UnavailableError):
        SegmentMatches([memory]).exact("rot")
    assert SegmentMatches([memory], fallback=True).exact("rot") is None
    assert SegmentMatches([memory], fallback=True).near("rot") == []
