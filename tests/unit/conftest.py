"""The bundled model with a small memory whose margins are measured."""

from __future__ import annotations

import pytest

from lacuna.datastore import build_store
from lacuna.index import build_index
from lacuna.margin import measure_margin
from lacuna.memory import Memory, open_memory
from lacuna.models import Model
from lacuna.records import Origin, SentencePair

SUBJECTS = {"Der Hund": "The dog", "Die Frau": "The woman", "Ein Mann": "A man", "Das Kind": "The child"}
REST = {"schläft im Haus": "is sleeping in the house", "liest ein Buch": "reads a book", "ist nicht da": "is away"}


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
