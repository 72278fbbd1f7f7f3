"""The FastAPI app, with the files of the web page, and the function that serves it."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import signal
import socket
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from lacuna.errors import LacunaError, LacunaWarning, SettingError
from lacuna.serving.access import Access
from lacuna.serving.api import make_routes
from lacuna.serving.connections import guarded_protocol
from lacuna.serving.document_routes import DOCUMENTS, make_document_routes
from lacuna.serving.documents import Documents
from lacuna.serving.editing_routes import make_editing_routes
from lacuna.serving.engine import Engine
from lacuna.serving.glossary_routes import make_glossary_routes
from lacuna.serving.libretranslate import TRANSLATE_FILE, make_libre_routes
from lacuna.serving.limits import ServerLimits
from lacuna.serving.middleware import RequestMiddleware, error_answer, error_response
from lacuna.serving.served_directions import Directions
from lacuna.serving.translating_routes import make_translating_routes
from lacuna.version import __version__

HOST, PORT = "127.0.0.1", 8017
_QUEUE = 2048  # backlog of connections
_FOLDER = Path(__file__).with_name("page")
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_ADDRESSES = {"index.html": "/", "docs.html": "/docs"}
_EXPIRE_SECONDS = 60.0  # between two looks for documents to delete
_ABOUT = """Translations with selectable memories, and explanations of every token.

Errors are `{"error": "what is wrong, and how to fix it"}`."""


def create_app(
    engines: Engine | Sequence[Engine],
    limits: ServerLimits | None = None,
    *,
    access: Access = Access(),  # noqa: B008 - immutable
    prepare: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Create the app; its threads run until the app is shut down.

    :param engines: One for each model; the first is the default of clients.
    :param access: The keys and names of the server.
    :param prepare: Called first in the worker thread, for settings that are per thread.
    """
    engine_list = [engines] if isinstance(engines, Engine) else engines
    directions = Directions(engine_list, limits or ServerLimits(), prepare, writes=access.writing != "off")
    documents = Documents(directions.services)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        expiring = asyncio.create_task(_expire(documents))
        yield
        expiring.cancel()
        await run_in_threadpool(documents.close)  # first, because documents need the workers
        await run_in_threadpool(directions.close)

    app = FastAPI(
        title="Lacuna", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.include_router(make_routes(directions, access))
    app.include_router(make_translating_routes(directions, access))
    app.include_router(make_document_routes(directions, documents, access))
    app.include_router(make_editing_routes(directions, access))
    app.include_router(make_glossary_routes(directions, access))
    app.include_router(make_libre_routes(directions, documents, access))
    app.include_router(make_page_routes())
    uploads = (DOCUMENTS, TRANSLATE_FILE)
    app.add_middleware(
        RequestMiddleware, limits=directions.limits, metrics=directions.metrics, access=access, uploads=uploads
    )
    if access.allow_origin:  # around everything else, so that pages can read errors too
        app.add_middleware(
            CORSMiddleware,
            allow_origins=access.allow_origin,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_exception_handler(LacunaError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_form)
    app.add_exception_handler(HTTPException, _refuse_route)
    return app


async def _expire(documents: Documents) -> None:
    while True:
        await asyncio.sleep(_EXPIRE_SECONDS)
        await run_in_threadpool(documents.expire)


def serve(
    engines: Engine | Sequence[Engine],
    limits: ServerLimits | None = None,
    *,
    host: str = HOST,
    port: int = PORT,
    access: Access = Access(),  # noqa: B008 - immutable
    prepare: Callable[[], None] = lambda: None,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then answer the pending requests and return.

    :param engines: One for each model; the first is the default of clients.
    :param port: 0 for any free port.
    :param access: The keys and names of the server; the name to listen at is one of them.
    :param announce: Called with the address just before the server starts.
    """
    limits = limits or ServerLimits()
    listener = listen(host, port)
    address, number = listener.getsockname()[:2]
    is_public = not ipaddress.ip_address(address).is_loopback
    if access.writing == "open" and is_public:
        listener.close()
        raise SettingError(f"writable: {host} is not for this machine only; use a `write_key`, or `host` {HOST}")
    if access.key is None and is_public:
        text = f"{host}: everyone who reaches this address may use the server; set an API key, or use {HOST}"
        warnings.warn(text, LacunaWarning, stacklevel=2)
    if host and ":" not in host:  # an IPv6 address is no name
        access = replace(access, allow_host=(*access.allow_host, host))
    config = server_config(create_app(engines, limits, access=access, prepare=prepare), limits)
    announce(f"http://{f'[{address}]' if ':' in address else address}:{number}")
    with listener, _ignoring_raised_signals():
        uvicorn.Server(config).run(sockets=[listener])


def server_config(app: ASGIApp, limits: ServerLimits) -> uvicorn.Config:
    """Return the settings of the HTTP server."""
    return uvicorn.Config(
        app,
        http=guarded_protocol(limits),
        ws="none",
        log_level="warning",
        access_log=False,  # no line per request; counts are in /metrics
        server_header=False,
        timeout_graceful_shutdown=math.ceil(limits.max_seconds),
    )


def listen(host: str, port: int) -> socket.socket:
    """Bind the address, or raise an error with the reason."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_QUEUE)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SettingError(f"{host}, port {port}: cannot be bound ({why}); name another `host` or `port`") from error


def make_page_routes() -> APIRouter:
    """Return a route for each file of the web page."""
    routes = APIRouter(include_in_schema=False)
    for file in sorted(_FOLDER.iterdir()):
        if file.suffix in _TYPES:
            address = _ADDRESSES.get(file.name, f"/page/{file.name}")
            routes.add_api_route(address, _file_route(file.read_bytes(), _TYPES[file.suffix]), methods=["GET"])
    return routes


def _file_route(content: bytes, kind: str) -> Callable[[], Response]:
    def send_file() -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return send_file


async def _refuse(_: Request, error: Exception) -> JSONResponse:
    return error_response(error)


async def _refuse_form(_: Request, error: Exception) -> JSONResponse:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    text = "; ".join(
        f"{'.'.join(map(str, problem['loc'][1:])) or 'body'}: {problem['msg']}" for problem in problems[:3]
    )
    return error_answer(text, 422)


async def _refuse_route(_: Request, error: Exception) -> JSONResponse:
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
    headers = getattr(error, "headers", None)
    return error_answer(detail, status, headers)


@contextmanager
def _ignoring_raised_signals() -> Iterator[None]:
    """Ignore the signals that uvicorn raises again after it has stopped, which would kill the process."""

    def ignore(_: int, __: FrameType | None) -> None:
        return

    before = {number: signal.signal(number, ignore) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
