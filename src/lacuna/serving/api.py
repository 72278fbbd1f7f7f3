"""What all routes of the JSON API share, and those about the server and its memories.

FastAPI validates and documents requests and answers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from lacuna.corpora.cleaning import normalize
from lacuna.documents.file_formats import FORMATS
from lacuna.glossaries import Term
from lacuna.memory.overview import KeyMap, Overview, StoredSentence
from lacuna.records import Origin, SentencePair
from lacuna.serving.access import Access, Writing
from lacuna.serving.limits import Overloaded
from lacuna.serving.served_directions import Directions
from lacuna.serving.service import Service
from lacuna.version import __version__

MAX_LABEL = 200  # characters of a tag or an id
MAX_NOTE = 1000  # characters of the note of a term
MAX_FORMS = 20  # translations of a term
MAX_TERMS = 200  # in a request

SentenceNumber = Annotated[int, Field(ge=0, lt=2**53)]  # what JavaScript can hold


class RequestBody(BaseModel):
    """A request body; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ErrorBody(BaseModel):
    """What is wrong, and how to fix it."""

    error: str


class PairBody(RequestBody):
    """A sentence and its translation."""

    source: str = Field(description="One sentence.", examples=["Klicken Sie auf OK."])
    target: str = Field(description="Its translation.", examples=["Click OK."])
    tag: str | None = Field(default=None, max_length=MAX_LABEL, description="A label of your choice.")
    id: str | None = Field(
        default=None, max_length=MAX_LABEL, description="An id of your choice; a pair with the same id is replaced."
    )

    def as_pair(self, file: str, place: str) -> SentencePair:
        """Return the normalized pair, with an origin for explanations."""
        return SentencePair(normalize(self.source), normalize(self.target), Origin(file, place, self.tag), self.id)


class TermBody(RequestBody):
    """A term, and how it must be translated."""

    source: str = Field(description="One or more words.", examples=["Datei"])
    targets: list[str] = Field(
        default=[],
        max_length=MAX_FORMS,
        description="Allowed translations, the preferred one first.",
        examples=[["file"]],
    )
    forbidden: list[str] = Field(
        default=[], max_length=MAX_FORMS, description="Translations that must not appear where the term occurs."
    )
    case_sensitive: bool = Field(default=False, description="Only with the same capitals.")
    inflected: bool = Field(default=True, description="Also in inflected forms.")
    translate: bool = Field(default=True, description="False for a term that stays as it is.")
    note: str = Field(default="", max_length=MAX_NOTE, description="A remark for people.")
    tag: str = Field(default="", max_length=MAX_LABEL, description="A label of your choice.")

    def as_term(self) -> Term:
        """Return the term."""
        return Term(**{**self.model_dump(), "targets": tuple(self.targets), "forbidden": tuple(self.forbidden)})


class MemoryInfo(BaseModel):
    """A memory that clients can select."""

    name: str
    entries: int
    sentences: int
    combiner: str | None = Field(description="Its default combiner; null for safe settings, without a fit.")


class LimitsInfo(BaseModel):
    """Limits of a request."""

    max_characters: int
    max_texts: int
    max_body_bytes: int
    max_file_bytes: int
    max_seconds: float


class DirectionInfo(BaseModel):
    """A model with its languages, and its memories."""

    source: str | None
    target: str | None
    model: str
    memories: list[str]
    calibrated: bool = Field(description="Whether translations can have a confidence.")


class Info(BaseModel):
    """Description of the server; model, languages, memories and combiners are those of its first direction."""

    version: str
    model: str
    source: str | None
    target: str | None
    memories: list[MemoryInfo]
    combiners: list[str]
    calibrated: bool = Field(description="Whether explanations include a confidence.")
    writing: Writing = Field(
        description="Whether memories and glossaries can be edited: off, with the write key, or without a key."
    )
    limits: LimitsInfo
    directions: list[DirectionInfo]
    file_suffixes: list[str] = Field(description="Suffixes of files that can be translated.")


class Health(BaseModel):
    """Whether the server works."""

    status: Literal["ok"]


_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_REASONS = {
    400: "An unknown name, or a value that is not allowed.",
    401: "The API key is missing or wrong.",
    403: "This server does not take edits, or not from this client.",
    404: "Unknown memory, sentence, document, glossary, term or commit.",
    413: "The request exceeds a limit of the server.",
    422: "The request body is not valid.",
    500: "The edit was not saved, for a reason on the side of the server.",
    503: "The queue is full, another process is editing the same, or the server is stopping.",
    504: "The time limit of a request is over.",
}

