"""Latency of other clients while ``lacuna serve`` translates a document that is one long text without a sentence end.

Run ``python benchmarks/blocking_document.py [--domain NAME=FOLDER]``. Starts a server on 127.0.0.1, uploads a JSON
catalog of 380 KB with a single message, and translates short sentences before, while it is translated, and after it was
deleted. Prints JSON: seconds and statuses of the short requests in each phase.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from serve import SENTENCES, running

MESSAGE = "{a, plural, other {" * 20_000
PATIENCE = 60.0  # seconds that a client waits for an answer; the server gives up earlier


def send(
    url: str, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
) -> tuple[int, Any]:
    """Send one request on a connection of its own; return status and answer."""
    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, {"Content-Type": kind} if body is not None else {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def upload(url: str) -> str:
    """Send the catalog, and return the id of the document."""
    head = '--x\r\nContent-Disposition: form-data; name="file"; filename="messages.json"\r\n\r\n'
    body = f"{head}{json.dumps({'message': MESSAGE})}\r\n--x--\r\n".encode()
    status, answer = send(url, "POST", "/api/v1/documents", body, "multipart/form-data; boundary=x")
    assert status == 202, answer
    return str(answer["id"])


def translate(url: str, *, seconds: float = 0.0, least: int = 1) -> dict[str, Any]:
    """Translate short sentences one after the other, for some seconds and at least some of them."""
    times: list[float] = []
    statuses: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while len(times) < least or time.monotonic() < end:
        body = json.dumps({"texts": [SENTENCES[len(times) % len(SENTENCES)]]}).encode()
        started = time.monotonic()
        try:
            status = str(send(url, "POST", "/api/v1/translate", body)[0])
        except TimeoutError:
            status = "no answer"
        times.append(time.monotonic() - started)
        statuses[status] += 1
    return {
        "requests": len(times),
        "statuses": dict(statuses),
        "median_seconds": round(statistics.median(times), 3),
        "most_seconds": round(max(times), 3),
    }


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domain", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--seconds", type=float, default=20.0, help="while the document is translated")
    arguments = parser.parse_args()
    with running([part for one in arguments.domain for part in ("--domain", one)]) as url:
        translate(url, least=3)  # warm up
        found: dict[str, Any] = {"bytes": len(MESSAGE), "before": translate(url, least=len(SENTENCES))}
        document = upload(url)
        while send(url, "GET", f"/api/v1/documents/{document}")[1]["status"] == "waiting":
            time.sleep(0.05)
        time.sleep(1.0)  # its text has been cut, and the first batch has begun
        found["during"] = translate(url, seconds=arguments.seconds)
        found["document"] = send(url, "GET", f"/api/v1/documents/{document}")[1]
        found["deleted"] = send(url, "DELETE", f"/api/v1/documents/{document}")[0]
        found["after"] = translate(url, least=len(SENTENCES))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
