"""Pairs that a request brings itself: searched with the memories, for this request only, and never written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from lacuna.combiners import Proximity, Vanilla
from lacuna.datastore import build_store
from lacuna.datastore.unsaved import make_unsaved_store
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.translator import System
from plain_systems import open_plain
from unit.models.tiny_models import SOURCES, TARGETS
from unit.serving.conftest import PAIRS, remember

NEW = {"source": "der hund steht am see", "target": "the dog stands by the lake"}
BY_HEART = {"k": 1, "knn_weight": 1.0}


def translated(client: TestClient, **body: Any) -> list[str]:
    answer = client.post("/api/v1/translate", json=body)
    assert answer.status_code == 200, answer.text
    return [one["text"] for one in answer.json()["translations"]]


def test_they_count_for_their_request_only(client: TestClient, memories: list[Memory]) -> None:
    def files() -> list[Path]:
        return sorted(memories[0].store.path.parent.rglob("*"))

    before, plain = files(), translated(client, texts=[NEW["source"]])
    assert translated(client, texts=[NEW["source"], SOURCES[0]], pairs=[NEW]) == [NEW["target"], TARGETS[0]]
    assert translated(client, texts=[NEW["source"]]) == plain != [NEW["target"]]
    assert files() == before


def test_they_work_without_a_memory_and_with_fewer_entries_than_k(client: TestClient) -> None:
    body = {"texts": [NEW["source"]], "memories": [], "pairs": [NEW]}
    assert translated(client, **body, combiner={"k": 64, "knn_weight": 1.0, "temperature": 0.001}) == [NEW["target"]]
    answer = client.post("/api/v1/translate", json={**body, "combiner": BY_HEART}).json()
    assert (answer["memories"], answer["translations"][0]["text"]) == ([], NEW["target"])


def test_without_a_memory_and_a_combiner_the_settings_suit_them(
    client: TestClient, model: Model, tmp_path: Path
) -> None:
    stored = remember(model, PAIRS[2:], tmp_path / "stored")
    combiner = Proximity.suited_to(stored)
    expected = System(model, [stored], combiner).open().translate(SOURCES)
    pairs = [{"source": pair.source, "target": pair.target} for pair in PAIRS[2:]]
    assert translated(client, texts=SOURCES, memories=[], pairs=pairs) == [one.text for one in expected]


def test_they_are_searched_like_a_memory_on_disk(
    client: TestClient, model: Model, memories: list[Memory], tmp_path: Path
) -> None:
    pairs = [{"source": pair.source, "target": pair.target} for pair in PAIRS[2:]]
    combiner = {"k": 5, "knn_weight": 0.7, "temperature": 3.0}
    stored = remember(model, PAIRS[2:], tmp_path / "stored")
    expected = open_plain(model, [memories[1], stored], Vanilla(5, 0.7, 3.0)).translate(SOURCES)
    got = translated(client, texts=SOURCES, memories=["half"], pairs=pairs, combiner=combiner)
    assert got == [one.text for one in expected]


def test_explanations_name_them(client: TestClient) -> None:
    body = {"text": NEW["source"], "pairs": [{**NEW, "tag": "mine"}]}
    answer = client.post("/api/v1/explain", json=body).json()
    near = answer["tokens"][0]["neighbors"][0]
    assert (near["memory"], near["source"], near["origin"]) == ("(pairs)", NEW["source"], "request:1 [mine]")
    alone = client.post("/api/v1/explain", json={**body, "memories": []}).json()
    assert {near["memory"] for token in alone["tokens"] for near in token["neighbors"]} == {"(pairs)"}


@pytest.mark.parametrize(
    ("pairs", "status", "says"),
    [
        ([NEW] * 21, 422, "pairs"),
        ([{"source": "ja"}], 422, "target"),
        ([NEW, {"source": "", "target": "yes"}], 400, "pairs.1: empty"),
        ([{"source": "ja " * 60, "target": "yes " * 65}], 413, "too many for the model"),
    ],
)
@pytest.mark.parametrize("route", ["translate", "explain"])
def test_refusals(client: TestClient, route: str, pairs: list[Any], status: int, says: str) -> None:
    body = {"texts": ["ja"]} if route == "translate" else {"text": "ja"}
    answer = client.post(f"/api/v1/{route}", json={**body, "pairs": pairs})
    assert (answer.status_code, says in answer.text) == (status, True), answer.text


def test_an_unsaved_store_equals_one_on_disk(model: Model, tmp_path: Path) -> None:
    stored, unsaved = build_store(model, PAIRS, tmp_path / "stored"), make_unsaved_store(model, PAIRS, "unsaved")
    assert list(unsaved.sentences) == list(stored.sentences)
    rows = np.arange(stored.entries)
    assert (unsaved.keys.gather(rows) == stored.keys.gather(rows)).all()
    assert (unsaved.mean == stored.mean).all()
    for name in ("values", "predictions", "known", "log_p_gold", "entropy", "sentence", "position"):
        assert (getattr(unsaved, name) == getattr(stored, name)).all(), name
    assert unsaved.weights is None
