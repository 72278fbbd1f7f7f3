"""Attack the HTTP server: requests generated from its OpenAPI description, and malformed ones over real sockets.

Schemathesis generates valid and invalid requests for every operation of the app, in this process; then mutated bytes
are sent to a server on 127.0.0.1: broken JSON and forms, wrong content types, headers that are too long, foreign names.
The bundled model has a small memory that may be edited. Prints JSON: cases, and findings by kind. A finding is a status
of 500 or more that is not documented, a traceback in the log, an answer that is not as described, a hang, or a server
that does not answer afterwards.

    python benchmarks/attack_api.py [--seconds 300] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import socket
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from build import made_up_pairs
from lacuna.datastore import build_store
from lacuna.index import build_index
from lacuna.memory import open_memory
from lacuna.models import load_model
from lacuna.records import Languages
from lacuna.serving import Access, Engine, ServerLimits, create_app
from lacuna.serving.app import listen, server_config

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
LIMITS = ServerLimits(max_characters=120, max_texts=4, max_file_bytes=20_000, max_seconds=1.0, header_seconds=1.0)
WRITE_KEY = "w"
BUSY = ("503", "504")
PATIENCE = 30.0  # seconds after which a call counts as a hang: more than all limits of the server
CLIENTS = 32  # that send malformed requests
AT_ONCE = 25  # cases of an operation before the next one has its turn


@dataclass
class Tally:
    """Cases and findings.

    :param examples: The first finding of each kind.
    """

    cases: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def found(self, kind: str, what: str) -> None:
        """Count a finding."""
        self.findings[kind] += 1
        self.examples.setdefault(kind, what[:2000])

    def answered(self, status: str, what: str) -> None:
        """Count an answer; a server may be busy, but has no other errors of its own."""
        self.statuses[status] += 1
        if status.startswith("5") and status not in BUSY:
            self.found("5xx", what)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Count a hang."""
        started = time.monotonic()
        yield
        if time.monotonic() - started > PATIENCE:
            self.found("hang", what)


class Tracebacks(logging.Handler):
    """Counts log records with a traceback."""

    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self._tally = tally

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a record."""
        if record.exc_info and record.exc_info[0] is not None:
            self._tally.found("traceback", "".join(traceback.format_exception(*record.exc_info)))


def without_lifespan(app: ASGIApp) -> ASGIApp:
    """Keep the app from being shut down after every call, as Schemathesis would."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            return await app(scope, receive, send)
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})

    return call


