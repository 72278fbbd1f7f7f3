"""Clients translate while another one edits: no errors, and every answer is that of one committed state."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event
from typing import NamedTuple

from starlette.testclient import TestClient

from lacuna.combiners import Vanilla
from lacuna.datastore import verify_store
from lacuna.datastore.log import read_log
from lacuna.models import Model
from lacuna.serving import Access, Engine, create_app
from unit.models.tiny_models import SOURCES
from unit.serving.conftest import PAIRS, remember

SECONDS = 4.0
LEAST_EDITS = 10  # enough for a compaction
TEXTS = ["der hund steht am see", "wir lesen am see ein gutes buch", SOURCES[1]]
WORDS = ["dog", "stands", "by", "the", "lake", "small", "house", "good", "book", "warm", "stone", "sleeps"]


class Seen(NamedTuple):
    """An answer, and when it was asked for and given."""

    asked: float
    answered: float
    texts: tuple[str, ...]


def ask(client: TestClient) -> Seen:
    asked = time.monotonic()
    answer = client.post("/api/v1/translate", json={"texts": TEXTS})
    assert answer.status_code == 200, answer.text
    return Seen(asked, time.monotonic(), tuple(one["text"] for one in answer.json()["translations"]))


def edit(client: TestClient, done: Event) -> tuple[list[tuple[float, float]], list[tuple[str, ...]]]:
    """Edit for a while. Return when each edit was sent and answered, and the translations of the state after it."""
    times, answers = [(0.0, 0.0)], [ask(client).texts]
    end, route = time.monotonic() + SECONDS, "/api/v1/memories/it"

    def commit(send: Callable[[], object]) -> None:
        sent = time.monotonic()
        send()
        times.append((sent, time.monotonic()))
        answers.append(ask(client).texts)

    try:
        for number in count():
            if time.monotonic() > end and number > LEAST_EDITS:
                return times, answers
            words = [WORDS[(number + step) % len(WORDS)] for step in range(5)]
            pairs = [
                {"source": text, "target": " ".join(words[place:]), "id": str(place)}
                for place, text in enumerate(TEXTS[:2])
            ]
            numbers: list[int] = []

            def add(pairs: list[dict[str, str]] = pairs, numbers: list[int] = numbers) -> None:
                answer = client.post(f"{route}/pairs", json={"pairs": pairs})
                assert answer.status_code == 200, answer.text
                numbers.extend(answer.json()["sentences"])

            def forget(numbers: list[int] = numbers) -> None:
                answer = client.delete(f"{route}/sentences/{numbers[0]}")
                assert answer.status_code == 200, answer.text

            commit(add)
            assert answers[-1][:2] == tuple(pair["target"] for pair in pairs)
            commit(forget)
            assert answers[-1][0] != pairs[0]["target"]
    finally:
        done.set()
    raise AssertionError


def test_every_answer_is_that_of_a_committed_state(model: Model, tmp_path: Path) -> None:
    memory = remember(model, PAIRS, tmp_path / "it")
    engine = Engine(model, [memory], {"it": Vanilla(k=1, knn_weight=1.0)})
    done = Event()

    def read(client: TestClient) -> list[Seen]:
        seen = []
        while not done.is_set():
            seen.append(ask(client))
        return seen

    def look(client: TestClient) -> int:
        looks = 0
        while not done.is_set():
            for path in ("it", "it/map", "it/sentences/0", "it/sentences/1"):
                assert client.get(f"/api/v1/memories/{path}").status_code == 200
            explained = client.post("/api/v1/explain", json={"text": TEXTS[0]})
            assert explained.status_code == 200, explained.text
            looks += 1
        return looks

    app = create_app(engine, access=Access(writable=True))
    with TestClient(app, "http://127.0.0.1") as client, ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(read, client) for _ in range(3)]
        looker = pool.submit(look, client)
        times, answers = edit(client, done)
        seen = [one for reader in readers for one in reader.result()]
        assert looker.result() > 0
    assert len(seen) > 20
    for one in seen:
        # A state may be seen from when its edit was sent until the next one was answered.
        allowed = {
            answers[state]
            for state in range(len(answers))
            if times[state][0] <= one.answered and (state + 1 == len(times) or one.asked <= times[state + 1][1])
        }
        assert one.texts in allowed
    assert "compact" in [entry.action for entry in read_log(tmp_path / "it")]
    assert verify_store(tmp_path / "it").sound
