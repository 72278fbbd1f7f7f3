"""Files of clients: translated in line, kept for a while, and refused in one line if something is wrong with them."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from starlette.testclient import TestClient

from lacuna.combiners import Vanilla
from lacuna.documents import DocumentSettings
from lacuna.errors import NotFoundError
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.serving import Access, Engine, ServerLimits, create_app
from lacuna.serving.documents import KEPT_SECONDS, MAX_FINISHED, Documents
from lacuna.serving.engine import Job, Result
from lacuna.serving.limits import Overloaded
from lacuna.serving.served_directions import Directions
from lacuna.serving.service import UNTRANSLATED
from lacuna.serving.uploads import safe_name
from unit.models.tiny_models import SOURCES, TARGETS
from unit.serving.test_paragraphs import CALIBRATION

ROUTE = "/api/v1/documents"
PO = f"""msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "{SOURCES[0]}"
msgstr ""

#: main.c:7
msgid "{SOURCES[1]}"
msgstr "we read"
"""
BOMB = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><xliff version="1.2">&b;</xliff>'


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for all temporary files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def own(engine: Engine, disk: Path) -> Iterator[TestClient]:
    limits = ServerLimits(max_file_bytes=2000)
    with TestClient(create_app(engine, limits), raise_server_exceptions=False) as client:
        yield client


def files(disk: Path) -> list[str]:
    return sorted(path.name for path in disk.rglob("*") if path.is_file())


def send(client: TestClient, name: str, content: str | bytes, **fields: str) -> Any:
    return client.post(ROUTE, files={"file": (name, content)}, data=fields)


def finished(client: TestClient, id: str) -> Any:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        answer = client.get(f"{ROUTE}/{id}").json()
        if answer["status"] in ("done", "failed"):
            return answer
        time.sleep(0.02)
    raise AssertionError


def test_a_file_is_translated_and_fetched_and_deleted(own: TestClient, disk: Path) -> None:
    sent = send(own, "C:\\work\\Grüße.po", PO, exact_matches="false")
    id = sent.json()["id"]
    assert (sent.status_code, sent.json()) == (202, {"id": id, "name": "Grüße.po", "status": "waiting"})
    answer = finished(own, id)
    assert (answer["status"], answer["sentences"], answer["download"]) == ("done", 1, "Grüße.en.po")
    assert (answer["report"]["format"], answer["report"]["translated"], answer["report"]["kept"]) == ("PO", 1, 1)
    assert "error" not in answer
    file = own.get(f"{ROUTE}/{id}/file")
    body = PO.partition("\n\n")[2].replace('""\n\n#:', f'"{TARGETS[0]}"\n\n#:')
    assert file.content.decode().partition("\n\n")[2] == body
    assert file.headers["Content-Disposition"] == (
        "attachment; filename=\"Gr__e.en.po\"; filename*=UTF-8''Gr%C3%BC%C3%9Fe.en.po"
    )
    assert file.headers["Content-Type"] == "application/octet-stream"
    assert files(disk) == ["report.json", "translated"]
    assert own.delete(f"{ROUTE}/{id}").json() == {"deleted": True}
    assert files(disk) == []
    for gone in (own.get(f"{ROUTE}/{id}"), own.get(f"{ROUTE}/{id}/file"), own.delete(f"{ROUTE}/{id}")):
        assert (gone.status_code, "no such id" in gone.json()["error"]) == (404, True)


def test_fields_of_the_form(both: TestClient) -> None:
    overwritten = finished(both, send(both, "a.po", PO, overwrite="true").json()["id"])["report"]
    assert (overwritten["matched"], overwritten["kept"]) == (2, 0)
    fresh = finished(both, send(both, "a.po", PO, exact_matches="false", memories="all, half").json()["id"])["report"]
    assert (fresh["translated"], fresh["matched"], fresh["kept"]) == (1, 0, 1)
    alone = finished(both, send(both, "a.po", PO, memories="", review_below="", source="").json()["id"])["report"]
    assert alone["translated"] == 1
    chinese = finished(both, send(both, "a.txt", "我们明天去北京。\n", source="auto").json()["id"])
    assert chinese["status"] == "done"
    assert finished(both, send(both, "a.po", PO, memories="law").json()["id"])["report"]["matched"] == 1


def test_unsure_translations_are_marked(model: Model, memories: list[Memory]) -> None:
    engine = Engine(model, memories, {"all": Vanilla(k=1, knn_weight=1.0)}, {"all": CALIBRATION})
    with TestClient(create_app(engine)) as client:
        text = f"{SOURCES[0]}\n\nein see\n"
        report = finished(client, send(client, "a.txt", text, review_below="1").json()["id"])["report"]
        assert (report["matched"], report["review"]) == (1, 1)
        [unsure] = report["least_sure"]
        assert (unsure["source"], unsure["reason"]) == ("ein see", "low confidence")
        assert 0 < unsure["confidence"] < 1
        refused = send(client, "a.txt", text, review_below="1", memories="half")
        assert (refused.status_code, "needs a calibration" in refused.text) == (400, True)


def test_a_sentence_by_a_person_is_not_unsure(model: Model, memories: list[Memory]) -> None:
    engine = Engine(model, memories, {"all": Vanilla(k=1, knn_weight=1.0)}, {"all": CALIBRATION})
    with TestClient(create_app(engine)) as client:
        text = f"{SOURCES[0]}.\n{SOURCES[0]}\n{SOURCES[3]}\n"  # one segment of a catalog, in three lines
        catalog = json.dumps({"a": text, "b": f"{SOURCES[1]}\n{SOURCES[3]}"})
        report = finished(client, send(client, "a.json", catalog, review_below="1").json()["id"])["report"]
        assert (report["matched"], report["translated"]) == (0, 2)
        [unsure] = report["least_sure"]
        assert unsure["place"] == "a"


def test_a_word_that_the_model_cannot_read_stays_and_is_reported(own: TestClient) -> None:
    answer = finished(own, send(own, "a.txt", f"{'x' * 300}\n\nja\n").json()["id"])
    assert own.get(f"{ROUTE}/{answer['id']}/file").text == f"{'x' * 300}\n\nyes\n"
    assert [one["reason"] for one in answer["report"]["least_sure"]] == [UNTRANSLATED]


@pytest.mark.parametrize(
    ("name", "content", "fields", "status", "says"),
    [
        ("a.exe", "ja", {}, 400, "a.exe: cannot translate .exe; allowed: .txt"),
        ("a", "ja", {}, 400, "no name with a suffix"),
        (".txt", "ja", {}, 400, "no name with a suffix"),
        ("a.txt", "x" * 2001, {}, 413, "the file has more than 2,000 bytes"),
        ("a.txt", "x" * 100_000, {}, 413, "the file has more than 2,000 bytes"),
        ("a.txt", "ja", {"memories": "none"}, 400, "memories: got 'none'; available: all, half"),
        ("a.txt", "ja", {"source": "fr"}, 400, "this server translates de to en"),
        ("a.txt", "ja", {"review_below": "2"}, 400, "review_below: Input should be less than or equal to 1"),
        ("a.txt", "ja", {"review_below": "0.5"}, 400, "review_below: needs a calibration"),
        ("a.txt", "ja", {"overwrite": "perhaps"}, 400, "overwrite"),
        ("a.txt", "ja", {"strange": "1"}, 400, "strange"),
        ("a.txt", "ja", {"source": "x" * 40_000}, 400, "Part exceeded"),
        ("a.txt", "ja", {"source": "x" * 33}, 400, "source: String should have at most 32 characters"),
        ("a.txt", "ja", {"glossary": "other"}, 400, "glossary: got 'other'; available: none"),
        ("a.txt", "ja", {"terms": "ja"}, 400, "terms: Invalid JSON"),
        ("a.txt", "ja", {"terms": '[{"source": 1}]'}, 400, "terms.0.source: Input should be a valid string"),
        ("a.txt", "ja", {"terms": '[{"source": "ja"}]'}, 400, "terms.0: target: got an empty cell"),
        ("a.txt", b"\xff\xfe\xff", {"source": "auto"}, 400, "a.txt:1: not UTF-16"),
        ("a.xlf", BOMB, {"source": "auto"}, 400, "entity"),
    ],
)
def test_bad_uploads_leave_nothing(
    own: TestClient, disk: Path, name: str, content: str | bytes, fields: dict[str, str], status: int, says: str
) -> None:
    answer = send(own, name, content, **fields)
    assert (answer.status_code, list(answer.json())) == (status, ["error"]), answer.text
    assert says in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert files(disk) == []


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"ja \xff ja", "a.txt:1: not UTF-8"),
        ("../../a.xlf", BOMB, "a.xlf:1"),
        ("a.xliff", "<xliff>" * 200, "a.xliff"),
        ("a.po", 'msgid "a', "a.po:1"),
        ("a.json", "[" * 1000, "a.json"),
        ("a.html", b'<meta charset="utf-7">ja', "charset"),
    ],
)
def test_hostile_files_fail_and_leave_nothing(
    own: TestClient, disk: Path, name: str, content: str | bytes, says: str
) -> None:
    answer = finished(own, send(own, name, content).json()["id"])
    assert answer["status"] == "failed"
    assert says in answer["error"]
    assert "\n" not in answer["error"]
    assert str(disk) not in answer["error"]
    assert files(disk) == []
    fetched = own.get(f"{ROUTE}/{answer['id']}/file")
    assert (fetched.status_code, "it is failed" in fetched.text) == (400, True)
    assert own.post("/api/v1/translate", json={"texts": ["ja"]}).status_code == 200


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b"no boundary"),
        ("multipart/form-data; boundary=x", b"no parts"),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data\r\n\r\nja\r\n--x--"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nja\r\n--x--'),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nbroken off',
        ),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 20),
    ],
)
@pytest.mark.parametrize("path", [ROUTE, "/translate_file"])
def test_bodies_that_are_no_form_with_a_file(own: TestClient, disk: Path, path: str, kind: str, body: bytes) -> None:
    answer = own.post(path, content=body, headers={"Content-Type": kind})
    assert (answer.status_code, list(answer.json())) == (400, ["error"]), answer.text
    assert files(disk) == []


def test_a_body_of_unknown_length_is_cut_off(own: TestClient) -> None:
    begin = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    chunks = (begin if number == 0 else b"x" * 1000 for number in range(100))
    answer = own.post(ROUTE, content=chunks, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert (answer.status_code, list(answer.json())) == (413, ["error"])


def test_other_routes_keep_their_limit(engine: Engine) -> None:
    limits = ServerLimits(max_body_bytes=100, max_file_bytes=100_000)
    with TestClient(create_app(engine, limits)) as client:
        assert client.post("/api/v1/translate", json={"texts": ["x" * 200]}).status_code == 413
        assert send(client, "a.txt", "12\n" * 1000).status_code == 202
        assert client.post(f"{ROUTE}/", content=b"x" * 200).status_code == 413


def test_a_key_is_needed_except_for_the_secret_address(engine: Engine) -> None:
    with TestClient(create_app(engine, access=Access("sesame"))) as client:
        key = {"Authorization": "Bearer sesame"}
        assert send(client, "a.txt", "ja").status_code == 401
        assert client.get(f"{ROUTE}/x", headers={}).status_code == 401
        form = {"files": {"file": ("a.txt", "ja")}, "data": {"source": "de", "target": "en"}}
        assert client.post("/translate_file", **form).status_code == 401  # type: ignore[arg-type]
        form["data"]["api_key"] = "sesame"  # type: ignore[index]
        made = client.post("/translate_file", **form).json()["translatedFileUrl"]  # type: ignore[arg-type]
        assert client.get(made).text == "yes"
        assert client.get(made[:-1]).status_code == 404
        assert client.get(f"{ROUTE}/x", headers=key).status_code == 404


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/pass.txt", "pass.txt"),
        ("C:\\a\\b.PO", "b.PO"),
        ('a"\r\nX: y\x00.txt', "aX y.txt"),
        ("/a/.po.txt", "po.txt"),
        ("％/\u202eb.txt", "b.txt"),
        ("x" * 300 + ".txt", "x" * 97 + ".txt"),
        ("文件.html", "文件.html"),
    ],
)
def test_names_are_no_paths(name: str, safe: str) -> None:
    assert safe_name(name) == safe


class Gated(Engine):
    """Notes every batch, and goes on when it may."""

    def prepare(self) -> Gated:
        self.begun, self.go = Event(), Event()
        self.batches: list[list[str]] = []
        return self

    def run(self, job: Job, texts: list[str]) -> list[Result | Exception]:
        self.batches.append(texts)
        self.begun.set()
        assert self.go.wait(60)
        return super().run(job, texts)


@pytest.fixture
def gated(model: Model, memories: list[Memory]) -> Iterator[Gated]:
    engine = Gated(model, memories, {"all": Vanilla(k=1, knn_weight=1.0)}).prepare()
    yield engine
    engine.go.set()


LONG = "".join(f"ja {word}\n\n" for word in "abcdefghijklmnopqrstuvwxyzäöü" * 2)


def test_requests_do_not_wait_for_a_long_document(gated: Gated) -> None:
    with TestClient(create_app(gated)) as client, ThreadPoolExecutor(1) as pool:
        id = send(client, "a.txt", LONG).json()["id"]
        assert gated.begun.wait(60)
        assert client.get(f"{ROUTE}/{id}").json() == {"id": id, "name": "a.txt", "status": "running", "sentences": 0}
        asking = pool.submit(client.post, "/api/v1/translate", json={"texts": ["ja"]})
        while "lacuna_waiting_sentences 1.0" not in client.get("/metrics").text:
            pass
        gated.go.set()
        assert asking.result().json()["translations"][0]["text"] == "yes"
        assert finished(client, id)["sentences"] == 58
    assert len(gated.batches[0]) <= 16
    assert gated.batches[1][0] == "ja"


def test_a_document_fits_into_a_short_queue(engine: Engine) -> None:
    with TestClient(create_app(engine, ServerLimits(max_texts=2, max_waiting=2))) as client:
        answer = finished(client, send(client, "a.txt", "ja a\n\nja b\n\nja c\n").json()["id"])
        assert (answer["status"], answer["sentences"]) == ("done", 3)


def test_half_a_character_does_no_harm(own: TestClient) -> None:
    for fields in ({}, {"source": "auto"}):
        sent = send(own, "a.json", '{"a": "ja \\ud800", "b": "ja"}', **fields)
        assert sent.status_code in (202, 400)
        if sent.status_code == 202:
            answer = finished(own, sent.json()["id"])
            assert "internal" not in answer.get("error", "")


def test_a_document_waits_for_the_one_before_it(gated: Gated, disk: Path) -> None:
    with TestClient(create_app(gated)) as client:
        first, second, third = (send(client, "a.txt", "ein see").json()["id"] for _ in range(3))
        assert gated.begun.wait(60)
        assert [client.get(f"{ROUTE}/{one}").json()["status"] for one in (first, second)] == ["running", "waiting"]
        early = client.get(f"{ROUTE}/{second}/file")
        assert (early.status_code, "it is waiting, not done" in early.text) == (400, True)
        assert client.delete(f"{ROUTE}/{second}").json() == {"deleted": True}
        gated.go.set()
        assert finished(client, third)["status"] == finished(client, first)["status"] == "done"
    assert len(gated.batches) == 2
    assert list(disk.iterdir()) == []  # after the shutdown


def test_a_running_document_stops_when_it_is_deleted(gated: Gated, disk: Path) -> None:
    with TestClient(create_app(gated)) as client:
        id = send(client, "a.txt", LONG).json()["id"]
        assert gated.begun.wait(60)
        client.delete(f"{ROUTE}/{id}")
        gated.go.set()
        next_one = send(client, "b.txt", "12").json()["id"]
        assert finished(client, next_one)["status"] == "done"
        assert files(disk) == ["report.json", "translated"]
        assert len(gated.batches) == 1


def test_shutting_down_stops_documents_and_deletes_files(gated: Gated, disk: Path) -> None:
    with TestClient(create_app(gated)) as client, ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            send(client, "a.txt", LONG)
        assert gated.begun.wait(60)
        pool.submit(lambda: time.sleep(0.5) or gated.go.set())
    assert len(gated.batches) == 1
    assert list(disk.iterdir()) == []


def test_a_fault_of_ours_says_nothing_about_us(model: Model, disk: Path) -> None:
    class Broken(Engine):
        def run(self, job: Job, texts: list[str]) -> list[Result | Exception]:
            raise ZeroDivisionError("secret detail")

    with TestClient(create_app(Broken(model)), raise_server_exceptions=False) as client:
        answer = finished(client, send(client, "a.txt", "ja").json()["id"])
        assert answer["error"] == "internal error; see the log of the server"
        assert files(disk) == []


def test_old_documents_are_deleted(engine: Engine, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    directions = Directions([engine], ServerLimits())
    documents = Documents(directions.services, lambda: now)
    service = directions.services[0]

    def add() -> Any:
        document = documents.add(
            service, BytesIO(b"12"), "a.txt", service.resolve_options(), DocumentSettings(exact_matches=False)
        )
        document.ended.result(60)
        return document

    try:
        some = []
        for now in range(MAX_FINISHED + 3):  # noqa: B007 - the clock
            some.append(add())
        documents.expire()
        with pytest.raises(NotFoundError):
            documents.find(some[2].id)
        assert documents.find(some[3].id).status == "done"
        assert len(list((documents.folder or disk).iterdir())) == MAX_FINISHED
        now = KEPT_SECONDS + MAX_FINISHED + 1
        documents.expire()
        with pytest.raises(NotFoundError):
            documents.find(some[-3].id)
        assert documents.find(some[-1].id)
        monkeypatch.setattr("lacuna.serving.documents.MAX_WAITING", 0)
        with pytest.raises(Overloaded, match="documents are waiting"):
            add()
    finally:
        documents.close()
        directions.close()
    assert list(disk.iterdir()) == []
