"""Long texts without the end of a sentence: they are cut before they wait, so that nobody waits long for them."""

from __future__ import annotations

import json
import tempfile
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from starlette.testclient import TestClient

from lacuna.documents.paragraphs import fitting
from lacuna.models import Model
from lacuna.records import Translation
from lacuna.serving import Engine, ServerLimits, create_app
from lacuna.serving import engine as engine_module
from lacuna.serving.engine import Job, Result
from lacuna.serving.service import UNTRANSLATED
from unit.serving.test_documents import ROUTE, finished, send

BATCH = 400  # bytes
ICU = "{a, plural, other {" * 200
WORDS = "ein see und " * 300
KANJI = "山" * 1500
GOTHIC = "𐌰𐌱 " * 600  # four bytes each
LIGATURES = "ﷺ " * 100  # 18 characters each for most tokenizers
DOCUMENTS = [
    ("a.json", json.dumps({"message": ICU})),
    ("a.txt", WORDS),
    ("a.txt", KANJI),
    ("a.html", f"<p>{GOTHIC}</p>"),
    ("a.txt", LIGATURES),
    ("a.po", f'msgid "{WORDS}"\nmsgstr ""\n'),
    ("a.json", json.dumps({str(number): f"ja {number}" for number in range(200)})),
]


class Gated(Engine):
    """Notes every batch, goes on when it may, and translates nothing."""

    def prepare(self) -> Gated:
        self.begun, self.go = Event(), Event()
        self.batches: list[list[str]] = []
        return self

    def run(self, job: Job, texts: list[str]) -> list[Result | Exception]:
        self.batches.append(texts)
        self.begun.set()
        assert self.go.wait(60)
        return [Translation(text, text, 0.0, 1) for text in texts]

    @property
    def largest(self) -> int:
        """Bytes of the largest batch, as most tokenizers read it."""
        return max(len(unicodedata.normalize("NFKC", "".join(batch)).encode()) for batch in self.batches)


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def gated(model: Model) -> Iterator[Gated]:
    engine = Gated(model).prepare()
    yield engine
    engine.go.set()


@pytest.fixture
def client(gated: Gated) -> Iterator[TestClient]:
    limits = ServerLimits(batch_bytes=BATCH, max_texts=50)
    with TestClient(create_app(gated, limits), raise_server_exceptions=False) as client:
        yield client
        gated.go.set()


def waiting(client: TestClient, count: int) -> None:
    while f"lacuna_waiting_sentences {count}.0" not in client.get("/metrics").text:
        pass


@pytest.mark.parametrize(("name", "content"), DOCUMENTS)
def test_a_request_waits_for_one_batch_of_a_document(gated: Gated, client: TestClient, name: str, content: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        id = send(client, name, content).json()["id"]
        assert gated.begun.wait(60)
        asking = pool.submit(client.post, "/api/v1/translate", json={"texts": ["hallo"]})
        waiting(client, 1)
        gated.go.set()
        assert asking.result().status_code == 200
        assert finished(client, id)["status"] == "done"
    assert gated.batches[1] == ["hallo"]
    assert gated.largest <= BATCH


@pytest.mark.parametrize(("name", "content"), DOCUMENTS)
def test_a_deleted_document_stops_after_the_batch_that_runs(
    gated: Gated, client: TestClient, name: str, content: str
) -> None:
    id = send(client, name, content).json()["id"]
    assert gated.begun.wait(60)
    client.delete(f"{ROUTE}/{id}")
    gated.go.set()
    assert finished(client, send(client, "b.txt", "12").json()["id"])["status"] == "done"
    assert len(gated.batches) == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/translate", {"texts": [WORDS]}),
        ("/api/v1/translate", {"texts": [WORDS], "lines": True}),
        ("/api/v1/translate", {"texts": [f"<p>{ICU}</p>"], "format": "html"}),
        ("/translate", {"q": GOTHIC, "source": "de", "target": "en"}),
        ("/translate", {"q": [WORDS, ICU], "source": "de", "target": "en"}),
    ],
)
def test_a_long_text_of_a_request_is_cut_too(gated: Gated, client: TestClient, path: str, body: Any) -> None:
    gated.go.set()
    assert client.post(path, json=body).status_code == 200
    assert gated.largest <= BATCH


def test_what_cannot_be_cut_does_not_wait_in_the_queue(gated: Gated, client: TestClient) -> None:
    gated.go.set()
    word, address = "x" * 2000, f"https://example.org/{'y' * 2000}"
    report = finished(client, send(client, "a.txt", f"ja {word} nein\n").json()["id"])["report"]
    assert [one["reason"] for one in report["least_sure"]] == [UNTRANSLATED]
    answer = client.post("/api/v1/translate", json={"texts": [word]})
    assert (answer.status_code, "without a place to cut" in answer.json()["error"]) == (413, True)
    assert word not in [text for batch in gated.batches for text in batch]
    # A placeholder is one token for the model, however long it is.
    assert client.post("/api/v1/translate", json={"texts": [f"Siehe {address}"]}).status_code == 200


def test_a_character_may_be_many_tokens(model: Model) -> None:
    text = "㎯" * (model.max_length // 4 - 2)  # read as rad∕s2
    assert len(model.encode_sources([text])[0]) > model.max_length
    assert not fitting(model)(text)


def test_pairs_of_a_request_are_read_once(model: Model, monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    made: list[Any] = []
    own = {"source": "der gute see", "target": "the good lake"}
    make = engine_module.make_unsaved_store
    monkeypatch.setattr(engine_module, "make_unsaved_store", lambda *given: made.append(given) or make(*given))
    with TestClient(create_app(engine, ServerLimits(batch_texts=1))) as client:
        answer = client.post("/api/v1/translate", json={"texts": ["ja", "ein see", "ja ja"], "pairs": [own]})
        assert answer.status_code == 200
    assert len(made) == 1
