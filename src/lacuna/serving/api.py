"""The JSON API: request and response bodies, and the routes. FastAPI validates and documents them."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from lacuna.analysis.overview import KeyMap, Overview, StoredSentence
from lacuna.combiners import Vanilla
from lacuna.corpora.cleaning import normalize
from lacuna.decoding import BeamSettings
from lacuna.explanation import Explanation
from lacuna.records import Origin, SentencePair
from lacuna.serving.access import Access, Writing
from lacuna.serving.engine import TranslationOptions
from lacuna.serving.limits import Overloaded
from lacuna.serving.service import Service
from lacuna.version import __version__

MOST_NEIGHBORS = 64
MOST_BEAMS = 8
MOST_WITHOUT = 100
MOST_PAIRS = 20
MOST_LABEL = 200  # characters of a tag or an id

SentenceNumber = Annotated[int, Field(ge=0, lt=2**53)]  # what JavaScript can hold


class RequestBody(BaseModel):
    """A request body; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ErrorBody(BaseModel):
    """What is wrong, and how to fix it."""

    error: str


class VanillaBody(RequestBody):
    """Vanilla kNN-MT with settings of the client."""

    k: int = Field(default=8, ge=1, le=MOST_NEIGHBORS, description="Number of neighbors per token.")
    knn_weight: float = Field(default=0.5, ge=0, le=1, description="Share of the memory; 0 is the model alone.")
    temperature: float = Field(default=10.0, ge=1e-3, le=1e6, description="Divides squared distances.")


class PairBody(RequestBody):
    """A sentence and its translation."""

    source: str = Field(description="One sentence.", examples=["Klicken Sie auf OK."])
    target: str = Field(description="Its translation.", examples=["Click OK."])
    tag: str | None = Field(default=None, max_length=MOST_LABEL, description="A label of your choice.")
    id: str | None = Field(
        default=None, max_length=MOST_LABEL, description="An id of your choice; a pair with the same id is replaced."
    )

    def as_pair(self, file: str, place: str) -> SentencePair:
        """Return the normalized pair, with an origin for explanations."""
        return SentencePair(normalize(self.source), normalize(self.target), Origin(file, place, self.tag), self.id)


class _OptionsBody(RequestBody):
    """Options of all requests to the model."""

    memories: list[str] | None = Field(
        default=None,
        max_length=64,
        description="Names of memories, searched together. Default: the first of the server. Empty: the model alone.",
    )
    combiner: str | VanillaBody | None = Field(
        default=None,
        description="Name of a combiner, or settings. Default: the combiner with the name of the first memory.",
    )
    beam: int | None = Field(default=None, ge=1, le=MOST_BEAMS, description="Beam width; default: 5.")
    pairs: list[PairBody] = Field(
        default=[],
        max_length=MOST_PAIRS,
        description="Example pairs for this request only, searched together with the memories and not stored.",
    )


class TranslateBody(_OptionsBody):
    """Texts to translate. Each line of a text is a sentence; line breaks are kept."""

    texts: list[str] = Field(min_length=1, description="One or more texts.", examples=[["Klicken Sie auf OK."]])


class ExplainBody(_OptionsBody):
    """A sentence to translate and explain."""

    text: str = Field(min_length=1, description="One sentence.", examples=["Klicken Sie auf OK."])
    without: list[SentenceNumber] = Field(
        default=[],
        max_length=MOST_WITHOUT,
        description="Numbers of memory sentences to leave out, to see the translation without them.",
    )


class Translated(BaseModel):
    """A translated text.

    :param score: Mean log-probability of the tokens, over all lines; 0 for a blank text.
    """

    text: str
    score: float
    tokens: int
    without_memory: bool = Field(
        default=False, description="True if a memory did not answer, and the model translated a line alone."
    )


class TranslateAnswer(BaseModel):
    """One translation per text, in order."""

    translations: list[Translated]
    memories: list[str]
    combiner: str | None = Field(description="Name of the combiner; null for settings of the client.")


class MemoryInfo(BaseModel):
    """A memory that clients can select."""

    name: str
    entries: int
    sentences: int
    combiner: str | None = Field(description="Its default combiner; null for vanilla kNN-MT.")


class LimitsInfo(BaseModel):
    """Limits of a request."""

    max_characters: int
    max_texts: int
    max_body_bytes: int
    max_seconds: float


class Info(BaseModel):
    """Description of the server."""

    version: str
    model: str
    source: str | None
    target: str | None
    memories: list[MemoryInfo]
    combiners: list[str]
    calibrated: bool = Field(description="Whether explanations include a confidence.")
    writing: Writing = Field(description="Whether memories can be edited: off, with the write key, or without a key.")
    limits: LimitsInfo


class Health(BaseModel):
    """Whether the server works."""

    status: Literal["ok"]


