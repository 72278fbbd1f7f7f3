"""Running the app until someone says stop, and then finishing what it has.

Knows nothing of what the app does.
"""

from __future__ import annotations

import ipaddress
import math
import signal
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from lacuna.errors import LacunaWarning, SettingError
from lacuna.serving.app import create_app
from lacuna.serving.engine import Engine
from lacuna.serving.limits import Limits

HOST, PORT = "127.0.0.1", 8017
_QUEUE = 2048  # connections that the system holds until we take them


def serve(
    engine: Engine,
    limits: Limits | None = None,
    *,
    host: str = HOST,
    port: int = PORT,
    key: str | None = None,
    prepare: Callable[[], None] = lambda: None,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then answer what has arrived, and return.

    :param port: 0 for any that is free.
    :param announce: Called with the address when the server is about to answer.
    """
    limits = limits or Limits()
    listener = listen(host, port)
    place, number = listener.getsockname()[:2]
    if key is None and not ipaddress.ip_address(place).is_loopback:
        text = f"{host}: everybody who reaches this address may use the server; set an API key, or use {HOST}"
        warnings.warn(text, LacunaWarning, stacklevel=2)
    config = uvicorn.Config(
        create_app(engine, limits, key=key, prepare=prepare),
        log_level="warning",
        access_log=False,  # it would write texts' routes for every request; counts are in /metrics
        server_header=False,
        timeout_graceful_shutdown=math.ceil(limits.max_seconds),
    )
    announce(f"http://{f'[{place}]' if ':' in place else place}:{number}")
    with listener, _ending_quietly():
        uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Take the address, or say why it cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_QUEUE)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SettingError(f"{host}, port {port}: cannot be had ({why}); name another --host or --port") from error


@contextmanager
def _ending_quietly() -> Iterator[None]:
    """Let signals only stop the server: once stopped, uvicorn sends them again, which would kill the process."""

    def ignore(_: int, __: FrameType | None) -> None:
        return

    before = {number: signal.signal(number, ignore) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
