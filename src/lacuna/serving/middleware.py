"""Handling common to all requests: names of the server, body limits, security headers, error responses and metrics.

Metrics and logs have counts and times, but no texts. Knows nothing of routes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lacuna.errors import LacunaError, NotFoundError, UnavailableError
from lacuna.serving.access import Access
from lacuna.serving.limits import Overloaded, RequestError, ServerLimits, TooLarge, TooSlow

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_RETRY_SECONDS = "1"
_MAX_DIGITS = 15  # digits of a Content-Length that is parsed
_FORM_BYTES = 1 << 16  # of an upload, for other fields than the file
_UPLOAD_SECONDS = 10  # times the limit of a request
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_log = logging.getLogger(__name__)


class RequestMiddleware:
    """ASGI middleware around the whole app: limits the body, sets headers, turns exceptions into responses, counts.

    HEAD is answered as GET is, without the body.

    :param uploads: Paths that take files; their bodies are not held in memory.
    """

    def __init__(
        self, app: ASGIApp, limits: ServerLimits, metrics: Metrics, access: Access, uploads: Collection[str] = ()
    ) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._access, self._uploads = access, uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0
        if scope["method"] == "HEAD":
            scope, send = {**scope, "method": "GET"}, _without_body(send)  # a copy: the server looks at its own

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._access.check_host(Headers(scope=scope).get("host"))
            if scope["path"] in self._uploads:
                await self._app(scope, self._counting(scope, receive), sending)
            else:
                body = await self._read(scope, receive)
                await self._app(scope, _replaying(body, receive), sending)
        except RequestError as error:
            await error_response(error)(scope, receive, sending)
        except Exception as error:
            _log.exception("%s %s failed", scope["method"], scope["path"])
            if status:
                raise  # the response has already begun
            await error_response(error)(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - start)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        most = self._limits.max_body_bytes
        too_large = _declares_more(scope, most)
        body, more = bytearray(), not too_large
        try:
            async with asyncio.timeout(self._limits.max_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise TooSlow("the connection ended before the whole body had arrived")
                    body += message.get("body", b"")
                    too_large = len(body) > most
                    more = message.get("more_body", False) and not too_large
        except TimeoutError:
            raise TooSlow(f"the body did not arrive within {self._limits.max_seconds:g} seconds") from None
        if too_large:
            raise TooLarge(f"the body has more than {most:,} bytes; send less per request")
        return bytes(body)

    def _counting(self, scope: Scope, receive: Receive) -> Receive:
        """Return a channel that passes on the body of an upload, and breaks off when it is too large or too slow."""
        most = self._limits.max_file_bytes
        seconds = _UPLOAD_SECONDS * self._limits.max_seconds
        end, size = time.monotonic() + seconds, 0
        complete = False

        async def count() -> Message:
            nonlocal size, complete
            if complete:  # now it waits for the client to disconnect
                return await receive()
            if _declares_more(scope, most + _FORM_BYTES):
                raise TooLarge(f"the file has more than {most:,} bytes; send a smaller one")
            try:
                async with asyncio.timeout(end - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                raise TooSlow(f"the file did not arrive within {seconds:g} seconds") from None
            if message["type"] == "http.disconnect":
                raise TooSlow("the connection ended before the whole file had arrived")
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if size > most + _FORM_BYTES:
                raise TooLarge(f"the file has more than {most:,} bytes; send a smaller one")
            return message

        return count


def _declares_more(scope: Scope, most: int) -> bool:
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    return bool(declared.isdigit() and (len(declared) > _MAX_DIGITS or int(declared) > most))


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives the body again, and then the further messages, such as a disconnect."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return send_head


class Metrics:
    """Prometheus metrics of one app, in a registry of its own.

    :param waiting: Returns the number of sentences in the queue.
    """

    def __init__(self, waiting: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "lacuna_requests", "Answered requests by route and status.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "lacuna_request_seconds", "Seconds until a request was answered.", ["route"], registry=self.registry
        )
        self.sentences = Counter("lacuna_sentences", "Sentences processed.", ["kind"], registry=self.registry)
        self.batch_sentences = Histogram(
            "lacuna_batch_sentences", "Sentences in a batch.", buckets=_BATCH_SIZES, registry=self.registry
        )
        self.batch_seconds = Histogram("lacuna_batch_seconds", "Seconds of a batch.", registry=self.registry)
        gauge = Gauge("lacuna_waiting_sentences", "Sentences in the queue.", registry=self.registry)
        gauge.set_function(waiting)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)


def error_response(error: Exception) -> JSONResponse:
    """Return the response to an error: the message if the client can fix it, otherwise no details."""
    if not isinstance(error, LacunaError):
        return error_answer(error_text(error), 500)
    if isinstance(error, UnavailableError):
        status = Overloaded.status
    else:
        status = error.status if isinstance(error, RequestError) else 404 if isinstance(error, NotFoundError) else 400
    headers = {"Retry-After": _RETRY_SECONDS} if status == 503 else {}
    headers |= {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return error_answer(error_text(error), status, headers)


def error_text(error: Exception) -> str:
    """Return what a client may know about an error, in one line."""
    if not isinstance(error, LacunaError):
        return "internal error; see the log of the server"
    if isinstance(error, UnavailableError):  # its message names the server, which is not for clients
        _log.warning("a memory does not answer: %s", error)
        return "a memory does not answer; try again later"
    return " ".join(str(error).split())


def error_answer(text: str, status: int, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error response; all errors have this form."""
    return JSONResponse({"error": text}, status, headers)
