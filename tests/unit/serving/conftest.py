"""A tiny server: a model with random weights, two memories, one combiner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from lacuna.combiners import Vanilla
from lacuna.datastore import build_store
from lacuna.index import build_index
from lacuna.margin import measure_margin
from lacuna.memory import Memory, open_memory
from lacuna.models import Model, load_model
from lacuna.records import Languages, Origin, SentencePair
from lacuna.serving import Engine, create_app
from unit.models.tiny_models import SOURCES, TARGETS, Zoo

LOCAL = "http://localhost"
PAIRS = [SentencePair(s, t, Origin("tiny", str(n + 1))) for n, (s, t) in enumerate(zip(SOURCES, TARGETS, strict=True))]


def remember(model: Model, pairs: list[SentencePair], into: Path) -> Memory:
    build_index(build_store(model, pairs, into))
    return open_memory(into)


@pytest.fixture(scope="session", autouse=True)
def local_clients() -> Iterator[None]:
    """Let test clients ask for localhost: a server without a key answers to no other name."""
    original = TestClient.__init__

    def init(self: TestClient, app: Any, base_url: str = LOCAL, **options: Any) -> None:
        original(self, app, base_url, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TestClient, "__init__", init)
        yield


@pytest.fixture(scope="session")
def memories(model: Model, tmp_path_factory: pytest.TempPathFactory) -> list[Memory]:
    folder = tmp_path_factory.mktemp("stores")
    all_of_it, half = remember(model, PAIRS, folder / "all"), remember(model, PAIRS[:2], folder / "half")
    measure_margin(all_of_it.store)
    return [all_of_it, half]


@pytest.fixture(scope="session")
def engine(model: Model, memories: list[Memory]) -> Engine:
    """With a combiner that reproduces the memory, so that translations are known in advance."""
    return Engine(model, memories, {"all": Vanilla(k=1, knn_weight=1.0), "gentle": Vanilla(k=4, knn_weight=0.1)})


@pytest.fixture(scope="session")
def client(engine: Engine) -> Iterator[TestClient]:
    with TestClient(create_app(engine), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="session")
def chinese(zoo: Zoo, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Another direction, with a memory ``law``."""
    model = load_model(zoo.folder("m2m100"), languages=Languages("zh", "en"), device="cpu")
    memory = remember(model, PAIRS, tmp_path_factory.mktemp("law") / "law")
    return Engine(model, [memory], {"law": Vanilla(k=1, knn_weight=1.0)})


@pytest.fixture(scope="session")
def both(engine: Engine, chinese: Engine) -> Iterator[TestClient]:
    """A server of two directions."""
    with TestClient(create_app([engine, chinese]), raise_server_exceptions=False) as client:
        yield client
