"""A memory that stops answering in the middle of a request: the answer is of the model alone, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from starlette.testclient import TestClient

from lacuna.combiners import Vanilla
from lacuna.decoding import BeamSettings
from lacuna.memory import FolderMemory, Memory
from lacuna.models import Model
from lacuna.serving import Engine, create_app
from unit.serving.test_paragraphs import CALIBRATION
from unit.translator.test_fallback import NEVER, Failing

ASKED: list[tuple[str, Any]] = [
    ("translate", {"texts": ["wir lesen %s"]}),
    ("translate", {"texts": ["ein see"], "confidence": True}),
    ("translate", {"texts": ["ein see"], "alternatives": 2}),
    ("explain", {"text": "ein see"}),
]


@pytest.fixture
def index(memories: list[Memory]) -> Failing:
    return Failing(memories[0].index, NEVER)


@pytest.fixture
def away(model: Model, memories: list[Memory], index: Failing, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A server of short translations: random weights end none, and a request is repeated for each of its searches."""
    monkeypatch.setattr("lacuna.serving.engine.BeamSettings", partial(BeamSettings, beam=2, max_new_tokens=4))
    memory = FolderMemory.of(memories[0].store, memories[0].name, index)
    engine = Engine(model, [memory], {"all": Vanilla(k=2)}, {"all": CALIBRATION}, fallback=True)
    with TestClient(create_app(engine), raise_server_exceptions=False) as client:
        yield client


@pytest.mark.parametrize(("verb", "body"), ASKED)
@pytest.mark.parametrize("once", [False, True])
def test_every_pass_of_a_request(away: TestClient, index: Failing, verb: str, body: Any, once: bool) -> None:
    def ask() -> Any:
        answer = away.post(f"/api/v1/{verb}", json=body)
        assert answer.status_code == 200, answer.text
        [one] = answer.json()["translations"] if verb == "translate" else [answer.json()]
        return one

    good = ask()
    assert good["without_memory"] is False
    for failing in range(1, index.searches + 1):
        index.searches, index.first, index.last = 0, failing, failing if once else NEVER
        one = ask()
        if body.get("confidence") and not one["without_memory"]:  # only the confidence could not be computed
            assert (one["text"], one["confidence"]) == (good["text"], None)
        else:
            assert one["without_memory"], f"search {failing}"
    index.first = NEVER
    index.searches = 0
    assert ask() == good
