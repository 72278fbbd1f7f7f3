"""Connections over real sockets: those that send nothing do not stay, and are not more than allowed."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from lacuna.serving.app import listen, server_config
from lacuna.serving.limits import ServerLimits

MOST = 4
PATIENCE = 30.0  # seconds; more than any test takes
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
Connect = Callable[[], socket.socket]


class App:
    """Answers when it may."""

    def __init__(self) -> None:
        self.go = Event()
        self.go.set()
        self.begun = 0
        self.starts_early = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
        if self.starts_early:
            await send(start)
        self.begun += 1
        while not self.go.is_set():
            await asyncio.sleep(0.01)
        if not self.starts_early:
            await send(start)
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def app() -> Iterator[App]:
    app = App()
    yield app
    app.go.set()


@contextmanager
def running(app: App, header_seconds: float) -> Iterator[Connect]:
    limits = ServerLimits(max_connections=MOST, header_seconds=header_seconds, max_seconds=1.0)
    server = uvicorn.Server(server_config(app, limits))
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        one = socket.create_connection(listener.getsockname(), timeout=PATIENCE)
        opened.append(one)
        return one

    with closing(listen("127.0.0.1", 0)) as listener:
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield connect
        finally:
            for one in opened:
                one.close()
            app.go.set()
            server.should_exit = True
            thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.fixture
def connect(app: App) -> Iterator[Connect]:
    """Headers have little time."""
    with running(app, 0.3) as connect:
        yield connect


@pytest.fixture
def patient(app: App) -> Iterator[Connect]:
    """Headers have much time."""
    with running(app, 10 * PATIENCE) as connect:
        yield connect


def everything(one: socket.socket) -> bytes:
    """Read until the server ends the connection."""
    found = b""
    try:
        while part := one.recv(4096):
            found += part
    except ConnectionResetError:
        pass
    return found


def answer(one: socket.socket) -> bytes:
    """Read a status line, and the rest of an answer."""
    found = b""
    while not found.endswith(b"\r\n\r\nok"):
        part = one.recv(4096)
        if not part:
            break
        found += part
    return found.partition(b"\r\n")[0]


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_stalled_headers_end_the_connection(connect: Connect, sent: bytes) -> None:
    one = connect()
    one.sendall(sent)
    assert everything(one) == b""


def test_headers_that_trickle_in_do_so_too(connect: Connect) -> None:
    one = connect()
    one.settimeout(0.05)
    one.sendall(GET[:-2])
    for _ in range(int(PATIENCE / 0.05)):
        try:
            one.sendall(b"X-Y: z\r\n")
            if not one.recv(1):
                return
        except TimeoutError:
            continue
        except OSError:
            return
    pytest.fail("the connection stays")


def test_the_second_request_has_no_more_time(connect: Connect) -> None:
    one = connect()
    one.sendall(GET)
    assert answer(one) == b"HTTP/1.1 200 OK"
    one.sendall(GET[:-4])
    assert everything(one) == b""


def test_a_body_that_is_sent_after_the_answer_does_not_hold_the_connection(connect: Connect) -> None:
    one = connect()
    one.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
    assert answer(one) == b"HTTP/1.1 200 OK"
    one.sendall(b"x")
    assert everything(one) == b""


def test_an_answer_may_take_longer(connect: Connect, app: App) -> None:
    app.go.clear()
    one, stalled = connect(), connect()
    one.sendall(GET)
    assert everything(stalled) == b""  # connected later, so the time of the first is over as well
    app.go.set()
    assert answer(one) == b"HTTP/1.1 200 OK"


def test_stalled_connections_make_room(patient: Connect) -> None:
    stalled = [patient() for _ in range(10 * MOST)]
    for one in stalled:
        try:
            one.sendall(GET[:10])
        except OSError:  # it had to make room already
            continue
    one = patient()
    one.sendall(GET)
    assert answer(one) == b"HTTP/1.1 200 OK"
    assert all(everything(old) == b"" for old in stalled[: -MOST + 1])


def test_while_all_are_busy_others_are_refused(patient: Connect, app: App) -> None:
    app.go.clear()
    busy = [patient() for _ in range(MOST)]
    for one in busy:
        one.sendall(GET)
    while app.begun < MOST:
        pass
    refused = everything(patient())
    assert refused.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert refused.endswith(b'{"error":"too many connections; try again later"}')
    app.go.set()
    assert [answer(one) for one in busy] == [b"HTTP/1.1 200 OK"] * MOST


class Faults(logging.Handler):
    """Keeps what was logged with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(record.getMessage())


@pytest.fixture
def faults() -> Iterator[Faults]:
    faults, loggers = Faults(), [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.addHandler(faults)
    yield faults
    for logger in loggers:
        logger.removeHandler(faults)


CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("started", [False, True])
def test_a_broken_body_is_no_fault_of_ours(patient: Connect, app: App, faults: Faults, started: bool) -> None:
    app.go.clear()
    app.starts_early = started
    one = patient()
    one.sendall(CHUNKED)
    while not app.begun:
        pass
    one.sendall(b"no chunk\r\n")
    assert everything(one).startswith(b"HTTP/1.1 200 OK" if started else b"HTTP/1.1 400 Bad Request")
    app.go.set()
    other = patient()
    other.sendall(GET)
    assert answer(other) == b"HTTP/1.1 200 OK"
    assert faults.found == []


def test_a_broken_body_that_comes_with_the_headers(patient: Connect, faults: Faults) -> None:
    one = patient()
    one.sendall(CHUNKED + b"no chunk\r\n")
    assert everything(one).startswith(b"HTTP/1.1 400 Bad Request")
    assert faults.found == []
