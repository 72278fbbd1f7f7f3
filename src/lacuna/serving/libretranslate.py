"""The interface of LibreTranslate, for existing clients.

Texts and files are translated with the first memory of a direction. Implemented from the documented interface.
"""

from __future__ import annotations

import asyncio
import json
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import FileResponse

from lacuna.documents import DocumentSettings
from lacuna.documents.file_formats import FORMATS
from lacuna.documents.language_detection import Detected, detect
from lacuna.errors import NotFoundError
from lacuna.models.directions import NAMES, short_code
from lacuna.records import Languages
from lacuna.serving.access import Access
from lacuna.serving.api import errors
from lacuna.serving.document_routes import FILE_TYPE, add_document, send_document, upload_schema
from lacuna.serving.documents import Documents
from lacuna.serving.limits import RequestError
from lacuna.serving.served_directions import AUTO, Directions, sample
from lacuna.serving.uploads import Body, check_fields, read_upload

TRANSLATE_FILE = "/translate_file"
_UNKNOWN = Detected("en", 0.0)  # LibreTranslate's answer for a text without letters
_MAX_ALTERNATIVES = 5
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class _KeyBody(BaseModel):
    """The field that all requests of LibreTranslate have; unsupported fields are ignored."""

    api_key: str | None = Field(default=None, description="The API key, if the server has one.")


class LibreBody(_KeyBody):
    """Texts to translate."""

    q: str | list[str] = Field(description="One text, or several.", examples=["Klicken Sie auf OK."])
    source: str = Field(default=AUTO, description="Source language, or auto to detect it.", examples=["de"])
    target: str = Field(description="Target language.", examples=["en"])
    format: Literal["text", "html"] = Field(default="text", description="In HTML, tags stay.")
    alternatives: int = Field(default=0, ge=0, description="Number of other translations; at most 5 are given.")


class LibreDetectBody(_KeyBody):
    """A text whose language is wanted."""

    q: str = Field(description="A text.", examples=["Klicken Sie auf OK."])


class LibreFileFields(_KeyBody):
    """The fields next to a file."""

    source: str = Field(default=AUTO, description="Source language, or auto to detect it.", examples=["de"])
    target: str = Field(description="Target language.", examples=["en"])


class LibreLanguage(BaseModel):
    """A detected language; the confidence is from 0 to 100."""

    confidence: float
    language: str