class Generated:
    """Requests generated from the OpenAPI description."""

    def __init__(self, app: ASGIApp, tally: Tally, chosen: random.Random) -> None:
        self._tally, self._random = tally, chosen
        schema = schemathesis.openapi.from_asgi("/openapi.json", without_lifespan(app))
        self._operations = [one.ok() for one in schema.get_all_operations()]

    def run(self, end: float) -> None:
        """Give each operation its turn, again and again."""
        while True:
            for operation in self._operations:
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                    if time.monotonic() > end:
                        return
                    self._try(operation, mode)

    def _try(self, operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode) -> None:
        @seed(self._random.randrange(1 << 30))
        @settings(
            max_examples=AT_ONCE,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def call(case: schemathesis.Case) -> None:
            self._call(operation.label, case)

        try:
            call()
        except Exception as error:  # of the generator: what has no parameters cannot be asked for in a wrong way
            self._tally.cases[f"not generated: {type(error).__name__}"] += 1

    def _call(self, label: str, case: schemathesis.Case) -> None:
        if self._random.random() < 0.5:  # names that exist, so that more than a 404 is tried
            real = {"name": "it", "sentence": self._random.randrange(60)}
            case.path_parameters |= {name: real[name] for name in case.path_parameters if name in real}
            case.headers["Authorization"] = f"Bearer {WRITE_KEY}"
        self._tally.cases[label] += 1
        with self._tally.timed(label):
            try:
                answer = case.call_and_validate(checks=CHECKS)
                self._tally.answered(str(answer.status_code), label)
            except FailureGroup as group:
                for one in group.exceptions:
                    self._tally.found(type(one).__name__, f"{label}\n{group}")
            except Exception:
                self._tally.found("error in the client", f"{label}\n{traceback.format_exc()}")


def _request(line: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    head = {"Host": "localhost", "Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = [line, *(f"{name}: {value}" for name, value in head.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


_JSON = {"Content-Type": "application/json"}
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_PARTS = {"Content-Type": "multipart/form-data; boundary=x"}
_FILE = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.po"\r\n\r\nmsgid "ja"\nmsgstr ""\n\r\n'
    b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nen\r\n--x--\r\n'
)
_TEXTS = json.dumps({"texts": ["Klicken Sie auf OK."], "confidence": True}).encode()
_LIBRE = json.dumps({"q": "Klicken Sie auf OK.", "source": "de", "target": "en"}).encode()
_PAIRS = json.dumps({"pairs": [{"source": "Die Zange liegt dort.", "target": "The pliers are there."}]}).encode()
_KEY = {"Authorization": f"Bearer {WRITE_KEY}"}
WELL_FORMED = [
    _request("GET / HTTP/1.1", {}),
    _request("HEAD /health HTTP/1.1", {}),
    _request("OPTIONS /translate HTTP/1.1", {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}),
    _request("GET /api/v1/memories/it/sentences/1 HTTP/1.1", {}),
    _request("GET /download_file/a.b HTTP/1.1", {}),
    _request("POST /api/v1/translate HTTP/1.1", _JSON, _TEXTS),
    _request("POST /api/v1/explain HTTP/1.1", _JSON, b'{"text": "Klicken Sie auf OK."}'),
    _request("POST /translate HTTP/1.1", _JSON, _LIBRE),
    _request("POST /translate HTTP/1.1", _FORM, b"q=Klicken+Sie&source=de&target=en"),
    _request("POST /translate HTTP/1.1", _PARTS, _FILE.replace(b"file", b"q")),
    _request("POST /detect HTTP/1.1", _FORM, b"q=%C3%A4&q=%FF"),
    _request("POST /translate_file HTTP/1.1", _PARTS, _FILE),
    _request("POST /api/v1/documents HTTP/1.1", _PARTS, _FILE),
    _request("POST /api/v1/memories/it/pairs HTTP/1.1", _JSON | _KEY, _PAIRS),
    _request("PUT /api/v1/memories/it/sentences/1 HTTP/1.1", _JSON | _KEY, b'{"target": "It is open."}'),
    _request("POST /translate HTTP/1.1", {**_JSON, "Transfer-Encoding": "chunked"}, b'5\r\n{"q":\r\n0\r\n\r\n'),
    _request("GET /api/v1/info HTTP/1.1", {"Upgrade": "websocket", "Connection": "Upgrade"}),
]
PIECES = [
    *(b"\x00", b"\xff", b"\r\n", b"\n", b"{", b"[" * 5000, b'"', b"\\ud800", b"1e999", b"NaN", b"-1", b"9" * 400),
    *(b"--x", b"--x--", b"boundary=", b"boundary=" + b"y" * 5000, b"multipart/form-data", b"application/json"),
    *(b"text/plain; charset=utf-7", b"chunked", b"Content-Length: 5\r\n", b"Transfer-Encoding: gzip\r\n"),
    *(b"Host: evil.example\r\n", b"Host: \r\n", b"X: " + b"z" * 20_000 + b"\r\n", b"Expect: 100-continue\r\n"),
    *(b"../", b"%00", b"%", b"/", b"?", b"\xed\xa0\x80", "ﷺ".encode() * 50, b'filename="../a.po"', b"filename*=UTF-8"),
]


def mutated(request: bytes, chosen: random.Random) -> bytes:
    """Change a request at a few places: delete, repeat, replace or insert bytes, or cut the end off."""
    for _ in range(chosen.randrange(4)):
        start = chosen.randrange(len(request) + 1)
        end = min(len(request), start + chosen.choice([0, 1, 1, 2, 5, 20, 200]))
        new = chosen.choice([b"", request[start:end] * 2, bytes([chosen.randrange(256)]), chosen.choice(PIECES)])
        request = request[:start] + new + request[end:]
    return request


class Malformed:
    """Mutated requests over real sockets."""

    def __init__(self, app: ASGIApp, tally: Tally, chosen: random.Random) -> None:
        self._tally, self._random = tally, chosen
        self._server = uvicorn.Server(server_config(app, LIMITS))
        logging.getLogger("uvicorn").addHandler(Tracebacks(tally))  # only now, because uvicorn replaces its handlers
        self._listener = listen("127.0.0.1", 0)

    def run(self, end: float) -> None:
        """Send requests, and now and then look whether the server still works."""
        thread = Thread(target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True)
        thread.start()
        try:
            while time.monotonic() < end:
                requests = [mutated(self._random.choice(WELL_FORMED), self._random) for _ in range(4 * AT_ONCE)]
                with ThreadPoolExecutor(CLIENTS) as pool:
                    list(pool.map(self._send, requests))
                if not self._ask(WELL_FORMED[0]).startswith(b"HTTP/1.1 200 "):
                    self._tally.found("does not answer any more", "")
        finally:
            self._server.should_exit = True
            thread.join(PATIENCE)
            if thread.is_alive():
                self._tally.found("does not stop", "")

    def _send(self, request: bytes) -> None:
        what = repr(request[:1500])
        self._tally.cases["malformed"] += 1
        with self._tally.timed(what):
            answer = self._ask(request)
        status = answer[9:12].decode("latin-1") or "closed"
        self._tally.answered(status, f"{what}\n{answer[:500]!r}")
        head, _, body = answer.partition(b"\r\n\r\n")
        has_body = body and not request.startswith(b"HEAD")
        if status.startswith("4") and b"application/json" in head and has_body and b'{"error":' not in body:
            self._tally.found("error without a reason", f"{what}\n{answer[:500]!r}")

    def _ask(self, request: bytes) -> bytes:
        answer = b""
        with socket.create_connection(self._listener.getsockname(), timeout=2 * PATIENCE) as connection:
            try:
                connection.sendall(request)
                while part := connection.recv(65536):
                    answer += part
            except TimeoutError:
                self._tally.found("hang", repr(request[:1500]))
            except OSError:  # the server has closed it
                pass
        return answer


def main() -> None:
    """Print one JSON object; the exit code is 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0, help="two thirds of them for generated requests")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    tally, chosen = Tally(), random.Random(arguments.seed)
    logging.getLogger().addHandler(Tracebacks(tally))
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        model = load_model(None, languages=Languages("de", "en"), device="cpu")
        build_index(build_store(model, list(made_up_pairs(60)), Path(folder) / "it", cleaning=None))
        engine = Engine(model, [open_memory(Path(folder) / "it", "it")])
        app = create_app(engine, LIMITS, access=Access(write_key=WRITE_KEY, allow_host=("testserver",)))
        Generated(app, tally, chosen).run(started + arguments.seconds * 2 / 3)
        Malformed(app, tally, chosen).run(started + arguments.seconds)
    found = {
        "seconds": round(time.monotonic() - started),
        "cases": sum(count for name, count in tally.cases.items() if not name.startswith("not generated")),
        "by_operation": dict(tally.cases),
        "statuses": dict(sorted(tally.statuses.items())),
        "findings": dict(tally.findings),
        "examples": tally.examples,
    }
    print(json.dumps(found, indent=2, ensure_ascii=False))
    raise SystemExit(bool(tally.findings))


if __name__ == "__main__":
    main()
