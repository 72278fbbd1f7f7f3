"""What is known of a folder without loading its model, and when it is forgotten."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from lacuna.artifacts.user_cache import user_cache
from lacuna.errors import ModelError
from lacuna.models import facts_cache, loading
from lacuna.models.adapter import Model
from lacuna.models.facts_cache import read_known, state_of, write_known
from lacuna.models.fingerprint import fingerprint_of
from lacuna.models.loading import load_model
from unit.models.tiny_models import KINDS, SOURCES, Zoo


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LACUNA_CACHE", str(folder))
    return folder


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders whose weights were loaded."""
    places: list[str] = []
    load = loading._load_weights

    def count(name: str, place: str, config: object) -> object:
        places.append(place)
        return load(name, place, config)  # type: ignore[arg-type]

    monkeypatch.setattr(loading, "_load_weights", count)
    return places


def loaded(folder: Path, kind: str = "marian") -> Model:
    return load_model(folder, languages=KINDS[kind].languages, device="cpu")


def test_a_known_model_is_the_same_as_a_new_one(zoo: Zoo, kind: str, loads: list[str]) -> None:
    new, known = loaded(zoo.folder(kind), kind), loaded(zoo.folder(kind), kind)
    assert len(loads) == 1
    assert known.facts == new.facts
    assert known.direction == new.direction
    assert known.fingerprint == new.fingerprint
    sources = known.encode_sources(SOURCES)
    assert sources == new.encode_sources(SOURCES)
    assert known.encode_targets(SOURCES) == new.encode_targets(SOURCES)
    assert known.decode(sources[0]) == new.decode(sources[0])
    assert len(loads) == 1
    assert fingerprint_of(known.hf, known.tokenizer) == known.fingerprint
    assert torch.equal(
        known.teacher_force(sources[:1], sources[:1]).keys, new.teacher_force(sources[:1], sources[:1]).keys
    )
    assert known.hf.generation_config.to_dict() == new.hf.generation_config.to_dict()
    assert len(loads) == 2
    assert not known.hf.training
    assert not any(weight.requires_grad for weight in known.hf.parameters())


def test_threads_load_it_once(zoo: Zoo, loads: list[str]) -> None:
    loaded(zoo.folder("marian"))
    known = loaded(zoo.folder("marian"))
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(id(known.hf))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(loads) == 2


def change_time(folder: Path) -> None:
    stat = (folder / "vocab.json").stat()
    os.utime(folder / "vocab.json", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))


def replace_silently(folder: Path) -> None:
    """Same size and time, other content: only the time of the change itself says so."""
    path = folder / "model.safetensors"
    stat, content = path.stat(), path.read_bytes()
    path.write_bytes(content[:-4] + b"\x00\x00\x80\x3f")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


CHANGES = {
    "time": change_time,
    "content": replace_silently,
    "size": lambda folder: (folder / "config.json").write_text((folder / "config.json").read_text() + "\n"),
    "new file": lambda folder: (folder / "readme.txt").touch(),
    "missing file": lambda folder: (folder / "generation_config.json").unlink(),
}


@pytest.mark.posix  # other systems do not tell when a file was changed
@pytest.mark.parametrize("what", sorted(CHANGES))
def test_any_change_of_the_folder_counts(zoo: Zoo, tmp_path: Path, loads: list[str], what: str) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    loaded(folder)
    CHANGES[what](folder)
    model = loaded(folder)
    assert len(loads) == 2
    assert model.fingerprint == fingerprint_of(model.hf, model.tokenizer)


@pytest.mark.posix
def test_a_copy_is_another_folder_and_a_link_the_same(zoo: Zoo, tmp_path: Path, loads: list[str]) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    loaded(folder)
    shutil.copytree(folder, tmp_path / "second")
    loaded(tmp_path / "second")
    assert len(loads) == 2
    (tmp_path / "link").symlink_to(folder)
    assert loaded(tmp_path / "link").name == str(tmp_path / "link")
    assert len(loads) == 2


def test_there_is_one_entry_for_a_folder(zoo: Zoo, tmp_path: Path, cache: Path) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    for number in range(3):
        (folder / "readme.txt").write_text("x" * number)
        loaded(folder)
    assert len(list((cache / "models").iterdir())) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[" * 100_000,
        lambda text: text.replace('"format":1', '"format":2'),
        lambda text: text.replace(f'"version":"{facts_cache.__version__}"', '"version":"0"'),
        lambda text: text.replace('"eos_id":0', '"eos_id":"0"'),
        lambda text: text.replace('"facts":{', '"facts":{"more":1,'),
    ],
)
def test_an_odd_entry_is_none_and_replaced(zoo: Zoo, cache: Path, loads: list[str], damage: object) -> None:
    loaded(zoo.folder("marian"))
    (entry,) = (cache / "models").iterdir()
    good = entry.read_text()
    entry.write_text(damage(good))  # type: ignore[operator]
    assert entry.read_text() != good
    assert loaded(zoo.folder("marian")).fingerprint == zoo.model("marian").fingerprint
    assert len(loads) == 2
    assert entry.read_text() == good


def test_without_a_cache_every_load_is_whole(zoo: Zoo, loads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LACUNA_CACHE", "")
    assert [loaded(zoo.folder("marian")).fingerprint for _ in range(2)] == [zoo.model("marian").fingerprint] * 2
    assert len(loads) == 2


def test_a_cache_that_cannot_be_written_is_no_error(
    zoo: Zoo, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(facts_cache, "write_text", full)
    for _ in range(2):
        loaded(zoo.folder("marian"))
    assert len(loads) == 2


def test_a_folder_that_changes_while_it_is_read_is_not_remembered(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    loaded(folder)
    state = state_of(folder)
    assert state is not None
    known = read_known(state)
    assert known is not None
    change_time(folder)
    for entry in (user_cache() / "models").iterdir():
        entry.unlink()
    write_known(known)
    assert list((user_cache() / "models").iterdir()) == []


def test_a_model_that_is_refused_is_not_remembered(zoo: Zoo, tmp_path: Path, cache: Path) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    vocabulary = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps({**vocabulary, "more": len(vocabulary)}))
    for _ in range(2):
        with pytest.raises(ModelError, match="they do not match"):
            loaded(folder)
    assert list((cache / "models").iterdir()) == []


def test_a_direction_is_checked_for_a_known_model_too(zoo: Zoo) -> None:
    loaded(zoo.folder("m2m100"), "m2m100")
    with pytest.raises(ModelError, match=r"say which, as in languages de-en"):
        load_model(zoo.folder("m2m100"))


def test_weights_that_are_gone_are_an_error_when_they_are_needed(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.copy("marian", tmp_path / "copy")
    loaded(folder)
    known = loaded(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="weights cannot be loaded"):
        known.teacher_force(known.encode_sources(SOURCES), known.encode_targets(SOURCES))


HEAVY = ("transformers", "tokenizers", "sympy", "sacremoses", "sacrebleu", "matplotlib", "numba", "faiss", "lxml")
PROGRAM = f"""
import sys
import lacuna.cli.translate, lacuna.documents
from lacuna.models import load_model
from lacuna.translator import Translator
model = load_model(device="cpu")
ids = model.encode_sources(["Wo ist der Bahnhof?"])
text = model.decode(model.encode_targets(["Where is it?"])[0])
assert text == "Where is it?" and model.fingerprint and model.start_ids and model.dimension
print([name for name in {HEAVY} if name in sys.modules])
"""


@pytest.mark.usefixtures("cache")
def test_a_known_model_needs_no_heavy_packages_to_tokenize() -> None:
    load_model(device="cpu")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
