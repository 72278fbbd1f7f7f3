"""The LibreTranslate interface."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from unit.models.tiny_models import SOURCES, TARGETS

ASKED = {"source": "de", "target": "en", "format": "text"}


def test_a_string_for_a_string_and_a_list_for_a_list(client: TestClient) -> None:
    one = client.post("/translate", json={"q": SOURCES[0], **ASKED, "api_key": "", "alternatives": 3})
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
    detected = {"language": "de", "confidence": 0.0}
    asked = {"source": "auto", "target": "en"}
    answer = client.post("/translate", json={"q": "ja", **asked}).json()
    assert answer == {"translatedText": "yes", "detectedLanguage": detected}
    answer = client.post("/translate", json={"q": ["ja", "ja"], **asked}).json()
    assert answer == {"translatedText": ["yes", "yes"], "detectedLanguage": [detected, detected]}


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
        ({"q": "<b>ja</b>", **ASKED, "format": "html"}, "format"),
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