class LibreAnswer(BaseModel):
    """A translation for a text, or a list for a list."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name
    detectedLanguage: LibreLanguage | list[LibreLanguage] | None = None  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None


class LibreFile(BaseModel):
    """Where the translated file is."""

    translatedFileUrl: str  # noqa: N815


class Language(BaseModel):
    """A language and its target languages."""

    code: str
    name: str
    targets: list[str]


class LibreSettings(BaseModel):
    """What LibreTranslate tells its web page."""

    apiKeys: bool  # noqa: N815
    charLimit: int  # noqa: N815
    filesTranslation: bool = True  # noqa: N815
    frontendTimeout: int = 500  # noqa: N815
    keyRequired: bool  # noqa: N815
    language: dict[str, dict[str, str]]
    suggestions: bool = False
    supportedFilesFormat: list[str]  # noqa: N815


def make_libre_routes(directions: Directions, documents: Documents, access: Access) -> APIRouter:
    """Return the supported routes of LibreTranslate."""
    routes = APIRouter(tags=["LibreTranslate"])
    _add_texts(routes, directions, access)
    _add_files(routes, directions, documents, access)

    @routes.get("/languages")
    def languages() -> list[Language]:
        """List the languages of all directions."""
        targets: dict[str, list[str]] = {}
        for direction in _languages(directions):
            targets.setdefault(direction.source, []).append(direction.target)
        for direction in _languages(directions):
            targets.setdefault(direction.target, [])
        return [
            Language(code=code, name=_name(code), targets=list(dict.fromkeys(target_codes)))
            for code, target_codes in targets.items()
        ]

    @routes.get("/frontend/settings")
    def settings() -> LibreSettings:
        """Describe the server as LibreTranslate does."""
        first = next(iter(_languages(directions)), Languages(AUTO, "en"))
        sides = {"source": first.source, "target": first.target}
        return LibreSettings(
            apiKeys=access.key is not None,
            keyRequired=access.key is not None,
            charLimit=directions.limits.max_characters,
            language={side: {"code": code, "name": _name(code)} for side, code in sides.items()},
            supportedFilesFormat=[suffix for file_format in FORMATS for suffix in file_format.suffixes],
        )

    return routes


def _add_texts(routes: APIRouter, directions: Directions, access: Access) -> None:
    @routes.post(
        "/translate",
        responses=errors(400, 401, 413, 503, 504),
        response_model_exclude_none=True,
        openapi_extra=_body_schema(LibreBody),
    )
    async def translate(request: Request) -> LibreAnswer:
        """Translate a text or a list; the body is JSON or a form."""
        body = await _read(request, LibreBody, access)
        texts = body.q if isinstance(body.q, list) else [body.q]
        service, detected = await directions.choose(None, body.source, body.target, texts)
        options = service.resolve_options()
        is_html = body.format == "html"
        done = await (service.translate_html if is_html else service.translate)(texts, options)
        answer = LibreAnswer(translatedText=[translated.text for translated in done])
        if detected is not None:
            answer.detectedLanguage = [_detected(detected)] * len(texts)
        if body.alternatives and not is_html:
            alternatives = await service.alternatives(done, options, min(body.alternatives, _MAX_ALTERNATIVES))
            answer.alternatives = [list(others.texts) for others in alternatives]
        return answer if isinstance(body.q, list) else _first(answer)

    @routes.post("/detect", responses=errors(400, 401, 413), openapi_extra=_body_schema(LibreDetectBody))
    async def find_language(request: Request) -> list[LibreLanguage]:
        """Tell the language of a text; the body is JSON or a form."""
        body = await _read(request, LibreDetectBody, access)
        directions.services[0].check_texts([body.q])
        detected = await asyncio.to_thread(detect, sample([body.q]))
        return [_detected(language) for language in detected or [_UNKNOWN]]


def _add_files(routes: APIRouter, directions: Directions, documents: Documents, access: Access) -> None:
    @routes.post(TRANSLATE_FILE, responses=errors(400, 401, 413, 503), openapi_extra=upload_schema(LibreFileFields))
    async def translate_file(request: Request) -> LibreFile:
        """Translate a file, and return the address of the translated file."""
        async with read_upload(request, directions.limits) as upload:
            fields = check_fields(LibreFileFields, upload.fields)
            access.check_reading(fields.api_key, _bearer(request))
            document = await add_document(
                directions, documents, upload, DocumentSettings(), source=fields.source, target=fields.target
            )
        await asyncio.shield(asyncio.wrap_future(document.ended))
        if document.status == "failed":
            documents.delete(document.id)
            raise RequestError(document.error)
        path = f"download_file/{document.id}.{quote(document.download, safe='')}"
        return LibreFile(translatedFileUrl=f"{request.base_url}{path}")

    @routes.get(
        "/download_file/{place}",
        response_class=FileResponse,
        responses={200: {"content": {FILE_TYPE: {}}, "description": "The translated file."}, **errors(400, 404, 422)},
    )
    def download(
        place: Annotated[str, Path(max_length=300, description="ID.NAME of a translated file.")],
    ) -> FileResponse:
        """Return a translated file; its address is secret, so that no key is needed."""
        id, _, name = place.partition(".")
        document = documents.find(id)
        if name != document.download:
            raise NotFoundError("document: no such file; use the address that the translation gave")
        return send_document(document)


async def _read(request: Request, kind: type[Body], access: Access) -> Body:
    """Read a request, and check its key."""
    content_type, content = request.headers.get("content-type", ""), await request.body()
    try:
        is_form = content_type.partition(";")[0].strip().lower() in _FORMS
        fields = _form(content_type, content) if is_form else json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RequestError("the body is neither JSON nor a form in UTF-8; send one of these") from error
    body = check_fields(kind, fields)
    access.check_reading(getattr(body, "api_key", None), _bearer(request))
    return body


def _bearer(request: Request) -> str | None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key if scheme.lower() == "bearer" else None


def _body_schema(kind: type[BaseModel]) -> dict[str, Any]:
    content = {media_type: {"schema": kind.model_json_schema()} for media_type in ("application/json", *_FORMS)}
    return {"requestBody": {"required": True, "content": content}}


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


def _languages(directions: Directions) -> list[Languages]:
    all_languages = (service.engine.model.languages for service in directions.services)
    return [languages for languages in all_languages if languages is not None]


def _name(code: str) -> str:
    return NAMES.get(short_code(code) or "", code)


def _detected(detected: Detected) -> LibreLanguage:
    return LibreLanguage(confidence=round(100 * detected.confidence, 1), language=detected.language)


def _first(answer: LibreAnswer) -> LibreAnswer:
    """Return the answer to a text that is not in a list."""
    fields = {name: value[0] if value else value for name, value in answer}
    return LibreAnswer(**fields)
