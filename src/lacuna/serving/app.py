"""The whole app: routes, the gate before them, and errors that all have one shape."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from lacuna.errors import LacunaError
from lacuna.serving.api import make_routes
from lacuna.serving.engine import Engine
from lacuna.serving.gate import Gate, error_answer, error_response
from lacuna.serving.libretranslate import make_libre_routes
from lacuna.serving.limits import Limits
from lacuna.serving.pages import make_page_routes
from lacuna.serving.service import Service
from lacuna.version import __version__

_ABOUT = """Translations by one model with memories of your choice, and the reasons for every word.

Errors are `{"error": "what is wrong, and the way out"}`."""


def create_app(
    engine: Engine,
    limits: Limits | None = None,
    *,
    key: str | None = None,
    prepare: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Make the app; its worker thread runs from here until the app is shut down.

    :param key: The API key that clients must send; None lets everybody in.
    :param prepare: Called in the worker thread before any work; the place for settings that count per thread.
    """
    service = Service(engine, limits or Limits(), prepare)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(service.close)

    app = FastAPI(
        title="Lacuna", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.include_router(make_routes(service, key))
    app.include_router(make_libre_routes(service, key))
    app.include_router(make_page_routes())
    app.add_middleware(Gate, limits=service.limits, metrics=service.metrics)
    app.add_exception_handler(LacunaError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_form)
    app.add_exception_handler(HTTPException, _refuse_route)
    return app


async def _refuse(_: Request, error: Exception) -> JSONResponse:
    return error_response(error)


async def _refuse_form(_: Request, error: Exception) -> JSONResponse:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    text = "; ".join(f"{'.'.join(map(str, one['loc'][1:])) or 'body'}: {one['msg']}" for one in found[:3])
    return error_answer(text, 422)


async def _refuse_route(_: Request, error: Exception) -> JSONResponse:
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
    headers = getattr(error, "headers", None)
    return error_answer(detail, status, headers)
