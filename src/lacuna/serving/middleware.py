"""What Prometheus may know: counts and times, never texts. Each app has a registry of its own."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lacuna.errors import LacunaError, NotFoundError
from lacuna.serving.limits import NotAllowed, RequestError, ServerLimits, TooLarge, TooSlow

_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The measurements of one app.

    :param waiting: Says how many sentences wait for the model.
    """

    def __init__(self, waiting: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "lacuna_requests", "Requests answered, by route and status.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "lacuna_request_seconds", "Time until a request was answered.", ["route"], registry=self.registry
        )
        self.sentences = Counter("lacuna_sentences", "Sentences through the model.", ["kind"], registry=self.registry)
        self.batch_sentences = Histogram(
            "lacuna_batch_sentences", "Sentences in a batch.", buckets=_BATCH_SIZES, registry=self.registry
        )
        self.batch_seconds = Histogram("lacuna_batch_seconds", "Time of a batch.", registry=self.registry)
        gauge = Gauge("lacuna_waiting_sentences", "Sentences that wait for the model.", registry=self.registry)
        gauge.set_function(waiting)

    def text(self) -> bytes:
        """Give all measurements in Prometheus' format."""
        return generate_latest(self.registry)


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
_MOST_DIGITS = 15  # of a length that is worth reading

_log = logging.getLogger(__name__)


def error_response(error: Exception) -> JSONResponse:
    """Give an error as clients get it: what the user can mend in words, anything else without details."""
    if not isinstance(error, LacunaError):
        return error_answer("something went wrong here; the server's log says what", 500)
    status = error.status if isinstance(error, RequestError) else 404 if isinstance(error, NotFoundError) else 400
    headers = {"Retry-After": _RETRY_SECONDS} if status == 503 else {}
    headers |= {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return error_answer(" ".join(str(error).split()), status, headers)


def error_answer(text: str, status: int, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Give an error in the one shape that all have."""
    return JSONResponse({"error": text}, status, headers)


def check_key(wanted: str | None, *given: str | None) -> None:
    """Refuse a client none of whose keys is the wanted one; the time this takes says nothing about the key."""
    if wanted is None:
        return
    keys = [key.encode("utf-8", "surrogatepass") for key in given if key is not None]
    if not any([hmac.compare_digest(wanted.encode(), key) for key in keys]):
        raise NotAllowed("API key missing or wrong; send the header Authorization: Bearer KEY")


class RequestMiddleware:
    """ASGI middleware round the whole app."""

    def __init__(self, app: ASGIApp, limits: ServerLimits, metrics: Metrics) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, and its answer out."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            body = await self._read(scope, receive)
            await self._app(scope, _replaying(body, receive), sending)
        except RequestError as error:
            await error_response(error)(scope, receive, sending)
        except Exception as error:
            _log.exception("%s %s failed", scope["method"], scope["path"])
            if status:
                raise  # half an answer cannot be taken back
            await error_response(error)(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - start)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        most = self._limits.max_body_bytes
        said = dict(scope["headers"]).get(b"content-length", b"0")
        too_large = said.isdigit() and (len(said) > _MOST_DIGITS or int(said) > most)
        body, more = bytearray(), not too_large
        try:
            async with asyncio.timeout(self._limits.max_seconds):
                while more:
                    message = await receive()
                    body += message.get("body", b"")
                    too_large = len(body) > most
                    more = message.get("more_body", False) and not too_large
        except TimeoutError:
            raise TooSlow(f"the body did not arrive within {self._limits.max_seconds:g} seconds") from None
        if too_large:
            raise TooLarge(f"the body has more than {most:,} bytes; send less at once")
        return bytes(body)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Give the body that was read already, then whatever else comes: that the client has gone."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
