"""Models and translators that another process opens again: loaded once, and only if they are the same."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from lacuna.combiners import Vanilla
from lacuna.datastore import build_store, open_store
from lacuna.datastore.store import reopen_store
from lacuna.errors import ModelError, StoreError
from lacuna.index import build_index
from lacuna.memory import open_memory
from lacuna.models import Model, load_model
from lacuna.models.sharing import reopen_model
from lacuna.translator import Translator
from lacuna.translator.translator import WINDOW
from lacuna.workers import WorkerPool
from lacuna.workers.task_messages import forget_tasks, open_task, pack_task
from made_up import make_pairs
from plain_systems import open_plain
from unit.models.tiny_models import make_marian


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shared")
    make_marian(place / "model")
    model = load_model(place / "model", device="cpu")
    build_index(build_store(model, make_pairs(40), place / "store"))
    return place


@pytest.fixture
def loaded(folder: Path) -> Model:
    return load_model(folder / "model", device="cpu")


def name_of(model: Model, item: int) -> tuple[str, int, int]:
    return model.name, id(model), item


def test_a_model_is_sent_by_its_folder_and_loaded_once(
    loaded: Model, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    message = pack_task(partial(name_of, load_model(Path("shared0") / "model", device="cpu")), None)
    assert len(message) < 2000
    monkeypatch.chdir("/")  # another process has another working folder
    name, first, _ = open_task(message)(1)
    forget_tasks()
    assert name == str(folder / "model")
    assert open_task(message)(2) == (name, first, 2)
    assert first != id(loaded)


def test_another_model_is_refused(loaded: Model) -> None:
    _, (source, _) = loaded.reopening()
    with pytest.raises(ModelError, match="a worker finds another model there"):
        reopen_model(source, "0" * 64)  # type: ignore[arg-type]


def test_a_store_that_is_not_seen_or_another_one(folder: Path) -> None:
    store = open_store(folder / "store")
    assert reopen_store(str(store.path), store.fingerprint).entries == store.entries
    with pytest.raises(StoreError, match="sees another store there"):
        reopen_store(str(store.path), "0" * 64)
    with pytest.raises(StoreError, match="does not see this store"):
        reopen_store(str(folder / "no"), store.fingerprint)


def translate_one(translator: Translator, text: str) -> str:
    return translator.translate([text])[0].text


@pytest.mark.parametrize("exact_contexts", [False, True])
def test_a_translator_is_opened_with_all_settings(exact_contexts: bool, loaded: Model, folder: Path) -> None:
    memory = open_memory(folder / "store", "mine")
    translator = open_plain(loaded, [memory], Vanilla(k=3, knn_weight=0.9), exact_contexts=exact_contexts)
    forget_tasks()
    task = open_task(pack_task(partial(translate_one, translator), None))
    opened: Translator = task.args[0]  # type: ignore[attr-defined]
    assert opened.system.record() == translator.system.record()
    assert opened.memories[0].name == "mine"
    text = make_pairs(1, seed=9)[0].source
    assert task(text) == translate_one(translator, text)


@pytest.mark.parametrize("workers", [1, 2])
def test_windows_of_a_pool_give_the_same_translations(workers: int, loaded: Model, folder: Path) -> None:
    translator = open_plain(loaded, [open_memory(folder / "store")])
    texts = [pair.source for pair in make_pairs(WINDOW + 20, seed=3)]
    texts[1] = ""
    plain = translator.translate(texts)
    rows = translator.search_count.rows
    found = translator.translate(texts, pool=WorkerPool(workers))
    assert [each.text for each in found] == [each.text for each in plain]
    assert translator.search_count.rows > rows
