"""What clients send and get, as far as it is not a record of another room. FastAPI documents and checks it."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from lacuna.analysis.overview import KeyMap, Overview, StoredSentence
from lacuna.combiners import Vanilla
from lacuna.decoding import BeamSettings
from lacuna.explanation import Explanation
from lacuna.serving.limits import Overloaded
from lacuna.serving.middleware import check_key
from lacuna.serving.service import Service, SystemChoice
from lacuna.version import __version__

MOST_NEIGHBORS = 64
MOST_BEAMS = 8
MOST_WITHOUT = 100

SentenceNumber = Annotated[int, Field(ge=0, lt=2**31)]


class _Sent(BaseModel):
    """A body as clients send it: a field that nobody knows is an error, not silence."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ErrorBody(BaseModel):
    """What went wrong, and the way out."""

    error: str


class VanillaBody(_Sent):
    """Vanilla kNN-MT with settings of the client's own."""

    k: int = Field(default=8, ge=1, le=MOST_NEIGHBORS, description="Neighbors per token.")
    knn_weight: float = Field(default=0.5, ge=0, le=1, description="Share of the memory: 0 is the model alone.")
    temperature: float = Field(default=10.0, ge=1e-3, le=1e6, description="Divides squared distances.")


class _Choosing(_Sent):
    """The choice that all requests to the model share."""

    memories: list[str] | None = Field(
        default=None,
        max_length=64,
        description="Names of memories, searched together. Left out: the server's first. Empty: the model alone.",
    )
    combiner: str | VanillaBody | None = Field(
        default=None,
        description="The name of a combiner, or settings. Left out: the one with the name of the first memory chosen.",
    )
    beam: int | None = Field(default=None, ge=1, le=MOST_BEAMS, description="Beam width; left out: 5.")


class TranslateBody(_Choosing):
    """Texts to translate. Each line of a text is translated as a sentence; line breaks are kept."""

    texts: list[str] = Field(min_length=1, description="One text, or many.", examples=[["Klicken Sie auf OK."]])


class ExplainBody(_Choosing):
    """A sentence to translate and to explain."""

    text: str = Field(min_length=1, description="One sentence.", examples=["Klicken Sie auf OK."])
    without: list[SentenceNumber] = Field(
        default=[],
        max_length=MOST_WITHOUT,
        description="Sentences of the memories whose entries must not be found: what would have been said then?",
    )


class Translated(BaseModel):
    """A translated text.

    :param score: Mean log-probability of the tokens, over all lines; 0 for a blank text.
    """

    text: str
    score: float
    tokens: int


class TranslateAnswer(BaseModel):
    """Translations, one for each text, in order."""

    translations: list[Translated]
    memories: list[str]
    combiner: str | None = Field(description="The name of the combiner; null for settings of the client's own.")


class MemoryInfo(BaseModel):
    """A memory that clients may choose."""

    name: str
    entries: int
    sentences: int
    combiner: str | None = Field(description="The combiner that goes with it; null for vanilla kNN-MT.")


class LimitsInfo(BaseModel):
    """What one request may ask for."""

    max_characters: int
    max_texts: int
    max_body_bytes: int
    max_seconds: float


class Info(BaseModel):
    """What this server has."""

    version: str
    model: str
    source: str | None
    target: str | None
    memories: list[MemoryInfo]
    combiners: list[str]
    calibrated: bool = Field(description="Whether explanations have a confidence.")
    limits: LimitsInfo


class Health(BaseModel):
    """Whether the server works."""

    status: Literal["ok"]


_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_REASONS = {
    400: "Something asked for is not here, or not allowed.",
    401: "The API key is missing or wrong.",
    404: "There is no such memory or sentence.",
    413: "More than the limits of the server.",
    422: "The request is not of the form described here.",
    503: "Too much is waiting, or the server is stopping.",
    504: "No answer in time.",
}

