"""The JSON API, with a random model and a combiner that reproduces its memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from starlette.testclient import TestClient

from lacuna.combiners import Vanilla
from lacuna.decoding import BeamSettings
from lacuna.errors import SettingError
from lacuna.explanation.explainer import Explainer
from lacuna.memory import FolderMemory, Memory
from lacuna.models import Model
from lacuna.records import Translation
from lacuna.serving import Engine, ServerLimits, create_app
from lacuna.serving.engine import Job, Result
from lacuna.serving.limits import RequestError
from plain_systems import open_plain
from unit.models.tiny_models import SOURCES, TARGETS


def translated(client: TestClient, **body: Any) -> list[str]:
    answer = client.post("/api/v1/translate", json=body)
    assert answer.status_code == 200, answer.text
    return [one["text"] for one in answer.json()["translations"]]


def test_the_first_memory_and_its_combiner_are_used_by_themselves(client: TestClient) -> None:
    answer = client.post("/api/v1/translate", json={"texts": SOURCES}).json()
    assert [one["text"] for one in answer["translations"]] == TARGETS
    assert (answer["memories"], answer["combiner"]) == (["all"], "all")


def test_no_memory_is_the_plain_model(client: TestClient, model: Model) -> None:
    plain = [one.text for one in open_plain(model).translate(SOURCES)]
    assert translated(client, texts=SOURCES, memories=[]) == plain


def test_memories_are_mixed_with_settings_of_the_clients_own(
    client: TestClient, model: Model, memories: list[Memory]
) -> None:
    expected = open_plain(model, memories, Vanilla(3, 0.6, 5.0), BeamSettings(beam=2)).translate(SOURCES)
    mixed = {"memories": ["half", "all"], "combiner": {"k": 3, "knn_weight": 0.6, "temperature": 5.0}, "beam": 2}
    assert translated(client, texts=SOURCES, **mixed) == [one.text for one in expected]


def test_lines_are_sentences_and_line_breaks_stay(client: TestClient) -> None:
    assert translated(client, texts=[f"{SOURCES[0]}\n\n  \n{SOURCES[3]}\n", "", SOURCES[1]]) == [
        f"{TARGETS[0]}\n\n  \n{TARGETS[3]}\n",
        "",
        TARGETS[1],
    ]


def test_an_explanation_is_the_explainers(client: TestClient, model: Model, memories: list[Memory]) -> None:
    body = {"text": f" {SOURCES[2]}\n", "memories": ["all"], "combiner": {"k": 4}, "without": [2, 0]}
    answer = client.post("/api/v1/explain", json=body).json()
    [expected] = Explainer(open_plain(model, memories[:1], Vanilla(k=4)), without=[0, 2]).explain([SOURCES[2]])
    assert answer["text"] == expected.text
    assert answer["base_text"] == expected.base_text
    assert answer["without"] == [0, 2]
    assert [token["text"] for token in answer["tokens"]] == [token.text for token in expected.tokens]
    assert all(near["sentence"] in (1, 3) for token in answer["tokens"] for near in token["neighbors"])
    assert answer["tokens"][0]["neighbors"][0]["origin"].startswith("tiny:")


def test_clients_at_the_same_time_share_a_batch(model: Model, memories: list[Memory]) -> None:
    gate, begun, sizes = Event(), Event(), []

    class Slow(Engine):
        def run(self, job: Job, texts: list[str]) -> list[Result | Exception]:
            sizes.append(len(texts))
            begun.set()
            assert gate.wait(60)
            return super().run(job, texts)

    app = create_app(Slow(model, memories, {"all": Vanilla(k=1, knn_weight=1.0)}))
    with TestClient(app) as client, ThreadPoolExecutor(9) as pool:
        first = pool.submit(translated, client, texts=["ja"])
        assert begun.wait(60)
        others = [pool.submit(translated, client, texts=[SOURCES[n % 4]]) for n in range(8)]
        while "lacuna_waiting_sentences 8.0" not in client.get("/metrics").text:
            pass
        gate.set()
        assert first.result() == ["yes"]
        assert [one.result() for one in others] == [[TARGETS[n % 4]] for n in range(8)]
    assert sizes == [1, 8]


def test_info_says_what_there_is(client: TestClient) -> None:
    info = client.get("/api/v1/info").json()
    assert info["model"] == "marian"  # not where it lies
    assert (info["source"], info["target"], info["combiners"]) == ("de", "en", ["all", "gentle"])
    assert [(one["name"], one["sentences"], one["combiner"]) for one in info["memories"]] == [
        ("all", 4, "all"),
        ("half", 2, None),
    ]
    assert client.get("/api/v1/memories").json() == info["memories"]
    described = {"source": "de", "target": "en", "model": "marian", "memories": ["all", "half"], "calibrated": False}
    assert info["directions"] == [described]
    assert {".txt", ".po", ".html"} <= set(info["file_suffixes"])
    assert info["limits"]["max_file_bytes"] == 16 << 20


def test_entries_of_a_sentence(client: TestClient, memories: list[Memory]) -> None:
    answer = client.get("/api/v1/memories/all/sentences/1").json()
    assert (answer["source"], answer["target"], answer["origin"]) == (SOURCES[1], TARGETS[1], "tiny:2")
    store = memories[0].store
    rows = [n for n in range(store.entries) if store.sentence[n] == 1]
    assert [entry["entry"] for entry in answer["entries"]] == rows
    assert [entry["known"] for entry in answer["entries"]] == [bool(store.known[n]) for n in rows]
    assert all(isinstance(entry["margin"], int) for entry in answer["entries"])


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "translate", {"texts": ["ja"], "memories": ["none"]}, 400, "'none'; available: all, half"),
        ("POST", "translate", {"texts": ["ja"], "combiner": "none"}, 400, "available: all, gentle"),
        ("POST", "translate", {"texts": ["ja"], "memories": ["half"], "combiner": {"k": 60}}, 400, "only 36 entries"),
        ("POST", "translate", {"texts": []}, 422, "texts"),
        ("POST", "translate", {"texts": ["ja"], "beams": 2}, 422, "beams"),
        ("POST", "translate", {"texts": ["x" * 200]}, 413, "the model takes 64"),
        ("POST", "translate", {"texts": ["ja"], "source": "fr"}, 400, "source: got 'fr'; this server translates de to"),
        ("POST", "translate", {"texts": ["ja"], "target": "de"}, 400, "target: got 'de'; this server translates de to"),
        ("POST", "translate", {"texts": ["ja"], "memories": ["all"], "source": "fr"}, 400, "translates de to en"),
        ("POST", "translate", {"texts": ["ja"], "format": "po"}, 422, "format"),
        ("POST", "translate", {"texts": ["ja"], "alternatives": 6}, 422, "alternatives"),
        ("POST", "explain", {"text": " \n"}, 400, "only blanks"),
        ("POST", "explain", {"text": "ja " * 100}, 413, "the model takes 64"),
        ("POST", "matches", {"text": "ja", "memories": ["none"]}, 400, "'none'; available: all, half"),
        ("POST", "matches", {"text": "ja" * 3000}, 413, "allowed are 5,000"),
        ("POST", "detect", {"text": "ja" * 3000}, 413, "allowed are 5,000"),
        ("POST", "explain", {"text": "ja", "without": [4]}, 400, "0 to 3"),
        ("POST", "explain", {"text": "ja", "combiner": {"knn_weight": 1.5}}, 422, "knn_weight"),
        ("GET", "memories/none", None, 404, "available: all, half"),
        ("GET", "memories/all/sentences/4", None, 404, "0 to 3"),
        ("GET", "nothing", None, 404, "Not Found"),
    ],
)
def test_refusals_say_what_is_allowed(
    client: TestClient, method: str, path: str, body: Any, status: int, says: str
) -> None:
    answer = client.request(method, f"/api/v1/{path}", json=body)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert says in answer.json()["error"]


@pytest.mark.parametrize("content", [b'{"texts": ["\\ud800"]}', b'{"texts": [NaN]}', b"{", b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("path", ["/api/v1/translate", "/translate"])
def test_bodies_that_are_no_text_are_refused(client: TestClient, path: str, content: bytes) -> None:
    content = content.replace(b'"texts": [', b'"target": "en", "q": [') if path == "/translate" else content
    answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, list(answer.json())) in [(400, ["error"]), (422, ["error"])]


def test_a_field_whose_name_is_no_text_is_refused(client: TestClient) -> None:
    content, kind = b'{"texts": ["ja"], "\\ud800": 1}', {"Content-Type": "application/json"}
    assert client.post("/api/v1/translate", content=content, headers=kind).status_code == 422


def test_one_sentence_that_is_too_long_does_not_harm_others(engine: Engine) -> None:
    job = Job(engine.resolve_options())
    [short, long, other] = engine.run(job, [SOURCES[0], "x" * 200, SOURCES[1]])
    assert isinstance(long, RequestError)
    assert [one.text for one in (short, other) if isinstance(one, Translation)] == TARGETS[:2]


@pytest.fixture
def stuck(model: Model) -> Iterator[tuple[Engine, Event]]:
    go = Event()

    class Stuck(Engine):
        def run(self, job: Job, texts: list[str]) -> list[Result | Exception]:
            assert go.wait(60)
            return super().run(job, texts)

    yield Stuck(model), go
    go.set()


def test_no_answer_in_time_is_504_and_too_many_waiting_503(stuck: tuple[Engine, Event]) -> None:
    engine, go = stuck
    limits = ServerLimits(max_seconds=0.05, max_texts=2, max_waiting=2)
    with TestClient(create_app(engine, limits)) as client:
        late = client.post("/api/v1/translate", json={"texts": ["ja"]})
        assert (late.status_code, late.json()["error"]) == (504, "no answer within 0.05 seconds; send less, or later")
        client.post("/api/v1/translate", json={"texts": ["ja", "ja"]})
        full = client.post("/api/v1/translate", json={"texts": ["ja"]})
        assert full.status_code == 503
        assert full.headers["Retry-After"] == "1"
        go.set()


def test_names_are_checked(model: Model, memories: list[Memory]) -> None:
    with pytest.raises(SettingError, match="given twice"):
        Engine(model, [memories[0], memories[0]])
    with pytest.raises(SettingError, match="letters, digits"):
        Engine(model, [FolderMemory.of(memories[0].store, "a/b", memories[0].index)])
    with pytest.raises(RequestError, match="only 36 entries"):
        Engine(model, memories, {"half": Vanilla(k=40)})


def test_limits_are_checked() -> None:
    with pytest.raises(SettingError, match="max_texts: got 0"):
        ServerLimits(max_texts=0)
    with pytest.raises(SettingError, match="at most 10 may wait"):
        ServerLimits(max_texts=11, max_waiting=10)
