"""The routes about memories, and the files of the web page."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from starlette.testclient import TestClient

import lacuna.serving
from lacuna.combiners import Gate, Vanilla
from lacuna.combiners.gate import Regions, make_gate_network
from lacuna.datastore import Store
from lacuna.memory import Memory
from lacuna.models import Model
from lacuna.serving import Engine
from lacuna.serving.engine import Job
from lacuna.translator import System, Translator

GATE_SCALE = torch.zeros(4), torch.ones(4)


def test_statistics_of_a_memory(client: TestClient, memories: list[Memory]) -> None:
    store: Store = memories[0].store
    answer = client.get("/api/v1/memories/all").json()
    assert (answer["entries"], answer["known"]) == (store.entries, int(store.known.sum()))
    assert sum(one["known"] + one["unknown"] for one in answer["margins"]) == store.entries
    assert client.get("/api/v1/memories/half").json()["margins"] is None
    assert {"word": "the", "needed": 2, "unknown": 2, "count": 2}.items() <= next(
        one for one in client.get("/api/v1/memories/half").json()["needed_words"] if one["word"] == "the"
    ).items()


def test_the_map_has_every_key_of_a_small_memory(client: TestClient, memories: list[Memory], model: Model) -> None:
    answer = client.get("/api/v1/memories/all/map").json()
    store = memories[0].store
    assert answer["sentence"] == store.sentence.tolist()
    assert answer["known"] == store.known.tolist()
    assert answer["token"] == [model.token_text(value) for value in store.values.tolist()]
    assert max(map(abs, [*answer["x"], *answer["y"]])) == 1.0


def test_page_files_have_no_external_references() -> None:
    folder = Path(str(lacuna.serving.__file__)).with_name("page")
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    for name, text in texts.items():
        assert "innerHTML" not in text, name
        assert "://" not in text.replace("http://www.w3.org/2000/svg", ""), name
    named = {part.split('"')[0] for text in texts.values() for part in text.split('"/page/')[1:]}
    assert named
    assert named <= set(texts)


def test_a_memory_without_a_combiner_gets_the_safe_one_and_a_domain_its_gate(
    model: Model, memories: list[Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[System] = []
    real = System.open

    def noted(system: System) -> Translator:
        opened.append(system)
        return real(system)

    monkeypatch.setattr(System, "open", noted)
    gate = Gate(Regions(torch.zeros(1, model.dimension), torch.zeros(1, 2)), make_gate_network(), *GATE_SCALE)
    domain, other = memories
    gates = {domain.name: (gate, domain.store.entries), other.name: (gate, other.store.entries + 1)}
    combiners = {memory.name: Vanilla(k=1) for memory in memories}
    with_gates = Engine(model, memories, combiners, gates=gates)
    without_fit = Engine(model, memories)
    for engine in (with_gates, without_fit):
        for memory in memories:
            engine.run(Job(engine.resolve_options([memory.name])), ["ein Hund"])
    searching = [system.retriever() for system in opened[:4]]
    used = [retriever is not None and retriever.gate is gate for retriever in searching]
    assert used == [True, False, False, False]  # the second gate was made for another number of entries
    assert [system.combiner is None for system in opened[:4]] == [False, False, True, True]
