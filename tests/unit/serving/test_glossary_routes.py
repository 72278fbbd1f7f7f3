"""The routes of glossaries: lists, edits and their commits, who may edit, and files that others edit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from starlette.testclient import TestClient

from lacuna.errors import SettingError
from lacuna.glossaries import Glossary, Term, load_glossary, write_glossary
from lacuna.glossaries.glossary_edits import read_edits
from lacuna.models import Model
from lacuna.serving import Access, Engine, ServerLimits, create_app
from lacuna.serving.app import serve

LOCAL = "http://127.0.0.1"
TERMS = [
    Term("Datei", ("file", "document"), ("data",)),
    Term("Ordner", ("folder",), note="Not for paper."),
    Term("Kiesel", translate=False, tag="products"),
]
ROUTE = "/api/v1/glossaries"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_glossary(tmp_path / "office.tsv", Glossary(TERMS))
    return tmp_path / "office.tsv"


def served(model: Model, file: Path, limits: ServerLimits | None = None, **access: Any) -> TestClient:
    terms = load_glossary(file) if file.exists() else ()
    engine = Engine(model, glossaries=[Glossary(terms, "office", file), Glossary(TERMS[:1], "fixed")])
    chosen = Access(**access) if access else Access(writable=True)
    return TestClient(create_app(engine, limits, access=chosen), LOCAL, raise_server_exceptions=False)


@pytest.fixture
def client(model: Model, file: Path) -> Iterator[TestClient]:
    with served(model, file) as client:
        yield client


def ask(client: TestClient, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    answer = client.request(method, f"{ROUTE}/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def sources(client: TestClient, **query: Any) -> list[str]:
    answer = client.get(f"{ROUTE}/office", params=query)
    assert answer.status_code == 200, answer.text
    return [term["source"] for term in answer.json()["terms"]]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_list_says_what_there_is(client: TestClient) -> None:
    answer = client.get(ROUTE).json()
    described = {"memory": None, "source": "de", "target": "en"}
    assert answer == [
        {"name": "office", "terms": 3, "editable": True, **described},
        {"name": "fixed", "terms": 1, "editable": False, **described},
    ]


def test_terms_come_in_pages_and_can_be_searched(client: TestClient) -> None:
    answer = client.get(f"{ROUTE}/office", params={"offset": 0, "limit": 1}).json()
    term = {"targets": ["file", "document"], "forbidden": ["data"], "translate": True, "note": "", "tag": ""}
    term |= {"source": "Datei", "case_sensitive": False, "inflected": True}
    assert answer == {"glossary": "office", "total": 3, "offset": 0, "terms": [term]}
    assert sources(client, offset=1) == ["Ordner", "Kiesel"]
    assert sources(client, offset=3) == []
    for text, found in {
        "DATE": ["Datei"],  # a source
        "docum": ["Datei"],  # a translation
        "data": ["Datei"],  # a forbidden one
        "paper": ["Ordner"],  # a note
        "products": ["Kiesel"],  # a tag
        "e": ["Datei", "Ordner", "Kiesel"],
        "xyz": [],
        " ": ["Datei", "Ordner", "Kiesel"],
    }.items():
        assert sources(client, search=text) == found
    assert client.get(f"{ROUTE}/office", params={"search": "e", "limit": 1, "offset": 1}).json()["total"] == 3


def test_an_added_term_is_on_disk_and_used_when_the_answer_comes(client: TestClient, file: Path) -> None:
    body = {"terms": [{"source": " Maus ", "targets": ["mouse"], "tag": "new"}]}
    answer = ask(client, "POST", "office/terms", body)
    added = {"source": "Maus", "targets": ["mouse"], "forbidden": [], "note": "", "tag": "new"}
    added |= {"case_sensitive": False, "inflected": True, "translate": True}
    changes = [{"before": None, "after": added}]
    assert answer == {"glossary": "office", "commit": 1, "changes": changes, "terms": 4, "warnings": []}
    assert load_glossary(file).terms == (*TERMS, Term("Maus", ("mouse",), tag="new"))
    assert sources(client) == ["Datei", "Ordner", "Kiesel", "Maus"]
    said = client.post("/api/v1/translate", json={"texts": ["die Maus"], "glossary": "office"}).json()
    assert [term["source"] for term in said["translations"][0]["terms"]] == ["Maus"]
    assert ask(client, "POST", "office/terms", body) == {**answer, "commit": None, "changes": []}


def test_a_term_with_the_same_source_is_replaced(client: TestClient, file: Path) -> None:
    answer = ask(client, "POST", "office/terms", {"terms": [{"source": "ordner", "targets": ["binder"]}]})
    [change] = answer["changes"]
    assert (change["before"]["source"], change["before"]["targets"]) == ("Ordner", ["folder"])
    assert (change["after"]["source"], change["after"]["targets"]) == ("ordner", ["binder"])
    assert load_glossary(file).terms == (TERMS[0], Term("ordner", ("binder",)), TERMS[2])


def test_warnings_are_told(client: TestClient) -> None:
    answer = ask(client, "POST", "office/terms", {"terms": [{"source": "%s", "targets": ["%s"]}]})
    assert answer["commit"] == 1
    assert any(line.startswith("terms.0: source: is a placeholder") for line in answer["warnings"])


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("source=Datei", TERMS[1:]),
        ("source=datei", TERMS[1:]),
        ("source=Datei&target=document", [Term("Datei", ("file",), ("data",)), *TERMS[1:]]),
        ("source=Datei&target=data", [Term("Datei", ("file", "document")), *TERMS[1:]]),
        ("source=Ordner&target=folder", [TERMS[0], TERMS[2]]),  # its only translation
        ("source=Kiesel", TERMS[:2]),
    ],
)
def test_terms_are_removed(client: TestClient, file: Path, query: str, left: list[Term]) -> None:
    answer = ask(client, "DELETE", f"office/terms?{query}")
    assert (answer["commit"], answer["terms"], len(answer["changes"])) == (1, len(left), 1)
    assert load_glossary(file).terms == tuple(left)
    assert sources(client) == [term.source for term in left]


def test_terms_that_differ_in_capitals(client: TestClient, file: Path) -> None:
    two = [{"source": source, "targets": [f"{source}-x"], "case_sensitive": True} for source in ("IT", "it")]
    ask(client, "POST", "office/terms", {"terms": two})
    refused = ask(client, "DELETE", "office/terms?source=It", status=404)
    assert refused["error"] == "source: got 'It', 2 terms that differ in capitals; write it as in the glossary"
    ask(client, "DELETE", "office/terms?source=IT")
    assert [term.source for term in load_glossary(file)][3:] == ["it"]


def test_every_edit_can_be_undone_by_one_more(client: TestClient, file: Path) -> None:
    before = file.read_bytes()
    ask(client, "DELETE", "office/terms?source=Datei")
    ask(client, "POST", "office/terms", {"terms": [{"source": "Maus", "targets": ["mouse"]}]})
    answer = ask(client, "POST", "office/undo", {"commit": 2})
    assert (answer["commit"], answer["changes"][0]["after"]) == (3, None)
    ask(client, "POST", "office/undo", {"commit": 1})
    assert file.read_bytes() == before
    ask(client, "POST", "office/undo", {"commit": 4})  # an undo can be undone too
    assert sources(client) == ["Ordner", "Kiesel"]
    listed = ask(client, "GET", "office/commits")
    assert [(one["commit"], one["action"]) for one in listed["commits"]] == [
        (5, "undo"),
        (4, "undo"),
        (3, "undo"),
        (2, "add"),
        (1, "remove"),
    ]
    assert (listed["total"], listed["commits"][4]["changes"][0]["before"]["source"]) == (5, "Datei")
    page = ask(client, "GET", "office/commits?offset=1&limit=2")
    assert page == {"glossary": "office", "total": 5, "offset": 1, "commits": listed["commits"][1:3]}
    refused = ask(client, "POST", "office/undo", {"commit": 9}, status=404)
    assert refused["error"] == "glossary office: commit: got 9; its log has 5 commits, from 1"


def test_what_was_changed_later_cannot_be_undone_alone(client: TestClient, tmp_path: Path) -> None:
    for target in ("mouse", "pointer"):
        ask(client, "POST", "office/terms", {"terms": [{"source": "Maus", "targets": [target]}]})
    refused = ask(client, "POST", "office/undo", {"commit": 1}, status=400)
    assert "commit 1 cannot be undone, because 'Maus' was changed later" in refused["error"]
    assert str(tmp_path) not in refused["error"]


def test_a_file_appears_with_the_first_edit(model: Model, tmp_path: Path) -> None:
    with served(model, tmp_path / "new.tsv") as client:
        assert sources(client) == []
        assert ask(client, "GET", "office/commits")["commits"] == []
        assert not (tmp_path / "new.tsv").exists()
        ask(client, "POST", "office/terms", {"terms": [{"source": "Maus", "targets": ["mouse"]}]})
        assert load_glossary(tmp_path / "new.tsv").terms == (Term("Maus", ("mouse",)),)
        assert sources(client) == ["Maus"]


MOUSE = {"terms": [{"source": "Maus", "targets": ["mouse"]}]}
EDITS = [
    ("POST", "office/terms", MOUSE),
    ("DELETE", "office/terms?source=Datei", None),
    ("POST", "office/undo", {"commit": 1}),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("GET", "law", None, 404, "glossary: got 'law'; available: office, fixed"),
        ("GET", "law/commits", None, 404, "got 'law'"),
        ("GET", "office?limit=0", None, 422, "limit"),
        ("GET", "office?limit=1001", None, 422, "limit"),
        ("GET", "office?offset=-1", None, 422, "offset"),
        ("POST", "law/terms", MOUSE, 404, "got 'law'"),
        ("POST", "fixed/terms", MOUSE, 400, "glossary fixed: only a .tsv file can be edited"),
        ("DELETE", "fixed/terms?source=Datei", None, 400, "only a .tsv file"),
        ("POST", "fixed/undo", {"commit": 1}, 400, "only a .tsv file"),
        ("POST", "office/terms", {"terms": []}, 422, "terms"),
        ("POST", "office/terms", {}, 422, "terms"),
        ("POST", "office/terms", {"terms": MOUSE["terms"] * 201}, 422, "terms"),
        ("POST", "office/terms", {"terms": [*MOUSE["terms"], {"source": "Hut"}]}, 400, "terms.1: target: got an empty"),
        ("POST", "office/terms", {"terms": [{"source": "a\ue001b", "targets": ["x"]}]}, 400, "U+E001"),
        ("POST", "office/terms", {"terms": [{"source": "x" * 201, "targets": ["x"]}]}, 400, "201 characters"),
        ("DELETE", "office/terms", None, 422, "source"),
        ("DELETE", "office/terms?source=Maus", None, 404, "source: got 'Maus', no such term"),
        ("DELETE", "office/terms?source=Datei&target=paper", None, 404, "target: got 'paper', which 'Datei' does not"),
        ("POST", "office/undo", {}, 422, "commit"),
        ("POST", "office/undo", {"commit": 0}, 422, "commit"),
        ("POST", "office/undo", {"commit": 1}, 404, "glossary office: commit: got 1; its log has 0 commits"),
    ],
)
def test_refusals_change_nothing(
    client: TestClient, file: Path, method: str, path: str, body: Any, status: int, says: str
) -> None:
    before = file.read_bytes()
    answer = ask(client, method, path, body, status)
    assert says in answer["error"], answer
    assert str(file.parent) not in answer["error"]
    assert (file.read_bytes(), read_edits(file)) == (before, [])


@pytest.mark.parametrize(("method", "path", "body"), EDITS)
def test_edits_need_the_rights_of_edits_of_a_memory(
    model: Model, file: Path, method: str, path: str, body: Any
) -> None:
    for access in ({"key": None}, {"key": "k"}):
        with served(model, file, **access) as closed:
            closed.headers["Authorization"] = "Bearer k"
            assert "start it with a write key" in ask(closed, method, path, body, 403)["error"]
            assert len(sources(closed)) == 3
    with served(model, file, key="reader", write_key="writer") as client:
        assert client.get(ROUTE).status_code == 401
        for key in ("reader", "wrong"):
            client.headers["Authorization"] = f"Bearer {key}"
            ask(client, method, path, body, 401)
        assert read_edits(file) == []
        client.headers["Authorization"] = "Bearer writer"
        ask(client, "POST", "office/terms", {"terms": [{"source": "Hut", "targets": ["hat"]}]})
        assert ask(client, method, path, body)["commit"] == 2


def test_foreign_pages_cannot_edit_through_a_browser(client: TestClient) -> None:
    client.headers["Origin"] = "http://evil.example"
    assert "this machine only" in ask(client, "POST", "office/terms", MOUSE, 403)["error"]


def test_a_file_that_is_edited_by_hand_is_read_again(client: TestClient, file: Path) -> None:
    assert sources(client) == ["Datei", "Ordner", "Kiesel"]
    file.write_text("source\ttarget\nMaus\tmouse\n", encoding="utf-8")
    until(lambda: sources(client) == ["Maus"])
    said = client.post("/api/v1/translate", json={"texts": ["die Maus"], "glossary": "office"}).json()
    assert [term["source"] for term in said["translations"][0]["terms"]] == ["Maus"]
    write_glossary(file, Glossary(TERMS))  # replaced, not written into
    # An edit begins with what is there now, without a look at the file by chance.
    assert ask(client, "DELETE", "office/terms?source=Ordner")["terms"] == 2
    assert [term.source for term in load_glossary(file)] == ["Datei", "Kiesel"]


def test_a_file_that_has_become_wrong_is_reported_once_and_not_used(
    client: TestClient, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def reported() -> list[str]:
        client.get(ROUTE)  # looks at the file
        return [record.getMessage() for record in caplog.records if "former terms" in record.getMessage()]

    assert len(sources(client)) == 3
    with caplog.at_level(logging.WARNING):
        file.write_text("source\ttarget\nMaus\t\n", encoding="utf-8")
        until(lambda: bool(reported()))
        time.sleep(1.1)  # a second look
        [line] = reported()
        assert "office.tsv:2: target: got an empty cell" in line
        assert sources(client) == ["Datei", "Ordner", "Kiesel"]
        refused = ask(client, "POST", "office/terms", MOUSE, 400)["error"]
        assert refused.startswith("glossary office:2: target: got an empty cell")
        assert str(file.parent) not in refused
        write_glossary(file, Glossary(TERMS[:1]))
        until(lambda: sources(client) == ["Datei"])
        assert len(reported()) == 1


def test_a_file_that_is_gone_has_no_terms(client: TestClient, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert len(sources(client)) == 3
    file.unlink()
    until(lambda: sources(client) == [])
    assert [each.getMessage() for each in caplog.records] == ["glossary office: its file is gone, so it has no terms"]


def test_edits_of_several_clients_are_all_kept(client: TestClient, file: Path) -> None:
    def add(number: int) -> None:
        body = {"terms": [{"source": f"Wort{number}x", "targets": [f"word{number}x"]}]}
        ask(client, "POST", "office/terms", body)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {term.source for term in load_glossary(file)} >= {f"Wort{number}x" for number in range(8)}
    assert [commit.commit for commit in read_edits(file)] == list(range(1, 9))


def test_a_glossary_that_another_process_edits_is_503(
    client: TestClient, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lacuna.glossaries.glossary_edits.WAIT_SECONDS", 0.1)
    with FileLock(file.with_name(".office.tsv.lock")):
        answer = client.post(f"{ROUTE}/office/terms", json=MOUSE)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json() == {"error": "glossary office: another process is editing it; try again later"}
    ask(client, "POST", "office/terms", MOUSE)


def test_our_own_faults_name_no_folder(client: TestClient, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lacuna.glossaries.glossary_edits.append_log", full)
    error = ask(client, "POST", "office/terms", MOUSE, 500)["error"]
    assert error == "glossary office: the edit was not saved; see the log of the server"
    monkeypatch.undo()
    assert ask(client, "POST", "office/terms", MOUSE)["commit"] == 1


def test_no_edits_without_a_key_from_other_machines(model: Model, file: Path) -> None:
    engine = Engine(model, glossaries=[Glossary(TERMS, "office", file)])
    with pytest.raises(SettingError, match="is not for this machine only"):
        serve(engine, host="0.0.0.0", port=0, access=Access(writable=True))
