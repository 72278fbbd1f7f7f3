"""The interface of LibreTranslate, for existing clients.

``POST /translate`` takes JSON or a form and translates with the server's first memory; ``GET /languages`` lists the
direction of the model. Implemented from the documented interface.
"""

from __future__ import annotations

import json
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import Request

from lacuna.models.directions import NAMES, short_code
from lacuna.serving.access import Access
from lacuna.serving.api import errors
from lacuna.serving.limits import RequestError
from lacuna.serving.service import Service

AUTO = "auto"
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class LibreBody(BaseModel):
    """A request of LibreTranslate; unsupported fields such as ``alternatives`` are ignored."""

    q: str | list[str] = Field(description="One text, or several.", examples=["Klicken Sie auf OK."])
    source: str = Field(default=AUTO, description="The model's source language, or auto.", examples=["de"])
    target: str = Field(description="The model's target language.", examples=["en"])
    format: Literal["text"] = Field(default="text", description="Plain text only; markup is not supported.")
    api_key: str | None = Field(default=None, description="The API key, if the server has one.")


class DetectedLanguage(BaseModel):
    """The source language of the model, for requests with ``auto``. It is not detected, so the confidence is 0."""

    language: str
    confidence: float = 0.0


class LibreAnswer(BaseModel):
    """A translation for a text, or a list for a list."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815


class Language(BaseModel):
    """A language and its target languages."""

    code: str
    name: str
    targets: list[str]


def make_libre_routes(service: Service, access: Access) -> APIRouter:
    """Return the supported routes of LibreTranslate."""
    routes = APIRouter(tags=["LibreTranslate"])
    body_schema = {"schema": LibreBody.model_json_schema()}
    content = {kind: body_schema for kind in ("application/json", *_FORMS)}
    engine = service.engine

    @routes.post(
        "/translate",
        responses=errors(400, 401, 413, 503, 504),
        response_model_exclude_none=True,
        openapi_extra={"requestBody": {"required": True, "content": content}},
    )
    async def translate(request: Request) -> LibreAnswer:
        """Translate a text or a list; the body is JSON or a form."""
        body = _parse(request.headers.get("content-type", ""), await request.body())
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        access.check_reading(body.api_key, bearer if scheme.lower() == "bearer" else None)
        source = _check_languages(service, body)
        several = isinstance(body.q, list)
        done = await service.translate(body.q if isinstance(body.q, list) else [body.q], service.resolve_options())
        texts = [one.text for one in done]
        found = [DetectedLanguage(language=source)] * len(texts) if body.source == AUTO else None
        return LibreAnswer(
            translatedText=texts if several else texts[0],
            detectedLanguage=found if several or found is None else found[0],
        )

    @routes.get("/languages")
    def languages() -> list[Language]:
        """List the languages of the model."""
        direction = engine.model.languages
        if direction is None:
            return []
        return [
            Language(code=code, name=NAMES.get(short_code(code) or "", code), targets=targets)
            for code, targets in ((direction.source, [direction.target]), (direction.target, []))
        ]

    return routes


def _parse(content_type: str, body: bytes) -> LibreBody:
    kind = content_type.partition(";")[0].strip().lower()
    try:
        fields = _form(content_type, body) if kind in _FORMS else json.loads(body)
        return LibreBody.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][:1])) or "body"
        raise RequestError(f"{where}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise RequestError("the body is neither JSON nor a form in UTF-8; send one of these") from error


def _form(content_type: str, body: bytes) -> dict[str, Any]:
    """Read a form of either type; a repeated field is a list."""
    if content_type.lower().startswith(_FORMS[0]):
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, errors="strict")
    else:
        fields = {}
        head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
        whole = BytesParser(policy=HTTP).parsebytes(head + body)
        for part in whole.iter_parts() if whole.is_multipart() else ():
            name = part.get_param("name", header="content-disposition")
            fields.setdefault(str(name), []).append(_payload(part))
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


def _payload(part: Message) -> str:
    content = part.get_payload(decode=True)
    return content.decode("utf-8") if isinstance(content, bytes) else ""


def _check_languages(service: Service, body: LibreBody) -> str:
    """Refuse any other direction than the model's; return its source language."""
    direction = service.engine.model.languages
    if direction is None:
        # The direction of the model is unknown, so any is accepted.
        return body.source
    for field, got, has in (("source", body.source, direction.source), ("target", body.target, direction.target)):
        if got not in (has, short_code(has), AUTO if field == "source" else has):
            raise RequestError(f"{field}: got {got!r}; this server translates {direction.source} to {direction.target}")
    return direction.source
