"""The routes that translate files: send one, ask how far it is, fetch it, delete it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import FileResponse

from lacuna.documents import DocumentSettings
from lacuna.documents.translation import REVIEW_BELOW
from lacuna.glossaries import Term
from lacuna.serving.access import Access
from lacuna.serving.api import MAX_TERMS, RequestBody, TermBody, closed_routes, errors
from lacuna.serving.client_terms import check
from lacuna.serving.documents import Document, Documents, Status, texts_of
from lacuna.serving.limits import RequestError
from lacuna.serving.served_directions import AUTO, Directions
from lacuna.serving.translating_routes import MAX_MEMORIES
from lacuna.serving.uploads import FIELD, Upload, check_fields, check_json, read_upload

DOCUMENTS = "/api/v1/documents"
FILE_TYPE = "application/octet-stream"
_TERMS = TypeAdapter(Annotated[list[TermBody], Field(max_length=MAX_TERMS)])

DocumentId = Annotated[str, Path(description="Id of a document.", max_length=64)]


class DocumentFields(RequestBody):
    """The fields of a form next to the file."""

    memories: str | None = Field(
        default=None,
        max_length=MAX_MEMORIES * 65,
        description="Names of memories, with commas. Default: the first of the direction. Empty: the model alone.",
    )
    source: str | None = Field(default=None, max_length=32, description="Source language, or auto to detect it.")
    target: str | None = Field(default=None, max_length=32, description="Target language.")
    overwrite: bool = Field(default=False, description="Translate again what has a translation.")
    exact_matches: bool = Field(default=True, description="Take the translation of the same segment in a memory.")
    review_below: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description=f"Mark translations with a lower confidence for review; default where there is a calibration: "
        f"{REVIEW_BELOW}. 0 marks none.",
    )
    glossary: str | None = Field(
        default=None,
        max_length=64,
        description="Name of a glossary; none: no glossary. Default: the one with the name of the first memory.",
    )
    terms: str | None = Field(
        default=None, description="Terms for this document only, as in a request to translate: a list in JSON."
    )


class DocumentStatus(BaseModel):
    """A document of a client."""

    id: str
    name: str
    status: Status
    sentences: int = Field(default=0, description="Number of sentences that were translated so far.")
    error: str = Field(default="", description="Why it failed.")
    report: dict[str, Any] = Field(default={}, description="What was done, if it is done.")
    download: str = Field(default="", description="Name of the translated file.")


class Deleted(BaseModel):
    """The document is gone."""

    deleted: bool


def make_document_routes(directions: Directions, documents: Documents, access: Access) -> APIRouter:
    """Return the routes that translate files."""
    routes = closed_routes(access)

    @routes.post(
        DOCUMENTS.removeprefix(routes.prefix),
        status_code=202,
        tags=["documents"],
        responses=errors(400, 413, 503),
        response_model_exclude_unset=True,
        openapi_extra=upload_schema(DocumentFields),
    )
    async def send(request: Request) -> DocumentStatus:
        """Send a file; its suffix says the format. It is translated when the files before it are done."""
        async with read_upload(request, directions.limits) as upload:
            given = {name: value for name, value in upload.fields.items() if value or name == "memories"}
            fields = check_fields(DocumentFields, given)
            memories = None if fields.memories is None else _names(fields.memories)
            document = await add_document(
                directions,
                documents,
                upload,
                DocumentSettings(fields.overwrite, fields.exact_matches, fields.review_below),
                memories=memories,
                source=fields.source,
                target=fields.target,
                glossary=fields.glossary,
                terms=_terms(fields.terms),
            )
        return DocumentStatus(id=document.id, name=document.name, status="waiting")

    @routes.get("/documents/{id}", tags=["documents"], responses=errors(404, 422), response_model_exclude_unset=True)
    def status(id: DocumentId) -> DocumentStatus:
        """Tell how far a document is."""
        document = documents.find(id)
        answer = DocumentStatus(
            id=document.id, name=document.name, status=document.status, sentences=document.sentences
        )
        if answer.status == "failed":
            answer.error = document.error
        if answer.status == "done":
            answer.report, answer.download = document.report(), document.download
        return answer

    @routes.get(
        "/documents/{id}/file",
        tags=["documents"],
        response_class=FileResponse,
        responses={200: {"content": {FILE_TYPE: {}}, "description": "The translated file."}, **errors(400, 404, 422)},
    )
    def fetch(id: DocumentId) -> FileResponse:
        """Return the translated file."""
        return send_document(documents.find(id))

    @routes.delete("/documents/{id}", tags=["documents"], responses=errors(404, 422))
    def delete(id: DocumentId) -> Deleted:
        """Delete a document and its translation, or stop it."""
        documents.delete(id)
        return Deleted(deleted=True)

    return routes


async def add_document(
    directions: Directions,
    documents: Documents,
    upload: Upload,
    settings: DocumentSettings,
    *,
    memories: list[str] | None = None,
    source: str | None = None,
    target: str | None = None,
    glossary: str | None = None,
    terms: Sequence[Term] = (),
) -> Document:
    """Let a file wait for its translation, in the direction that is asked for."""
    texts: list[str] = []
    if source == AUTO:
        languages = directions.services[0].engine.model.languages
        texts = await asyncio.to_thread(texts_of, upload.file, upload.name, languages)
    service, _ = await directions.choose(memories, source, target, texts)
    options = service.resolve_options(memories, glossary=glossary, terms=terms)
    return await asyncio.to_thread(documents.add, service, upload.file, upload.name, options, settings)


def send_document(document: Document) -> FileResponse:
    """Return the translated file, never to be shown in the browser."""
    if document.status != "done":
        raise RequestError(f"document: it is {document.status}, not done; ask for its status first")
    plain = "".join(letter if letter.isascii() else "_" for letter in document.download)
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(document.download, safe='')}"
    return FileResponse(document.file, media_type=FILE_TYPE, headers={"Content-Disposition": disposition})


def upload_schema(fields: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a form with a file, for OpenAPI."""
    schema = fields.model_json_schema()
    schema["properties"] = {FIELD: {"type": "string", "format": "binary"}, **schema["properties"]}
    schema["required"] = [FIELD, *schema.get("required", [])]
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def _terms(text: str | None) -> Sequence[Term]:
    """Read terms in JSON."""
    bodies = [] if text is None else check_json("terms", _TERMS, text)
    return check([body.as_term() for body in bodies]).terms


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
