"""A server with the tiny model, and the system's Chromium."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
import uvicorn

from lacuna.combiners import Vanilla
from lacuna.datastore import build_store
from lacuna.index import build_index
from lacuna.margin import measure_margin
from lacuna.memory import Memory, open_memory
from lacuna.models import Model, load_model
from lacuna.records import Languages, Origin, SentencePair
from lacuna.serving import Access, Engine, create_app
from lacuna.serving.app import listen
from lacuna.translator.calibration import Calibration
from unit.models.tiny_models import SOURCES, TARGETS, Zoo

BY_HEART = Vanilla(k=1, knn_weight=1.0)
CALIBRATION = Calibration((1.0, 0.5), (-5.0, 5.0), (0.1, 0.9), 8)
CHINESE = "今天天气很好。"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def remember(model: Model, pairs: list[tuple[str, str]], into: Path) -> Memory:
    made_up = [SentencePair(s, t, Origin("tiny", str(n + 1))) for n, (s, t) in enumerate(pairs)]
    build_index(build_store(model, made_up, into))
    memory = open_memory(into)
    measure_margin(memory.store)
    return memory


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Two memories with different translations of the same sentence."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("browser")
    model = Zoo(folder).model("marian")
    dogs = remember(model, list(zip(SOURCES, TARGETS, strict=True)), folder / "dogs")
    houses = remember(model, [(SOURCES[2], TARGETS[0])], folder / "houses")
    return Engine(model, [dogs, houses], {"dogs": BY_HEART, "houses": BY_HEART}, {"dogs": CALIBRATION})


@pytest.fixture(scope="session")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Another direction, with a memory of its own."""
    folder = tmp_path_factory.mktemp("chinese")
    model = load_model(Zoo(folder).folder("m2m100"), languages=Languages("zh", "en"), device="cpu")
    return Engine(model, [remember(model, [(CHINESE, TARGETS[1])], folder / "weather")], {"weather": BY_HEART})


def running(app: Any) -> Iterator[str]:
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def address(engine: Engine) -> Iterator[str]:
    yield from running(create_app(engine))


@pytest.fixture(scope="session")
def locked_address(engine: Engine) -> Iterator[str]:
    yield from running(create_app(engine, access=Access("sesame")))


@pytest.fixture(scope="session")
def two_directions(engine: Engine, chinese: Engine) -> Iterator[str]:
    yield from running(create_app([engine, chinese]))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any, address: str) -> Iterator[Any]:
    yield from watched(chromium, address)


@pytest.fixture
def two_way_page(chromium: Any, two_directions: str) -> Iterator[Any]:
    """The page of a server with two directions."""
    yield from watched(chromium, two_directions)


@pytest.fixture
def editable_page(chromium: Any, engine: Engine, tmp_path: Path) -> Iterator[Any]:
    """The page of a server that takes edits, with a memory of its own."""
    for address in running(create_app(learner(engine, tmp_path), access=Access(writable=True))):
        yield from watched(chromium, address)


def learner(engine: Engine, folder: Path) -> Engine:
    dogs = remember(engine.model, list(zip(SOURCES, TARGETS, strict=True)), folder / "dogs")
    return Engine(engine.model, [dogs], {"dogs": BY_HEART})


def watched(chromium: Any, address: str) -> Iterator[Any]:
    """A page that must not log errors or send requests to other servers."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    # The browser logs error responses, which the page shows.
    shown = tuple(f"responded with a status of {status}" for status in (400, 403, 413))
    page.on("console", lambda said: None if any(one in said.text for one in shown) else complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(address) else complaints.append(request.url))
    page.goto(address)
    yield page
    context.close()
    assert complaints == []
