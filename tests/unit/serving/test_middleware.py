"""The middleware: limits, API keys, headers, error responses and metrics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from lacuna.models import Model
from lacuna.serving import Access, Engine, ServerLimits, create_app
from lacuna.serving.engine import Job, Result

KEY = "a-secret"


@pytest.fixture(scope="module")
def small(engine: Engine) -> Iterator[TestClient]:
    limits = ServerLimits(max_characters=40, max_texts=3, max_body_bytes=300)
    with TestClient(create_app(engine, limits, access=Access(KEY)), raise_server_exceptions=False) as client:
        client.headers["Authorization"] = f"Bearer {KEY}"
        yield client


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["x" * 41], "41 characters; allowed are 40"),
        (["ja"] * 4, "4 texts with 4 sentences; allowed are 3"),
        (["ja\nja\nja\nja"], "1 texts with 4 sentences; allowed are 3"),
        (["Ja. Ja! Ja? Ja."], "1 texts with 4 sentences; allowed are 3"),
        (["x" * 300], "more than 300 bytes"),
    ],
)
def test_too_much_is_413(small: TestClient, texts: list[str], says: str) -> None:
    answer = small.post("/api/v1/translate", json={"texts": texts})
    assert (answer.status_code, list(answer.json())) == (413, ["error"])
    assert says in answer.json()["error"]


def test_a_body_of_unknown_length_is_cut_off(small: TestClient) -> None:
    chunks = (b"x" * 100 for _ in range(4))
    answer = small.post("/api/v1/translate", content=chunks, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/api/v1/documents", "/translate_file"])
@pytest.mark.parametrize(
    ("ends", "seconds", "says"),
    [(True, 60.0, "the connection ended"), (False, 0.01, "did not arrive within 0.1 seconds")],
)
def test_an_upload_that_breaks_off(engine: Engine, path: str, ends: bool, seconds: float, says: str) -> None:
    begin = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nja'
    kind = (b"content-type", b"multipart/form-data; boundary=x")
    scope = {"type": "http", "method": "POST", "path": path, "headers": [kind], "query_string": b""}
    messages: list[Message] = [{"type": "http.request", "body": begin, "more_body": True}]
    sent: list[Message] = []

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await asyncio.sleep(0 if ends else 60)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    with TestClient(create_app(engine, ServerLimits(max_seconds=seconds))) as client:
        asyncio.run(client.app(scope, receive, send))
    assert sent[0]["status"] == 408
    assert says in json.loads(sent[1]["body"])["error"]


def test_half_a_body_is_not_taken_for_a_whole_one(engine: Engine) -> None:
    kind = (b"content-type", b"application/json")
    scope = {"type": "http", "method": "POST", "path": "/api/v1/translate", "headers": [kind], "query_string": b""}
    messages: list[Message] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b'{"texts": ["ja"]}', "more_body": True},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    with TestClient(create_app(engine)) as client:
        asyncio.run(client.app(scope, receive, send))
    assert sent[0]["status"] == 408
    assert "the connection ended" in json.loads(sent[1]["body"])["error"]


@pytest.mark.parametrize("header", [None, "Bearer wrong", f"Basic {KEY}", f"Bearer {KEY}x", "Bearer sécret"])
@pytest.mark.parametrize("path", ["/api/v1/info", "/api/v1/memories/all", "/metrics"])
def test_a_wrong_key_is_refused(small: TestClient, header: str | None, path: str) -> None:
    sent = {"Authorization": header.encode("latin-1") if header else b""}
    answer = small.get(path, headers=sent)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert KEY not in answer.text


def test_the_key_opens_and_some_doors_are_open(small: TestClient) -> None:
    assert small.get("/api/v1/info").status_code == 200
    for path in ("/", "/docs", "/openapi.json", "/health", "/languages"):
        assert small.get(path, headers={"Authorization": ""}).status_code == 200


def test_libretranslate_takes_the_key_in_the_body(small: TestClient) -> None:
    body = {"q": "ja", "source": "de", "target": "en"}
    without = {"Authorization": ""}
    assert small.post("/translate", json=body, headers=without).status_code == 401
    assert small.post("/translate", json={**body, "api_key": "wrong"}, headers=without).status_code == 401
    assert small.post("/translate", json={**body, "api_key": KEY}, headers=without).json() == {"translatedText": "yes"}
    assert small.post("/translate", json=body).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs", "/page/style.css", "/health", "/api/v1/info", "/nothing"])
def test_every_answer_has_safe_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_requests_are_counted_by_route(engine: Engine) -> None:
    with TestClient(create_app(engine)) as client:
        for name in ("all", "half", "none"):
            client.get(f"/api/v1/memories/{name}/map")
        text = client.get("/metrics").text
    assert 'lacuna_requests_total{route="/api/v1/memories/{name}/map",status="200"} 2.0' in text
    assert 'lacuna_requests_total{route="/api/v1/memories/{name}/map",status="404"} 1.0' in text


def test_our_own_faults_say_nothing_about_us(model: Model) -> None:
    class Broken(Engine):
        def run(self, job: Job, texts: list[str]) -> list[Result | Exception]:
            raise ZeroDivisionError("secret detail")

    with TestClient(create_app(Broken(model)), raise_server_exceptions=False) as client:
        answer = client.post("/api/v1/translate", json={"texts": ["ja"]})
        assert (answer.status_code, list(answer.json())) == (500, ["error"])
        assert "secret" not in answer.text
        assert client.get("/health").status_code == 200  # and it goes on
