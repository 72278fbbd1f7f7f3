"""Who may ask: the names that a server without a key answers to, pages of other sites, and HEAD."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from lacuna.errors import SettingError
from lacuna.serving import Access, Engine, create_app

EVIL = "evil.example:8017"
LOCAL_NAMES = ["localhost", "LOCALHOST:8017", "localhost.", "a.localhost:1", "lacuna.example", "lacuna.EXAMPLE.:8017"]
ADDRESSES = ["127.0.0.1:8017", "127.1.2.3", "[::1]:8017", "[::1]", "192.168.1.5:8017", "[fe80::1]:80"]
FOREIGN_NAMES = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "notlocalhost", "1"]
NO_NAMES = ["[::1].evil.example", "user@localhost", "localhost@evil.example", "localhost, evil", "::1", "[x]", "a b"]
SITE = "https://translate.example"


@pytest.fixture(scope="module")
def open_server(engine: Engine) -> Iterator[TestClient]:
    access = Access(allow_host=("Lacuna.example",), allow_origin=(SITE,))
    with TestClient(create_app(engine, access=access), raise_server_exceptions=False) as client:
        yield client


def routes(client: TestClient) -> list[tuple[str, str]]:
    paths = client.get("/openapi.json").json()["paths"]
    described = [(method.upper(), re.sub(r"{\w+}", "1", path)) for path, methods in paths.items() for method in methods]
    return [*described, *(("GET", path) for path in ("/", "/docs", "/page/main.js", "/openapi.json", "/nothing"))]


def test_no_route_answers_to_a_foreign_name(client: TestClient) -> None:
    known = routes(client)
    assert ("GET", "/api/v1/memories/1/sentences/1") in known
    for method, path in known:
        answer = client.request(method, path, headers={"Host": EVIL})
        assert answer.status_code == 403, (method, path)
        assert "evil.example" in answer.json()["error"]
        assert "answer to the name" not in client.request(method, path).text, (method, path)


@pytest.mark.parametrize("host", [*LOCAL_NAMES, *ADDRESSES])
def test_addresses_and_names_of_this_machine(open_server: TestClient, host: str) -> None:
    assert open_server.get("/api/v1/info", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", [*FOREIGN_NAMES, *NO_NAMES])
def test_other_names(open_server: TestClient, host: str) -> None:
    assert open_server.get("/api/v1/info", headers={"Host": host}).status_code == 403


def test_with_a_key_every_name_will_do(engine: Engine) -> None:
    with TestClient(create_app(engine, access=Access("k"))) as client:
        given = {"Host": EVIL, "Authorization": "Bearer k"}
        assert client.get("/api/v1/info", headers=given).status_code == 200
    with TestClient(create_app(engine, access=Access(write_key="w"))) as client:
        assert client.get("/api/v1/info", headers={"Host": EVIL}).status_code == 403
    with TestClient(create_app(engine, access=Access(allow_host=("*",)))) as client:
        assert client.get("/api/v1/info", headers={"Host": EVIL}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs", "/health", "/languages", "/page/main.js", "/api/v1/info", "/metrics"])
def test_head_is_get_without_a_body(client: TestClient, path: str) -> None:
    found, wanted = client.head(path), client.get(path)
    assert (found.status_code, found.content) == (200, b"")
    assert found.headers["Content-Type"] == wanted.headers["Content-Type"]
    if path != "/metrics":
        assert found.headers["Content-Length"] == wanted.headers["Content-Length"]


def test_head_elsewhere(client: TestClient) -> None:
    assert [client.head(path).status_code for path in ("/nothing", "/translate")] == [404, 405]
    described = client.get("/openapi.json").json()["paths"]["/health"]
    assert list(described) == ["get"]  # an operation is described once


def test_pages_of_other_sites_get_no_answer(client: TestClient) -> None:
    answer = client.post("/translate", json={"q": "ja", "target": "en"}, headers={"Origin": SITE})
    assert [name for name in answer.headers if name.startswith("access-control")] == []
    asked = {"Origin": SITE, "Access-Control-Request-Method": "POST"}
    assert client.options("/translate", headers=asked).status_code == 405


def test_pages_of_sites_that_are_allowed(open_server: TestClient) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"}
    answer = open_server.options("/translate", headers={"Origin": SITE, **asked})
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, SITE)
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    assert open_server.options("/translate", headers={"Origin": "https://evil.example", **asked}).status_code == 400
    body = {"q": "ja", "source": "de", "target": "en"}
    answer = open_server.post("/translate", json=body, headers={"Origin": SITE})
    assert (answer.json(), answer.headers["Access-Control-Allow-Origin"]) == ({"translatedText": "yes"}, SITE)
    # An error must be readable too.
    answer = open_server.post("/translate", content=b"x" * (1 << 21), headers={"Origin": SITE})
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (413, SITE)
    answer = open_server.get("/languages", headers={"Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_every_site(engine: Engine) -> None:
    with TestClient(create_app(engine, access=Access(allow_origin=("*",)))) as client:
        answer = client.get("/languages", headers={"Origin": "https://any.example"})
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert client.get("/languages", headers={"Origin": SITE, "Host": EVIL}).status_code == 403


@pytest.mark.parametrize("origin", ["", "translate.example", "https://", "https://a.example/", "https://a b", "null"])
def test_what_is_no_origin(origin: str) -> None:
    with pytest.raises(SettingError, match="allow_origin: got"):
        Access(allow_origin=(origin,))


@pytest.mark.parametrize("host", ["", "a.example:80", "https://a.example", "a b"])
def test_what_is_no_name(host: str) -> None:
    with pytest.raises(SettingError, match="allow_host: got"):
        Access(allow_host=(host,))
