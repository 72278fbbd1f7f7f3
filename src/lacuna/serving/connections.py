"""Connections of the HTTP server: not too many, and none that stays without a request. Knows nothing of routes.

uvicorn itself bounds the time between two requests of a connection, but not that of their headers.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from lacuna.serving.limits import Overloaded, ServerLimits

_ERROR = b'{"error":"too many connections; try again later"}'
_REFUSAL = (
    b"HTTP/1.1 %d Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Retry-After: 1\r\nConnection: close\r\n\r\n%s" % (Overloaded.status, len(_ERROR), _ERROR)
)


class GuardedProtocol(H11Protocol):
    """The protocol of one connection, which ends if the headers of a request do not arrive in time.

    :param limits: Of the server.
    """

    limits: ClassVar[ServerLimits]
    _deadline: asyncio.TimerHandle | None = None
    _since = 0.0  # when it began to wait for a request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Take a connection. One too many ends the oldest that waits for a request, or else is refused."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) <= self.limits.max_connections:
            return
        others = (other for other in self.connections if isinstance(other, GuardedProtocol) and other is not self)
        oldest = min((other for other in others if not other._is_busy), key=lambda other: other._since, default=None)
        if oldest is None:
            transport.write(_REFUSAL)
        (oldest or self)._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; from its first byte on, the time for its headers counts."""
        super().data_received(data)
        if self._is_busy:
            self._cancel_deadline()
        elif self._deadline is None:
            self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request of the connection."""
        self._since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP. It may be the body of a request that is being answered: that answer is dropped."""
        if self._is_busy:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self._end()
                return
        super().send_400_response(msg)

    @property
    def _is_busy(self) -> bool:
        """Whether a request has arrived and is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._since = self.loop.time()
        self._deadline = self.loop.call_later(self.limits.header_seconds, self._end)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        """End the connection, also if the client does not read what was sent to it."""
        self._cancel_deadline()
        self.connections.discard(self)  # now, and not when the transport has closed
        self.transport.close()
        self.loop.call_later(self.limits.header_seconds, self.transport.abort)


def guarded_protocol(limits: ServerLimits) -> type[GuardedProtocol]:
    """Return the protocol of a server with these limits."""
    return type("LimitedProtocol", (GuardedProtocol,), {"limits": limits})