_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_REASONS = {
    400: "An unknown name, or a value that is not allowed.",
    401: "The API key is missing or wrong.",
    403: "This server does not take edits, or not from this client.",
    404: "Unknown memory or sentence.",
    413: "The request exceeds a limit of the server.",
    422: "The request body is not valid.",
    500: "The edit was not saved, for a reason on the side of the server.",
    503: "The queue is full, another process is editing the memory, or the server is stopping.",
    504: "The time limit of a request is over.",
}

BEARER = HTTPBearer(auto_error=False, description="The API key, if the server has one.")
MemoryName = Annotated[str, Path(description="Name of a memory.", max_length=64)]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a route's errors."""
    return {status: {"model": ErrorBody, "description": _REASONS[status]} for status in statuses}


def make_routes(service: Service, access: Access) -> APIRouter:
    """Return all routes of the API that change nothing."""

    def authorize(given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]) -> None:
        access.check_reading(None if given is None else given.credentials)

    routes = APIRouter()
    closed = APIRouter(prefix="/api/v1", dependencies=[Depends(authorize)], responses=errors(401))
    _add_translating(closed, service)
    _add_memories(closed, service, access)
    routes.include_router(closed)

    @routes.get("/health", tags=["server"], responses=errors(503))
    def health() -> Health:
        """Report whether the server works; needs no key."""
        if not service.works:
            raise Overloaded("the server is stopping; try again later")
        return Health(status="ok")

    @routes.get(
        "/metrics",
        tags=["server"],
        response_class=Response,
        responses={200: {"content": {_METRICS_TYPE: {}}, "description": "Prometheus text format."}, **errors(401)},
        dependencies=[Depends(authorize)],
    )
    def metrics() -> Response:
        """Return metrics for Prometheus."""
        return Response(service.metrics.text(), headers={"Content-Type": _METRICS_TYPE})

    return routes


def _add_translating(routes: APIRouter, service: Service) -> None:
    @routes.post("/translate", tags=["translate"], responses=errors(400, 413, 422, 503, 504))
    async def translate(body: TranslateBody) -> TranslateAnswer:
        """Translate one or more texts with the selected memories."""
        options = _options(service, body)
        done = await service.translate(body.texts, options)
        translations = [
            Translated(text=one.text, score=one.score, tokens=one.tokens, without_memory=one.without_memory)
            for one in done
        ]
        named = options.combiner if isinstance(options.combiner, str) else None
        return TranslateAnswer(translations=translations, memories=options.names, combiner=named)

    @routes.post("/explain", tags=["translate"], responses=errors(400, 413, 422, 503, 504))
    async def explain(body: ExplainBody) -> Explanation:
        """Translate a sentence and return the evidence of every token."""
        return await service.explain(body.text, _options(service, body), body.without)


def _add_memories(routes: APIRouter, service: Service, access: Access) -> None:
    engine, overviews = service.engine, service.overviews

    @routes.get("/info", tags=["server"])
    def info() -> Info:
        """Describe the model, memories, combiners and limits of the server."""
        limits, languages = service.limits, engine.model.languages
        allowed = LimitsInfo(
            max_characters=limits.max_characters,
            max_texts=limits.max_texts,
            max_body_bytes=limits.max_body_bytes,
            max_seconds=limits.max_seconds,
        )
        return Info(
            version=__version__,
            model=PurePath(engine.model.name).name,  # clients do not need the path
            source=languages and languages.source,
            target=languages and languages.target,
            memories=memories(),
            combiners=list(engine.combiners),
            calibrated=engine.calibration is not None,
            writing=access.writing,
            limits=allowed,
        )

    @routes.get("/memories", tags=["memories"])
    def memories() -> list[MemoryInfo]:
        """List the memories; the first is the default."""
        return [
            MemoryInfo(
                name=name,
                entries=memory.store.entries,
                sentences=len(memory.store.sentences),
                combiner=name if name in engine.combiners else None,
            )
            for name, memory in service.memories().items()
        ]

    @routes.get("/memories/{name}", tags=["memories"], responses=errors(404, 422))
    def overview(name: MemoryName) -> Overview:
        """Return statistics of a memory: known entries, margins, and the words that need it."""
        return overviews.overview(name)

    @routes.get("/memories/{name}/map", tags=["memories"], responses=errors(404, 422))
    def key_map(name: MemoryName) -> KeyMap:
        """Return a sample of a memory's keys in two dimensions."""
        return overviews.key_map(name)

    @routes.get("/memories/{name}/sentences/{sentence}", tags=["memories"], responses=errors(404, 422))
    def sentence(name: MemoryName, sentence: SentenceNumber) -> StoredSentence:
        """Return a sentence pair of a memory with its entries."""
        return overviews.sentence(name, sentence)


def _options(service: Service, body: TranslateBody | ExplainBody) -> TranslationOptions:
    asked = body.combiner
    combiner = Vanilla(asked.k, asked.knn_weight, asked.temperature) if isinstance(asked, VanillaBody) else asked
    beam = BeamSettings(beam=body.beam) if body.beam else None
    pairs = [pair.as_pair("request", str(number)) for number, pair in enumerate(body.pairs, start=1)]
    return service.resolve_options(body.memories, combiner, beam, pairs)
