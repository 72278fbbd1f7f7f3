"""Throughput of ``lacuna serve`` with many concurrent clients, compared with a single client.

Run ``python benchmarks/serve.py [--memory NAME=STORE] [--combiner NAME=FOLDER]``. Starts a server, sends one sentence
per request, and alternates between one client and many, so that other load on the machine affects both. Every answer
is compared with the one that the single client got for the same sentence. Prints JSON; the main result is the ratio.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SENTENCES = [
    "Die Datei konnte nicht geöffnet werden.",
    "Klicken Sie auf die Schaltfläche, um das Fenster zu schließen.",
    "Möchten Sie die Änderungen speichern?",
    "Das Passwort muss mindestens acht Zeichen lang sein.",
    "Der Ordner ist leer.",
    "Wählen Sie eine Sprache aus der Liste aus.",
    "Die Verbindung zum Server wurde unterbrochen, bitte versuchen Sie es später noch einmal.",
    "Dieser Benutzer hat keine Berechtigung, die Seite zu bearbeiten.",
    "Geben Sie einen Namen für die neue Gruppe ein.",
    "Die Einstellungen wurden gespeichert.",
    "Es ist ein unbekannter Fehler aufgetreten.",
    "Anmelden",
]


@dataclass
class Tally:
    """Results of one side: latencies, errors, differing answers and total time."""

    seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    differing: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.times) / self.seconds


@contextmanager
def running(options: list[str]) -> Iterator[str]:
    """Start a server, yield its address, and stop it."""
    command = [sys.executable, "-m", "lacuna", "serve", "--port", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if line.startswith("}"):
                    break
            yield json.loads(said)["url"]
        finally:
            process.send_signal(signal.SIGTERM)
            if process.wait(60):
                raise SystemExit(f"the server ended with code {process.returncode}")


def ask(connection: HTTPConnection, text: str) -> str:
    """Translate a sentence; raise RuntimeError with the error message of the server."""
    body = json.dumps({"texts": [text]})
    connection.request("POST", "/api/v1/translate", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    if response.status != 200:
        raise RuntimeError(f"{response.status} {answer.get('error')}")
    return str(answer["translations"][0]["text"])


def client(address: str, texts: list[str], until: float, expected: dict[str, str], tally: Tally) -> None:
    """Send one sentence after the other; the first answer to a sentence becomes the expected one."""
    connection = HTTPConnection(address, timeout=120)
    for text in cycle(texts):
        start = time.perf_counter()
        if start >= until:
            return
        try:
            said = ask(connection, text)
        except (OSError, RuntimeError, ValueError) as error:
            tally.errors[f"{type(error).__name__}: {error}"] += 1
            connection.close()
            continue
        tally.times.append(time.perf_counter() - start)
        if expected.setdefault(text, said) != said:
            tally.differing[f"{text} -> {said}, alone {expected[text]}"] += 1


def turn(address: str, texts: list[str], seconds: float, clients: int, expected: dict[str, str], tally: Tally) -> None:
    """Run clients for some seconds, each with its own order of the sentences."""
    start = time.perf_counter()
    orders = [random.Random(number).sample(texts, len(texts)) for number in range(clients)]
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(lambda order: client(address, order, start + seconds, expected, tally), orders))
    tally.seconds += time.perf_counter() - start


def mean_batch(address: str) -> float:
    """Return the mean number of sentences per batch from the server's metrics."""
    connection = HTTPConnection(address)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    found = dict(line.rsplit(" ", 1) for line in lines if line.startswith("lacuna_batch_sentences_"))
    return float(found["lacuna_batch_sentences_sum"]) / float(found["lacuna_batch_sentences_count"])


def summary(alone: Tally, together: Tally, clients: int, batch: float) -> dict[str, Any]:
    """Return the results as JSON."""
    times = sorted(together.times)
    return {
        "clients": clients,
        "requests": len(times),
        "errors": dict(alone.errors + together.errors),
        "differing": sum((alone.differing + together.differing).values()),
        "differing_examples": list(together.differing)[:3],
        "alone_per_second": round(alone.rate, 2),
        "together_per_second": round(together.rate, 2),
        "ratio": round(together.rate / alone.rate, 2),
        "mean_batch": round(batch, 1),
        "seconds_alone_median": round(statistics.median(alone.times), 3),
        "seconds_median": round(statistics.median(times), 3),
        "seconds_95": round(times[int(0.95 * (len(times) - 1))], 3),
    }


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--model", help="a folder or a hub name; default: the bundled model")
    parser.add_argument("--memory", action="append", default=[], metavar="NAME=STORE")
    parser.add_argument("--combiner", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--sentences", type=Path, help="a file with one source sentence per line")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0, help="time of the many clients; half for the single one")
    parser.add_argument("--rounds", type=int, default=2, help="number of alternations")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    options = ["--threads", str(args.threads), *(["--model", args.model] if args.model else [])]
    options += [part for name in ("memory", "combiner") for one in getattr(args, name) for part in (f"--{name}", one)]
    texts = args.sentences.read_text(encoding="utf-8").splitlines() if args.sentences else SENTENCES
    texts = [text for text in dict.fromkeys(texts) if text.strip()]
    expected: dict[str, str] = {}
    alone, together = Tally(), Tally()
    with running(options) as url:
        address = urlsplit(url).netloc
        first = HTTPConnection(address, timeout=120)
        expected |= {text: ask(first, text) for text in texts}
        for _ in range(args.rounds):
            turn(address, texts, args.seconds / args.rounds / 2, 1, expected, alone)
            turn(address, texts, args.seconds / args.rounds, args.clients, expected, together)
        batch = mean_batch(address)
    print(json.dumps(summary(alone, together, args.clients, batch), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
