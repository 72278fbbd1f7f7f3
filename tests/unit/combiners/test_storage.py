"""Saved combiners: what is loaded is what was saved, and anything else is refused."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from forging import write_forged
from lacuna.combiners import Adaptive, Kster, Proximity, Vanilla, load_combiner, save_combiner
from lacuna.combiners.storage import MANIFEST, WEIGHTS, MemoryRecord
from lacuna.datastore.manifest import ModelIdentity
from lacuna.errors import CombinerError
from unit.combiners.neighborhoods import DIMENSION, make_neighbors, single

MODEL = ModelIdentity(name="toy", fingerprint="a" * 64)
MEMORIES = (MemoryRecord(name="it", fingerprint="b" * 64, entries=7),)


def make(kind: str) -> Vanilla | Proximity | Adaptive | Kster:
    torch.manual_seed(5)
    return {
        "vanilla": lambda: Vanilla(4, 0.3, 20.0),
        "proximity": lambda: Proximity(4, 0.9, 20.0, 40.0),
        "adaptive": lambda: Adaptive(4, 30.0),
        "kster": lambda: Kster(DIMENSION, 4, "gaussian"),
    }[kind]()


def save(kind: str, folder: Path) -> Path:
    save_combiner(make(kind), folder, model=MODEL, memories=MEMORIES, dev_loss=1.5, seed=3)
    return folder


def rewrite(folder: Path, **changes: Any) -> None:
    path = folder / MANIFEST
    write_forged(path, json.loads(path.read_text()) | changes)


@pytest.mark.parametrize("kind", ["vanilla", "proximity", "adaptive", "kster"])
def test_what_is_loaded_is_what_was_saved(kind: str, tmp_path: Path) -> None:
    before, found = make(kind), single(make_neighbors(1, 6, 4, weights=True))
    saved = load_combiner(save(kind, tmp_path / "one"))
    assert saved.k == 4
    assert type(saved.combiner) is type(before)
    assert torch.equal(saved.mass(found), before.mass(found))
    assert saved.manifest.combiner == kind
    assert saved.manifest.model == MODEL
    assert saved.manifest.memories == MEMORIES
    assert (saved.manifest.dev_loss, saved.manifest.seed) == (1.5, 3)
    saved.check_model("a" * 64)


@pytest.mark.parametrize("kind", ["vanilla", "proximity", "adaptive", "kster"])
def test_same_combiner_same_bytes(kind: str, tmp_path: Path) -> None:
    content = [
        {path.name: path.read_bytes() for path in save(kind, tmp_path / name).iterdir()} for name in ("one", "two")
    ]
    assert content[0] == content[1]
    assert set(content[0]) == ({MANIFEST} if kind in {"vanilla", "proximity"} else {MANIFEST, WEIGHTS})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_settings_are_the_fields(tmp_path: Path) -> None:
    assert load_combiner(save("vanilla", tmp_path / "v")).manifest.settings == asdict(make("vanilla"))
    assert load_combiner(save("adaptive", tmp_path / "a")).manifest.settings == {"k": 4, "temperature": 30.0}


def test_another_model_is_refused(tmp_path: Path) -> None:
    saved = load_combiner(save("adaptive", tmp_path / "one"))
    with pytest.raises(CombinerError, match=r"fitted to another model \(toy, fingerprint aaaaaaaaaaaa, not cccc"):
        saved.check_model("c" * 64)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": 2}, "has format 2, this version of Lacuna knows format 1"),
        ({"kind": "store"}, "of kind 'store'"),
        ({"seed": "3"}, "seed: "),
        ({"color": "red"}, "color: "),
        ({"combiner": "wise"}, "wise with settings"),
        ({"settings": {"k": 6}}, "power of 2"),
        ({"settings": {"k": "4"}}, "this version has no combiner"),
        ({"settings": {"k": 4, "depth": 1}}, "depth"),
        ({"settings": {"k": 8}}, "does not fit the settings"),
        ({"weights": None}, "its hash differs"),
    ],
)
def test_a_manifest_that_was_changed_is_refused(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    folder = save("adaptive", tmp_path / "one")
    rewrite(folder, **changes)
    with pytest.raises(CombinerError, match=says):
        load_combiner(folder)


@pytest.mark.parametrize("kind", ["vanilla", "proximity", "adaptive", "kster"])
def test_the_manifest_has_a_checksum(kind: str, tmp_path: Path) -> None:
    path = save(kind, tmp_path / "one") / MANIFEST
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"dev_loss": 0.5}))
    with pytest.raises(CombinerError, match="edited or damaged, its content does not match its checksum; copy or fit"):
        load_combiner(tmp_path / "one")
    del content["checksum"]  # as earlier versions wrote it
    path.write_text(json.dumps(content))
    assert load_combiner(tmp_path / "one").manifest.dev_loss == 1.5


def test_a_full_disk_while_weights_are_written_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("lacuna.combiners.storage.save_file", full)
    with pytest.raises(CombinerError, match=r"cannot be written \(.*No space left.*\); free space, or name another"):
        save("adaptive", tmp_path / "one")
    assert list(tmp_path.iterdir()) == []


def test_damage_is_refused(tmp_path: Path) -> None:
    folder = save("adaptive", tmp_path / "one")
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CombinerError, match="damaged"):
        load_combiner(folder)
    (folder / WEIGHTS).unlink()
    with pytest.raises(CombinerError, match="cannot be read"):
        load_combiner(folder)
    (folder / MANIFEST).write_text("{")
    with pytest.raises(CombinerError, match="not JSON"):
        load_combiner(folder)
    (folder / MANIFEST).write_text("[]")
    with pytest.raises(CombinerError, match="got list"):
        load_combiner(folder)
    with pytest.raises(CombinerError, match="no combiner there"):
        load_combiner(tmp_path / "nowhere")


def test_a_folder_in_use_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.txt").write_text("precious")
    with pytest.raises(CombinerError, match="already there"):
        save("vanilla", tmp_path / "used")
    (tmp_path / "file").write_text("precious")
    with pytest.raises(CombinerError, match="already there"):
        save("vanilla", tmp_path / "file")
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["thesis.txt"]


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert load_combiner(save("vanilla", tmp_path / "empty")).combiner == make("vanilla")


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lacuna.combiners.storage.write_sealed", full)
    with pytest.raises(CombinerError, match="No space left"):
        save("adaptive", tmp_path / "one")
    assert list(tmp_path.iterdir()) == []
