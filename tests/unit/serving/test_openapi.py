"""Requests generated from the OpenAPI description: answers match it, without server errors."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from lacuna.serving import Access, Engine, ServerLimits, create_app

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# What has no parameters cannot be asked for in a wrong way.
PLAIN = ["GET /health", "GET /languages", "GET /frontend/settings"]
OTHERS = [
    "POST /api/v1/translate",
    "POST /api/v1/explain",
    "POST /api/v1/matches",
    "POST /api/v1/detect",
    "POST /api/v1/documents",
    "GET /api/v1/documents/{id}",
    "GET /api/v1/documents/{id}/file",
    "DELETE /api/v1/documents/{id}",
    "GET /api/v1/info",
    "GET /api/v1/memories",
    "GET /api/v1/memories/{name}",
    "GET /api/v1/memories/{name}/map",
    "GET /api/v1/memories/{name}/sentences/{sentence}",
    "POST /api/v1/memories/{name}/pairs",
    "PUT /api/v1/memories/{name}/sentences/{sentence}",
    "DELETE /api/v1/memories/{name}/sentences/{sentence}",
    "GET /api/v1/glossaries",
    "GET /api/v1/glossaries/{name}",
    "GET /api/v1/glossaries/{name}/commits",
    "POST /api/v1/glossaries/{name}/terms",
    "DELETE /api/v1/glossaries/{name}/terms",
    "POST /api/v1/glossaries/{name}/undo",
    "GET /metrics",
    "POST /translate",
    "POST /detect",
    "POST /translate_file",
    "GET /download_file/{place}",
]
GOOD, BAD = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


def never_ending(app: ASGIApp) -> ASGIApp:
    """Keep the app from being shut down after every call, as Schemathesis would."""

    async def without_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            return await app(scope, receive, send)
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})

    return without_lifespan


@pytest.fixture(scope="module")
def operations(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    # Short texts keep the tiny model quick; beyond them the limits answer.
    limits = ServerLimits(max_characters=60, max_texts=4)
    app = create_app(engine, limits, access=Access(allow_host=("testserver",)))  # the name that Schemathesis asks for
    found = schemathesis.openapi.from_asgi("/openapi.json", never_ending(app)).get_all_operations()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("disk")))  # the app is never shut down
        yield {operation.label: operation for operation in (one.ok() for one in found)}


def test_every_operation_is_tried(operations: dict[str, Any]) -> None:
    assert sorted(operations) == sorted([*PLAIN, *OTHERS])


def test_the_description_has_no_tuples(client: TestClient) -> None:
    # Schemathesis and most generators of clients do not know how JSON Schema describes them since OpenAPI 3.1.
    assert "prefixItems" not in client.get("/openapi.json").text


@pytest.mark.parametrize(
    ("label", "mode"), [(label, GOOD) for label in [*PLAIN, *OTHERS]] + [(label, BAD) for label in OTHERS]
)
def test_answers_are_as_described(operations: dict[str, Any], label: str, mode: GenerationMode) -> None:
    @settings(max_examples=10, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operations[label].as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=CHECKS)

    check()
