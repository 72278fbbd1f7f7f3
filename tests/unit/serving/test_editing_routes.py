"""The routes that edit memories: what they do, who may use them, and what they refuse."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from lacuna.artifacts.locks import write_lock
from lacuna.combiners import Vanilla
from lacuna.datastore import open_store
from lacuna.datastore.log import read_log
from lacuna.errors import SettingError
from lacuna.margin import measure_margin
from lacuna.memory import Selection, compact_memory, open_memory
from lacuna.memory.folder_edits import add_pairs, forget_sentences
from lacuna.models import Model
from lacuna.records import Origin, SentencePair, Translation
from lacuna.serving import Access, Engine, ServerLimits, create_app
from lacuna.serving.app import serve
from lacuna.serving.engine import Job
from unit.models.tiny_models import SOURCES, TARGETS
from unit.serving.conftest import PAIRS, remember

LOCAL = "http://127.0.0.1"
NEW = {"source": "der hund steht am see", "target": "the dog stands by the lake"}


@pytest.fixture
def folder(model: Model, tmp_path: Path) -> Path:
    remember(model, PAIRS, tmp_path / "it")
    return tmp_path / "it"


def engine_of(model: Model, folder: Path) -> Engine:
    return Engine(model, [open_memory(folder)], {"it": Vanilla(k=1, knn_weight=1.0)})


@pytest.fixture
def client(model: Model, folder: Path) -> Iterator[TestClient]:
    app = create_app(engine_of(model, folder), access=Access(writable=True))
    with TestClient(app, LOCAL, raise_server_exceptions=False) as client:
        yield client


def add(client: TestClient, *pairs: dict[str, str], **headers: str) -> Any:
    answer = client.post("/api/v1/memories/it/pairs", json={"pairs": pairs}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def translated(client: TestClient, text: str) -> str:
    answer = client.post("/api/v1/translate", json={"texts": [text]})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["translations"][0]["text"])


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_pair_is_on_disk_and_found_when_the_answer_comes(client: TestClient, folder: Path) -> None:
    before = open_store(folder).entries
    assert translated(client, NEW["source"]) != NEW["target"]
    answer = add(client, {**NEW, "tag": "client 7", "id": "a1"})
    store = open_store(folder)
    assert answer == {
        "memory": "it",
        "sentences": [4],
        "added": [4],
        "forgotten": [],
        "commit": 1,
        "entries": store.entries,
    }
    assert store.entries > before
    pair = store.sentences[4]
    assert (pair.source, pair.target, pair.origin.tag, pair.id) == (*NEW.values(), "client 7", "a1")
    assert translated(client, NEW["source"]) == NEW["target"]
    shown = client.get("/api/v1/memories/it/sentences/4").json()
    assert (shown["tag"], shown["id"], shown["origin"][:4]) == ("client 7", "a1", "api:")


def test_margins_are_shown_after_an_edit_with_what_they_lack(model: Model, folder: Path) -> None:
    measure_margin(open_store(folder))
    with TestClient(create_app(engine_of(model, folder), access=Access(writable=True)), LOCAL) as client:
        before = client.get("/api/v1/memories/it").json()
        assert (before["margins_outdated"], before["unmeasured"]) == (False, 0)
        add(client, NEW)
        after = client.get("/api/v1/memories/it").json()
        assert after["margins"] == before["margins"] is not None
        assert (after["margins_outdated"], after["unmeasured"]) == (True, after["entries"] - before["entries"])
        margins = [entry["margin"] for entry in client.get("/api/v1/memories/it/sentences/4").json()["entries"]]
        assert set(margins) == {None}


def test_a_correction_shows_whatever_the_combiner_unless_the_client_has_set_it(model: Model, folder: Path) -> None:
    engine = Engine(model, [open_memory(folder)], {"it": Vanilla(k=1, knn_weight=0.05)})
    with TestClient(create_app(engine, access=Access(writable=True)), LOCAL) as client:
        before = translated(client, NEW["source"])
        add(client, NEW)
        assert translated(client, NEW["source"]) == NEW["target"] != before
        body = {"texts": [NEW["source"]], "combiner": {"k": 1, "knn_weight": 0.0}}
        alone = client.post("/api/v1/translate", json={"texts": [NEW["source"]], "memories": []}).json()
        assert client.post("/api/v1/translate", json=body).json()["translations"] == alone["translations"]


def test_every_pair_gets_its_number(client: TestClient) -> None:
    first = {"source": f"  {SOURCES[1]} ", "target": TARGETS[1]}
    answer = add(client, NEW, first, NEW, {**NEW, "tag": "other"})
    # The second is there with the same texts; the fourth differs by its tag.
    assert (answer["sentences"], answer["added"], answer["commit"]) == ([4, 1, 4, 5], [4, 5], 1)
    again = add(client, NEW)
    assert (again["sentences"], again["added"], again["commit"]) == ([4], [], None)


def test_a_pair_with_the_same_id_is_replaced(client: TestClient) -> None:
    add(client, {**NEW, "id": "x"})
    answer = add(client, {**NEW, "target": "the dog", "id": "x"})
    assert (answer["sentences"], answer["forgotten"], answer["commit"]) == ([5], [4], 2)
    assert translated(client, NEW["source"]) == "the dog"


def test_a_translation_is_corrected(client: TestClient, folder: Path) -> None:
    answer = client.put("/api/v1/memories/it/sentences/2", json={"target": " the  dog "}).json()
    assert (answer["sentences"], answer["added"], answer["forgotten"], answer["commit"]) == ([4], [4], [2], 1)
    assert translated(client, SOURCES[2]) == "the dog"
    assert open_store(folder).sentences[4].source == SOURCES[2]
    assert client.get("/api/v1/memories/it/sentences/2").status_code == 404


def test_a_sentence_is_forgotten_everywhere(client: TestClient, folder: Path) -> None:
    assert "sleeps" in [one["word"] for one in client.get("/api/v1/memories/it").json()["needed_words"]]
    assert 2 in client.get("/api/v1/memories/it/map").json()["sentence"]
    answer = client.delete("/api/v1/memories/it/sentences/2").json()
    assert (answer["sentences"], answer["added"], answer["forgotten"]) == ([], [], [2])
    overview = client.get("/api/v1/memories/it").json()
    assert overview["entries"] == answer["entries"] == open_store(folder).entries
    assert "sleeps" not in [one["word"] for one in overview["needed_words"]]
    assert 2 not in client.get("/api/v1/memories/it/map").json()["sentence"]
    gone = client.get("/api/v1/memories/it/sentences/2")
    assert (gone.status_code, gone.json()) == (404, {"error": "sentence: 2 of it was forgotten; choose another"})
    explained = client.post("/api/v1/explain", json={"text": SOURCES[2]}).json()
    assert {near["sentence"] for token in explained["tokens"] for near in token["neighbors"]} <= {0, 1, 3}
    assert client.delete("/api/v1/memories/it/sentences/2").status_code == 404
    assert [entry.action for entry in read_log(folder)] == ["forget"]


def test_a_memory_may_become_empty_and_be_filled_again(client: TestClient) -> None:
    for number in range(4):
        answer = client.delete(f"/api/v1/memories/it/sentences/{number}")
    assert answer.json()["entries"] == 0
    assert translated(client, "ja")
    assert client.get("/api/v1/memories/it").json()["entries"] == 0
    assert client.get("/api/v1/memories/it/map").json()["x"] == []
    add(client, NEW)
    assert translated(client, NEW["source"]) == NEW["target"]


def test_many_small_segments_are_merged_in_the_background(client: TestClient, folder: Path) -> None:
    words = ["kleine", "gutes", "buch", "hund", "see", "haus", "wir", "ein"]
    for word in words:
        add(client, {"source": word, "target": "yes " + word})
    until(lambda: "compact" in [entry.action for entry in read_log(folder)])
    until(lambda: client.get("/api/v1/memories/it").json()["index"] == "exact")
    assert [translated(client, word) for word in words] == ["yes " + word for word in words]
    store = open_store(folder)
    assert store.segments is not None
    assert len(store.segments) < 8
    add(client, NEW)
    assert translated(client, NEW["source"]) == NEW["target"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "none/pairs", {"pairs": [NEW]}, 404, "'none'; available: it"),
        ("POST", "it/pairs", {"pairs": []}, 422, "pairs"),
        ("POST", "it/pairs", {"pairs": [{**NEW, "note": "x"}]}, 422, "note"),
        ("POST", "it/pairs", {"pairs": [{**NEW, "tag": "x" * 201}]}, 422, "tag"),
        ("POST", "it/pairs", {"pairs": [NEW, {"source": "ja", "target": " "}]}, 400, "pairs.1: empty"),
        ("POST", "it/pairs", {"pairs": [{"source": "ja", "target": "yes " * 40}]}, 400, "lengths too different"),
        ("POST", "it/pairs", {"pairs": [{"source": "ja " * 60, "target": "yes " * 65}]}, 413, "too many for the model"),
        ("POST", "it/pairs", {"pairs": [{"source": "ja", "target": "x" * 501}]}, 413, "allowed are 500"),
        ("POST", "it/pairs", {"pairs": [{"source": f"ja {n}", "target": "yes"} for n in range(9)]}, 413, "9 pairs"),
        ("PUT", "it/sentences/4", {"target": "yes"}, 404, "has sentences 0 to 3"),
        ("PUT", "it/sentences/3", {"target": " "}, 400, "target: empty"),
        ("PUT", "it/sentences/3", {}, 422, "target"),
        ("DELETE", "it/sentences/4", None, 404, "has sentences 0 to 3"),
        ("DELETE", "it/sentences/-1", None, 422, "sentence"),
    ],
)
def test_refusals_change_nothing(
    model: Model, folder: Path, method: str, path: str, body: Any, status: int, says: str
) -> None:
    limits = ServerLimits(max_characters=500, max_texts=8)
    app = create_app(engine_of(model, folder), limits, access=Access(writable=True))
    with TestClient(app, LOCAL) as client:
        answer = client.request(method, f"/api/v1/memories/{path}", json=body)
        assert answer.status_code == status, answer.text
        assert says in answer.json()["error"]
    assert read_log(folder) == []


def test_a_lone_surrogate_is_refused(client: TestClient) -> None:
    content = b'{"pairs": [{"source": "ja", "target": "\\ud800"}]}'
    kind = {"Content-Type": "application/json"}
    assert client.post("/api/v1/memories/it/pairs", content=content, headers=kind).status_code in (400, 422)


EDITS = [
    ("POST", "it/pairs", {"pairs": [NEW]}),
    ("PUT", "it/sentences/0", {"target": "yes"}),
    ("DELETE", "it/sentences/0", None),
]


@pytest.mark.parametrize(("method", "path", "body"), EDITS)
def test_edits_are_off_unless_asked_for(
    client: TestClient, model: Model, folder: Path, method: str, path: str, body: Any
) -> None:
    for access in (Access(), Access("k")):
        with TestClient(create_app(engine_of(model, folder), access=access), LOCAL) as closed:
            closed.headers["Authorization"] = "Bearer k"
            answer = closed.request(method, f"/api/v1/memories/{path}", json=body)
            assert answer.status_code == 403
            assert "start it with a write key" in answer.json()["error"]
            assert closed.get("/api/v1/info").json()["writing"] == "off"
    assert read_log(folder) == []


@pytest.mark.parametrize(("method", "path", "body"), EDITS)
@pytest.mark.parametrize("key", [None, "reader"])
def test_edits_need_the_write_key(
    model: Model, folder: Path, method: str, path: str, body: Any, key: str | None
) -> None:
    with TestClient(create_app(engine_of(model, folder), access=Access(key, "writer"))) as client:
        for header in ({}, {"Authorization": "Bearer reader"}, {"Authorization": "Bearer wrong"}):
            answer = client.request(method, f"/api/v1/memories/{path}", json=body, headers=header)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert read_log(folder) == []
        header = {"Authorization": "Bearer writer"}
        assert client.request(method, f"/api/v1/memories/{path}", json=body, headers=header).status_code == 200
        assert client.get("/api/v1/info", headers=header).json()["writing"] == "key"
        assert client.get("/api/v1/info").status_code == (401 if key else 200)


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"Origin": "http://evil.example"}, "this machine only"),
        ({"Origin": "null"}, "this machine only"),
        ({"Host": "192.168.1.5"}, "this machine only"),
        ({"Host": "evil.example"}, "does not answer to the name"),
    ],
)
def test_foreign_pages_cannot_edit_through_a_browser(client: TestClient, headers: dict[str, str], says: str) -> None:
    answer = client.post("/api/v1/memories/it/pairs", json={"pairs": [NEW]}, headers=headers)
    assert (answer.status_code, says in answer.text) == (403, True)
    add(client, NEW, Origin=LOCAL)


def test_keys_that_contradict_each_other() -> None:
    with pytest.raises(SettingError, match="`write_key` instead"):
        Access("k", writable=True)
    with pytest.raises(SettingError, match="same as the API key"):
        Access("k", "k")


def test_no_edits_without_a_key_from_other_machines(engine: Engine) -> None:
    with pytest.raises(SettingError, match="is not for this machine only"):
        serve(engine, host="0.0.0.0", port=0, access=Access(writable=True))


def test_a_request_keeps_the_state_it_began_with(model: Model, folder: Path) -> None:
    engine = engine_of(model, folder)
    begun = Job(engine.resolve_options())
    before = engine.memories["it"]
    before.store.load()
    add_pairs(folder, [SentencePair(*NEW.values(), Origin("other", "1"))], model)
    forget_sentences(folder, Selection(sentences=(0,)))
    compact_memory(folder)  # deletes all files of the old state
    engine.replace(before.latest())
    texts = [SOURCES[0], NEW["source"]]
    old, new = (
        [one.text for one in engine.run(job, texts) if isinstance(one, Translation)]
        for job in (begun, Job(engine.resolve_options()))
    )
    assert (old[0], new[1]) == (TARGETS[0], NEW["target"])
    assert new[0] != TARGETS[0]
    assert old[1] != NEW["target"]


def test_edits_of_another_process_are_picked_up(client: TestClient, model: Model, folder: Path) -> None:
    new = SentencePair(*NEW.values(), Origin("other", "1"))
    report = add_pairs(folder, [new], model)
    until(lambda: translated(client, NEW["source"]) == NEW["target"])
    assert client.get("/api/v1/memories").json()[0]["entries"] == report.entries
    forget_sentences(folder, Selection(sentences=(4,)))
    # An edit sees the others at once, without a look at the file by chance.
    assert client.delete("/api/v1/memories/it/sentences/4").status_code == 404
    answer = add(client, NEW)
    assert (answer["sentences"], answer["commit"]) == ([5], 3)


def test_a_server_that_takes_no_edits_also_follows(model: Model, folder: Path) -> None:
    with TestClient(create_app(engine_of(model, folder))) as client:
        forget_sentences(folder, Selection(sentences=(2,)))
        until(lambda: client.get("/api/v1/memories/it/sentences/2").status_code == 404)


def test_a_memory_that_another_process_edits_is_503(client: TestClient, folder: Path) -> None:
    with write_lock(folder):
        answer = client.post("/api/v1/memories/it/pairs", json={"pairs": [NEW]})
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert answer.json() == {"error": "memory it: another process is editing it; try again later"}
        assert translated(client, SOURCES[0]) == TARGETS[0]
    add(client, NEW)


def test_our_own_faults_name_no_folder(client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    add(client, {"source": "ja", "target": "yes yes"})
    monkeypatch.setattr("lacuna.memory.writer.append_log", full)
    answer = client.post("/api/v1/memories/it/pairs", json={"pairs": [NEW]})
    assert (answer.status_code, str(folder) in answer.text) == (500, False)
    assert "was not saved" in answer.json()["error"]
    monkeypatch.undo()
    assert add(client, NEW)["commit"] == 2


def test_the_queue_of_edits_has_a_limit(model: Model, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.serving.edit_queue.MAX_WAITING", 1)
    app = create_app(engine_of(model, folder), ServerLimits(max_seconds=0.2), access=Access(writable=True))
    with TestClient(app, LOCAL) as client:
        monkeypatch.setattr("lacuna.memory.folder_memory.forget_sentences", lambda *_, **__: time.sleep(1.5))
        assert client.delete("/api/v1/memories/it/sentences/0").status_code == 504
        full = client.delete("/api/v1/memories/it/sentences/1")
        assert (full.status_code, full.json()["error"]) == (
            503,
            "1 edits are waiting, which is the limit; try again later",
        )


def test_an_edit_that_waits_too_long_is_not_begun(model: Model, folder: Path) -> None:
    app = create_app(engine_of(model, folder), ServerLimits(max_seconds=0.2), access=Access(writable=True))
    with TestClient(app, LOCAL) as client, pytest.MonkeyPatch.context() as patch:
        patch.setattr("lacuna.memory.folder_memory.forget_sentences", lambda *_, **__: time.sleep(1.5))
        late = client.delete("/api/v1/memories/it/sentences/0")
        assert (late.status_code, "goes on" in late.text) == (504, True)
        waiting = client.post("/api/v1/memories/it/pairs", json={"pairs": [NEW]})
        assert (waiting.status_code, "not begun" in waiting.text) == (503, True)
    assert read_log(folder) == []
