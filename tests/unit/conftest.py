"""A small store made without torch, and a small memory of the bundled model whose margins are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from lacuna.datastore import Store, build_store
from lacuna.index import build_index
from lacuna.margin import measure_margin
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.records import Origin, SentencePair
from made_up import make_pairs
from unit.datastore.numpy_model import NumpyModel

SUBJECTS = {"Der Hund": "The dog", "Die Frau": "The woman", "Ein Mann": "A man", "Das Kind": "The child"}
REST = {"schläft im Haus": "is sleeping in the house", "liest ein Buch": "reads a book", "ist nicht da": "is away"}


@pytest.fixture
def small_store(tmp_path: Path) -> Store:
    """120 sentences in several shards."""
    return build_store(
        NumpyModel(), make_pairs(120), tmp_path / "store", cleaning=None, batch_tokens=64, shard_rows=300
    )


@pytest.fixture(scope="module")
def pairs() -> list[SentencePair]:
    return [
        SentencePair(f"{subject} {rest}.", f"{translated} {end}.", Origin("made up", f"{subject} {rest}"))
        for subject, translated in SUBJECTS.items()
        for rest, end in REST.items()
    ]


@pytest.fixture(scope="module")
def memory(bundled: Model, pairs: list[SentencePair], tmp_path_factory: pytest.TempPathFactory) -> Memory:
    store = build_store(bundled, pairs, tmp_path_factory.mktemp("memory") / "store")
    build_index(store)
    measure_margin(store)
    return open_memory(store.path)
