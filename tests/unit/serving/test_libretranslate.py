"""The LibreTranslate interface."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from unit.models.tiny_models import SOURCES, TARGETS
from unit.serving.conftest import LOCAL

ASKED = {"source": "de", "target": "en", "format": "text"}


def test_a_string_for_a_string_and_a_list_for_a_list(client: TestClient) -> None:
    one = client.post("/translate", json={"q": SOURCES[0], **ASKED, "api_key": "", "strange": 3})
    assert one.json() == {"translatedText": TARGETS[0]}
    assert client.post("/translate", json={"q": SOURCES, **ASKED}).json() == {"translatedText": TARGETS}
    assert client.post("/translate", json={"q": [], **ASKED}).json() == {"translatedText": []}


def test_forms_of_both_kinds(client: TestClient) -> None:
    encoded = client.post("/translate", data={"q": SOURCES[2], **ASKED})
    assert encoded.json() == {"translatedText": TARGETS[2]}
    several = client.post("/translate", data={"q": SOURCES[:2], **ASKED})
    assert several.json() == {"translatedText": TARGETS[:2]}
    parts = {name: (None, value) for name, value in {"q": SOURCES[2], **ASKED}.items()}
    assert client.post("/translate", files=parts).json() == {"translatedText": TARGETS[2]}


def test_auto_is_the_language_of_the_model(client: TestClient) -> None:
    detected = {"language": "de", "confidence": 0.0}  # among all languages, one word says nothing
    asked = {"source": "auto", "target": "en"}
    answer = client.post("/translate", json={"q": "ja", **asked}).json()
    assert answer == {"translatedText": "yes", "detectedLanguage": detected}
    answer = client.post("/translate", json={"q": ["ja", "ja"], **asked}).json()
    assert answer == {"translatedText": ["yes", "yes"], "detectedLanguage": [detected, detected]}


def test_auto_detects_among_several_sources(both: TestClient) -> None:
    asked = {"source": "auto", "target": "en", "q": ["我们明天坐火车去北京。", "你好"]}
    answer = both.post("/translate", json=asked).json()
    assert len(answer["translatedText"]) == 2
    assert [one["language"] for one in answer["detectedLanguage"]] == ["zh", "zh"]
    assert answer["detectedLanguage"][0]["confidence"] > 90
    assert both.post("/translate", json={**asked, "source": "zh"}).json().keys() == {"translatedText"}


def test_html_and_alternatives(client: TestClient) -> None:
    body = {"q": f"<p>{SOURCES[1]}</p>", **ASKED, "format": "html", "alternatives": 2}
    assert client.post("/translate", json=body).json() == {"translatedText": f"<p>{TARGETS[1]}</p>"}
    one = client.post("/translate", data={"q": "ja", **ASKED, "alternatives": "2"}).json()
    assert one["translatedText"] == "yes"
    assert len(one["alternatives"]) == 2
    several = client.post("/translate", json={"q": ["ja", "Ja. Ja."], **ASKED, "alternatives": 9}).json()
    assert [len(some) > 0 for some in several["alternatives"]] == [True, False]


@pytest.mark.parametrize(("text", "language"), [("Wo geht es hier zum Bahnhof?", "de"), ("12 + 3", "en"), ("", "en")])
def test_detect(client: TestClient, text: str, language: str) -> None:
    [first, *_] = client.post("/detect", json={"q": text}).json()
    assert (first["language"], 50 < first["confidence"] <= 100) == (language, any(map(str.isalpha, text)))
    assert client.post("/detect", data={"q": text}).json()[0] == first


def test_detect_refuses(client: TestClient) -> None:
    answer = client.post("/detect", json={"text": "ja"})
    assert (answer.status_code, answer.json()) == (400, {"error": "q: Field required"})


def test_settings_for_a_page(client: TestClient) -> None:
    settings = client.get("/frontend/settings").json()
    assert settings["language"] == {
        "source": {"code": "de", "name": "German"},
        "target": {"code": "en", "name": "English"},
    }
    assert (settings["charLimit"], settings["keyRequired"], settings["filesTranslation"]) == (5000, False, True)
    assert ".po" in settings["supportedFilesFormat"]


def test_files(client: TestClient) -> None:
    def send(name: str, content: str, **fields: str) -> Any:
        return client.post("/translate_file", files={"file": (name, content)}, data=fields)

    made = send("brief an.txt", f"{SOURCES[0]}\n", source="de", target="en").json()["translatedFileUrl"]
    assert made.startswith(f"{LOCAL}/download_file/")
    assert made.endswith(".brief%20an.en.txt")
    assert client.get(made).text == f"{TARGETS[0]}\n"
    assert client.get(made.replace("brief", "other")).status_code == 404
    failed = send("a.po", "msgid", source="de", target="en")
    assert (failed.status_code, list(failed.json())) == (400, ["error"])
    assert send("a.po", "", source="de").json() == {"error": "target: Field required"}
    assert send("a.po", "", source="fr", target="en").status_code == 400


def test_languages(client: TestClient) -> None:
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"q": "ja", "source": "fr", "target": "en"}, "this server translates de to en"),
        ({"q": "ja", "source": "de", "target": "fr"}, "this server translates de to en"),
        ({"source": "de", "target": "en"}, "q: Field required"),
        ({"q": "ja", "source": "de"}, "target: Field required"),
        ({"q": "<b>ja</b>", **ASKED, "format": "po"}, "format"),
        ({"q": "ja", **ASKED, "alternatives": -1}, "alternatives"),
        ([], "body"),
        ({"q": {"no": "text"}, **ASKED}, "q"),
    ],
)
def test_errors_are_one_object(client: TestClient, body: Any, says: str) -> None:
    answer = client.post("/translate", json=body)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert says in answer.json()["error"]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("application/json", b"{"),
        ("application/json", b"\xff"),
        ("application/json", b"[" * 100_000),
        ("application/x-www-form-urlencoded", b"q=%ff&target=en"),
        ("multipart/form-data", b"no boundary"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n\xff\r\n--x--'),
        ("text/plain", b"q=ja"),
    ],
)
def test_bodies_that_cannot_be_read(client: TestClient, kind: str, content: bytes) -> None:
    answer = client.post("/translate", content=content, headers={"Content-Type": kind})
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