BEARER = HTTPBearer(auto_error=False, description="The API key, if the server has one.")
MemoryName = Annotated[str, Path(description="Name of a memory.", max_length=64)]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a route's errors."""
    return {status: {"model": ErrorBody, "description": _REASONS[status]} for status in statuses}


def closed_routes(access: Access) -> APIRouter:
    """Return a router for routes of the API that need the key of the server."""
    return APIRouter(prefix="/api/v1", dependencies=[Depends(_reading(access))], responses=errors(401))


def editing_routes(access: Access, prefix: str) -> APIRouter:
    """Return a router for edits; its routes answer 403 if the server does not take any."""

    def authorize(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]) -> None:
        access.check_writing(request, None if given is None else given.credentials)

    return APIRouter(
        prefix=prefix,
        tags=["edit"],
        dependencies=[Depends(authorize)],
        responses=errors(400, 401, 403, 404, 413, 422, 500, 503, 504),
    )


def _reading(access: Access) -> Callable[..., None]:
    def authorize(given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]) -> None:
        access.check_reading(None if given is None else given.credentials)

    return authorize


def make_routes(directions: Directions, access: Access) -> APIRouter:
    """Return the routes about the server and its memories."""
    routes = APIRouter()
    closed = closed_routes(access)
    _add_memories(closed, directions, access)
    routes.include_router(closed)

    @routes.get("/health", tags=["server"], responses=errors(503))
    def health() -> Health:
        """Report whether the server works; needs no key."""
        if not directions.works:
            raise Overloaded("the server is stopping; try again later")
        return Health(status="ok")

    @routes.get(
        "/metrics",
        tags=["server"],
        response_class=Response,
        responses={200: {"content": {_METRICS_TYPE: {}}, "description": "Prometheus text format."}, **errors(401)},
        dependencies=[Depends(_reading(access))],
    )
    def metrics() -> Response:
        """Return metrics for Prometheus."""
        return Response(directions.metrics.text(), headers={"Content-Type": _METRICS_TYPE})

    return routes


def _add_memories(routes: APIRouter, directions: Directions, access: Access) -> None:
    @routes.get("/info", tags=["server"])
    def info() -> Info:
        """Describe the models, memories, combiners and limits of the server."""
        limits, first = directions.limits, directions.services[0]
        described = [_describe(service) for service in directions.services]
        return Info(
            version=__version__,
            model=described[0].model,
            source=described[0].source,
            target=described[0].target,
            memories=_memories(first),
            combiners=list(first.engine.combiners),
            calibrated=described[0].calibrated,
            writing=access.writing,
            limits=LimitsInfo(
                max_characters=limits.max_characters,
                max_texts=limits.max_texts,
                max_body_bytes=limits.max_body_bytes,
                max_file_bytes=limits.max_file_bytes,
                max_seconds=limits.max_seconds,
            ),
            directions=described,
            file_suffixes=[suffix for file_format in FORMATS for suffix in file_format.suffixes],
        )

    @routes.get("/memories", tags=["memories"])
    def memories() -> list[MemoryInfo]:
        """List the memories of all directions; the first of each is its default."""
        return [memory for service in directions.services for memory in _memories(service)]

    @routes.get("/memories/{name}", tags=["memories"], responses=errors(404, 422))
    def overview(name: MemoryName) -> Overview:
        """Return statistics of a memory: known entries, margins, and the words that need it."""
        return directions.of_memory(name).overview(name)

    @routes.get("/memories/{name}/map", tags=["memories"], responses=errors(404, 422))
    def key_map(name: MemoryName) -> KeyMap:
        """Return a sample of a memory's keys in two dimensions."""
        return directions.of_memory(name).key_map(name)

    @routes.get("/memories/{name}/sentences/{sentence}", tags=["memories"], responses=errors(404, 422))
    def sentence(name: MemoryName, sentence: SentenceNumber) -> StoredSentence:
        """Return a sentence pair of a memory with its entries."""
        return directions.of_memory(name).sentence(name, sentence)


def _describe(service: Service) -> DirectionInfo:
    engine = service.engine
    languages = engine.model.languages
    return DirectionInfo(
        source=languages and languages.source,
        target=languages and languages.target,
        model=PurePath(engine.model.name).name,  # clients do not need the path
        memories=list(engine.memories),
        calibrated=bool(engine.calibrations),
    )


def _memories(service: Service) -> list[MemoryInfo]:
    return [
        MemoryInfo(
            name=name,
            entries=memory.entries,
            sentences=len(memory.sentences),
            combiner=name if name in service.engine.combiners else None,
        )
        for name, memory in service.memories().items()
    ]
