"""The server's own API: parses, calls one function, answers. The routes are under ``/api/v1``."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.responses import Response

from lacuna.combiners import Vanilla
from lacuna.decoding import BeamSettings
from lacuna.explaining import Explanation
from lacuna.serving.engine import Choice
from lacuna.serving.errors import Overloaded
from lacuna.serving.gate import check_key
from lacuna.serving.overview import KeyMap, Overview, StoredSentence
from lacuna.serving.schemas import (
    ErrorBody,
    ExplainBody,
    Health,
    Info,
    LimitsInfo,
    MemoryInfo,
    SentenceNumber,
    TranslateAnswer,
    TranslateBody,
    Translated,
    VanillaBody,
)
from lacuna.serving.service import Service
from lacuna.version import __version__

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


def _choice(service: Service, body: TranslateBody | ExplainBody) -> Choice:
    asked = body.combiner
    combiner = Vanilla(asked.k, asked.knn_weight, asked.temperature) if isinstance(asked, VanillaBody) else asked
    return service.engine.choose(body.memories, combiner, BeamSettings(beam=body.beam) if body.beam else None)