_BEARER = HTTPBearer(auto_error=False, description="The server's API key, where it has one.")
MemoryName = Annotated[str, Path(description="The name of a memory.", max_length=64)]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a route for the documentation."""
    return {status: {"model": ErrorBody, "description": _REASONS[status]} for status in statuses}


def make_routes(service: Service, key: str | None) -> APIRouter:
    """Make all routes of the API.

    :param key: What clients must know; None for nothing.
    """

    def authorize(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]) -> None:
        check_key(key, None if given is None else given.credentials)

    routes = APIRouter()
    closed = APIRouter(prefix="/api/v1", dependencies=[Depends(authorize)], responses=errors(401))
    _add_translating(closed, service)
    _add_memories(closed, service)
    routes.include_router(closed)

    @routes.get("/health", tags=["server"], responses=errors(503))
    def health() -> Health:
        """Say whether the server works; needs no key."""
        if not service.works:
            raise Overloaded("the server is stopping; ask another, or again when it is back")
        return Health(status="ok")

    @routes.get(
        "/metrics",
        tags=["server"],
        response_class=Response,
        responses={200: {"content": {_METRICS_TYPE: {}}, "description": "Prometheus' format."}, **errors(401)},
        dependencies=[Depends(authorize)],
    )
    def metrics() -> Response:
        """Give counts and times for Prometheus."""
        return Response(service.metrics.text(), headers={"Content-Type": _METRICS_TYPE})

    return routes


def _add_translating(routes: APIRouter, service: Service) -> None:
    @routes.post("/translate", tags=["translate"], responses=errors(400, 413, 422, 503, 504))
    async def translate(body: TranslateBody) -> TranslateAnswer:
        """Translate one text or many, with the memories of one's choice."""
        choice = _choice(service, body)
        done = await service.translate(body.texts, choice)
        translations = [Translated(text=one.text, score=one.score, tokens=one.tokens) for one in done]
        named = choice.combiner if isinstance(choice.combiner, str) else None
        return TranslateAnswer(translations=translations, memories=list(choice.memories), combiner=named)

    @routes.post("/explain", tags=["translate"], responses=errors(400, 413, 422, 503, 504))
    async def explain(body: ExplainBody) -> Explanation:
        """Translate a sentence, and say of every token what model and memory thought of it."""
        return await service.explain(body.text, _choice(service, body), body.without)


def _add_memories(routes: APIRouter, service: Service) -> None:
    engine, overviews = service.engine, service.overviews

    @routes.get("/info", tags=["server"])
    def info() -> Info:
        """Say what this server has, and what it allows."""
        limits, languages = service.limits, engine.model.languages
        allowed = LimitsInfo(
            max_characters=limits.max_characters,
            max_texts=limits.max_texts,
            max_body_bytes=limits.max_body_bytes,
            max_seconds=limits.max_seconds,
        )
        return Info(
            version=__version__,
            model=PurePath(engine.model.name).name,  # where it lies is nobody's business
            source=languages and languages.source,
            target=languages and languages.target,
            memories=memories(),
            combiners=list(engine.combiners),
            calibrated=engine.calibration is not None,
            limits=allowed,
        )

    @routes.get("/memories", tags=["memories"])
    def memories() -> list[MemoryInfo]:
        """List the memories that can be chosen; the first is used where none is named."""
        return [
            MemoryInfo(
                name=name,
                entries=memory.store.entries,
                sentences=len(memory.store.sentences),
                combiner=name if name in engine.combiners else None,
            )
            for name, memory in engine.memories.items()
        ]

    @routes.get("/memories/{name}", tags=["memories"], responses=errors(404, 422))
    def overview(name: MemoryName) -> Overview:
        """Give a memory in numbers: what the model knows of it, its margins, the words it is needed for."""
        return overviews.overview(name)

    @routes.get("/memories/{name}/map", tags=["memories"], responses=errors(404, 422))
    def key_map(name: MemoryName) -> KeyMap:
        """Give a sample of a memory's keys in two dimensions."""
        return overviews.key_map(name)

    @routes.get("/memories/{name}/sentences/{sentence}", tags=["memories"], responses=errors(404, 422))
    def sentence(name: MemoryName, sentence: SentenceNumber) -> StoredSentence:
        """Give a sentence pair of a memory, with its entries."""
        return overviews.sentence(name, sentence)


def _choice(service: Service, body: TranslateBody | ExplainBody) -> SystemChoice:
    asked = body.combiner
    combiner = Vanilla(asked.k, asked.knn_weight, asked.temperature) if isinstance(asked, VanillaBody) else asked
    return service.engine.choose(body.memories, combiner, BeamSettings(beam=body.beam) if body.beam else None)
