"""The routes about memories, and the files of the web page."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

import lacuna.serving
from lacuna.datastore import Store
from lacuna.models import Model
from lacuna.translator import Memory


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
