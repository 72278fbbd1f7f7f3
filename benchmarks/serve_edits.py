"""Many clients translate while one adds and forgets pairs: no error, and every answer belongs to a committed state.

The writer adds a correction of one sentence and forgets it again, sentence after sentence. Afterwards every state is
made once more, in peace, and all sentences are translated in it. The answer to a request must be that of a state that
was current at some moment between its beginning and its end. Works on a copy of the memory. Prints JSON.

    python benchmarks/serve_edits.py STORE [--combiner FOLDER] [--clients 64] [--seconds 60]
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from serve import SENTENCES, ask, running

MEMORY = "m"
# A sentence that the memory already has would keep its translation there: two pairs of one sentence compete.
CORRECTED = [f"Der Lötkolben {name} meldet Zustand C{9 - number}." for number, name in enumerate("ABCD")]
TEXTS = SENTENCES + CORRECTED
NOTHING = -1  # the state without a correction


class Answer(NamedTuple):
    """An answer to a client, with the times of its request."""

    text: str
    said: str
    begun: float
    ended: float


class State(NamedTuple):
    """A state of the memory: the corrected sentence, and from when it could be and had to be the current one."""

    corrected: int
    asked: float
    acknowledged: float


def edit(connection: HTTPConnection, method: str, path: str, body: object = None) -> dict[str, Any]:
    """Send an edit and return the answer."""
    content = None if body is None else json.dumps(body)
    connection.request(method, f"/api/v1/memories/{MEMORY}/{path}", content, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer: dict[str, Any] = json.loads(response.read())
    if response.status != 200:
        raise RuntimeError(f"{response.status} {answer}")
    return answer


def add(connection: HTTPConnection, number: int) -> int:
    """Add the correction of a sentence and return its number in the memory."""
    pair = {"source": CORRECTED[number], "target": f"Correction number {number} of this sentence."}
    return int(edit(connection, "POST", "pairs", {"pairs": [pair]})["added"][0])


def write(address: str, until: float) -> list[State]:
    """Add and forget until the time is over; return the states in order."""
    connection, states = HTTPConnection(address, timeout=120), [State(NOTHING, 0.0, 0.0)]
    for number in cycle(range(len(CORRECTED))):
        begun = time.perf_counter()
        if begun >= until:
            return states
        sentence = add(connection, number)
        states.append(State(number, begun, time.perf_counter()))
        time.sleep(1)  # adding waits for the model, forgetting does not: without a pause the correction would be gone
        begun = time.perf_counter()
        edit(connection, "DELETE", f"sentences/{sentence}")
        states.append(State(NOTHING, begun, time.perf_counter()))
    raise AssertionError


def read(address: str, seed: int, until: float, answers: list[Answer], errors: list[str]) -> None:
    """Translate sentences in a random order until the time is over."""
    connection, order = HTTPConnection(address, timeout=120), random.Random(seed).sample(TEXTS, len(TEXTS))
    for text in cycle(order):
        begun = time.perf_counter()
        if begun >= until:
            return
        try:
            said = ask(connection, text)
        except (OSError, RuntimeError, ValueError) as error:
            errors.append(f"{type(error).__name__}: {error}")
            connection.close()
            continue
        answers.append(Answer(text, said, begun, time.perf_counter()))


def translations_by_state(address: str) -> dict[int, dict[str, str]]:
    """Make every state, and translate all sentences in it."""
    connection = HTTPConnection(address, timeout=120)
    found = {NOTHING: {text: ask(connection, text) for text in TEXTS}}
    for number in range(len(CORRECTED)):
        sentence = add(connection, number)
        found[number] = {text: ask(connection, text) for text in TEXTS}
        edit(connection, "DELETE", f"sentences/{sentence}")
    return found


def is_explained(answer: Answer, states: list[State], expected: dict[int, dict[str, str]]) -> bool:
    """Return whether the answer is that of a state that was current at some moment of its request."""
    ends = [state.acknowledged for state in states[1:]] + [float("inf")]
    return any(
        state.asked <= answer.ended and answer.begun <= end and expected[state.corrected][answer.text] == answer.said
        for state, end in zip(states, ends, strict=True)
    )


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--combiner", type=Path)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    answers: list[Answer] = []
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(given.store, Path(folder) / "store")
        combiner = ["--combiner", f"{MEMORY}={given.combiner}"] if given.combiner else []
        with running(["--writable", "--memory", f"{MEMORY}={folder}/store", *combiner]) as url:
            address = url.removeprefix("http://").rstrip("/")
            ask(HTTPConnection(address, timeout=120), SENTENCES[0])
            until, states = time.perf_counter() + given.seconds, list[State]()
            writer = threading.Thread(target=lambda: states.extend(write(address, until)))
            writer.start()
            with ThreadPoolExecutor(given.clients) as pool:
                list(pool.map(lambda seed: read(address, seed, until, answers, errors), range(given.clients)))
            writer.join()
            expected = translations_by_state(address)
    wrong = [answer for answer in answers if not is_explained(answer, states, expected)]
    shown = sum(expected[NOTHING][answer.text] != answer.said for answer in answers)
    result = {
        "clients": given.clients,
        "seconds": given.seconds,
        "answers": len(answers),
        "answers with a correction": shown,
        "commits": len(states) - 1,
        "errors": len(errors),
        "answers of no committed state": len(wrong),
        "milliseconds of a translation": round(1000 * median(answer.ended - answer.begun for answer in answers)),
        "milliseconds of a commit": round(
            1000 * median(state.acknowledged - state.asked for state in states[1:]),
        ),
    }
    print(json.dumps(result, indent=2))
    if errors or wrong or len(states) < 2:
        raise SystemExit(f"errors: {errors[:3]}; wrong answers: {wrong[:3]}")


if __name__ == "__main__":
    main()
