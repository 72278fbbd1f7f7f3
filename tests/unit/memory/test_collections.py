"""Edits of a collection, with a dict in place of Milvus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest

from lacuna.errors import StoreError
from lacuna.memory.collection_edits import add_to_collection, replace_in_collection
from lacuna.memory.lookup import pair_key
from lacuna.milvus import CollectionStore
from lacuna.records import Origin, SentencePair
from unit.memory.rule_model import RuleModel

MODEL = RuleModel()
LONG = " ".join(["very"] * 50)


class Sentences(dict[int, SentencePair]):
    """Stands for the collection and for its store."""

    name = address = "milvus://nowhere/it"
    mean = np.zeros(4, np.float32)

    @property
    def collection(self) -> Sentences:
        return self

    @property
    def sentences(self) -> Any:
        found = dict(self)

        class Found(dict[int, SentencePair]):
            def __call__(self, numbers: Sequence[int], fresh: bool = False) -> dict[int, SentencePair]:
                return {number: found[number] for number in numbers if number in found}

        return Found(found)

    def check_model(self, model: object) -> None: ...

    def sentences_like(self, keys: Sequence[tuple[str, ...]]) -> dict[int, SentencePair]:
        return {number: pair for number, pair in self.items() if pair_key(pair) in keys}

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


def one(source: str, target: str, own: str | None = None) -> SentencePair:
    return SentencePair(source, target, Origin("made.tsv", "1"), own)


@pytest.fixture
def store() -> Any:
    sentences = Sentences()
    add_to_collection(cast(CollectionStore, sentences), [one("rot", "red", "r")], MODEL, cleaning=None)
    return sentences


def test_a_pair_that_is_too_long_does_not_remove_the_one_with_its_id(store: Any) -> None:
    new = [one("rot", LONG, "r"), one("weiß", "white", "w"), one("grau", LONG)]
    report = add_to_collection(store, new, MODEL, cleaning=None)
    assert sorted(pair.target for pair in store.values()) == ["red", "white"]
    assert (len(report.added), report.forgotten, report.skipped, report.kept) == (1, (), 2, 1)
    again = add_to_collection(store, new, MODEL, cleaning=None)
    assert (again.commit, again.repeated, again.skipped, again.kept) == (None, 1, 2, 1)
    add_to_collection(store, [one("rot", "crimson", "r")], MODEL, cleaning=None)
    assert sorted(pair.target for pair in store.values()) == ["crimson", "white"]


def test_what_is_too_long_altogether_is_refused(store: Any) -> None:
    with pytest.raises(StoreError, match="nothing to add, all 1 pairs are too long for the model"):
        add_to_collection(store, [one("rot", LONG, "r")], MODEL, cleaning=None)
    [number] = store
    with pytest.raises(StoreError, match="the corrected pair is too long for the model; shorten it"):
        replace_in_collection(store, number, LONG, MODEL)
    assert [pair.target for pair in store.values()] == ["red"]
