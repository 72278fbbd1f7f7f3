"""Every wrong folder, model, corpus or file is one line that names it, and nothing on disk changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forging import write_forged
from lacuna.datastore import Store, build_store, inspect_store, open_store, verify_store
from lacuna.datastore.manifest import MANIFEST, UNFINISHED
from lacuna.errors import StoreError
from lacuna.records import Languages
from made_up import make_pairs
from unit.datastore.disk import contents
from unit.datastore.numpy_model import NumpyModel

SIZES: dict[str, Any] = {"cleaning": None, "batch_tokens": 64, "shard_rows": 300}
OTHERS = {
    "model": (NumpyModel(fingerprint="e" * 64), make_pairs(400), SIZES, "another model"),
    "languages": (NumpyModel(languages=Languages("de", "fr")), make_pairs(400), SIZES, "another model"),
    "masking": (NumpyModel(mask_placeholders=True), make_pairs(400), SIZES, "without masked placeholders"),
    "precision": (NumpyModel(precision="bfloat16"), make_pairs(400), SIZES, "in float32, not bfloat16"),
    "corpus": (NumpyModel(), make_pairs(400, seed=1), SIZES, "other sentence pairs"),
    "shorter corpus": (NumpyModel(), make_pairs(20), SIZES, "other sentence pairs"),
    "settings": (NumpyModel(), make_pairs(400), {**SIZES, "batch_tokens": 65}, "other settings"),
}


def refused(act: Callable[[], object], folder: Path, words: str) -> None:
    before = contents(folder)
    with pytest.raises(StoreError, match=words) as caught:
        act()
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("finished", [True, False])
def test_another_build_in_the_folder_is_refused(other: str, finished: bool, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    if finished:
        build_store(NumpyModel(), make_pairs(400), folder, **SIZES)
    else:
        with pytest.raises(KeyboardInterrupt):
            build_store(NumpyModel(fail_at=30), make_pairs(400), folder, **SIZES)
    model, pairs, sizes, words = OTHERS[other]
    refused(lambda: build_store(model, pairs, folder, **sizes), folder, words)


def test_more_sentences_than_the_finished_store_has_are_refused(tmp_path: Path) -> None:
    folder = build_store(NumpyModel(), make_pairs(50), tmp_path / "store").path
    refused(lambda: build_store(NumpyModel(), make_pairs(51), folder), folder, "other sentence pairs")


def test_a_changed_origin_is_another_corpus(tmp_path: Path) -> None:
    from dataclasses import replace

    pairs = make_pairs(50)
    folder = build_store(NumpyModel(), pairs, tmp_path / "store").path
    moved = [replace(pair, origin=replace(pair.origin, file="elsewhere")) for pair in pairs]
    refused(lambda: build_store(NumpyModel(), moved, folder), folder, "other sentence pairs")


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refused(lambda: build_store(NumpyModel(), make_pairs(5), tmp_path), tmp_path, "not empty and not a store")
    for act in (open_store, verify_store, inspect_store):
        refused(lambda act=act: act(tmp_path), tmp_path, "not a store")  # type: ignore[misc]


def test_a_manifest_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"kind": "domain"}')
    refused(lambda: build_store(NumpyModel(), make_pairs(5), tmp_path), tmp_path, "of kind 'domain'")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("x")
    refused(lambda: build_store(NumpyModel(), make_pairs(5), tmp_path / "store"), tmp_path, "not a folder")
    refused(
        lambda: build_store(NumpyModel(), make_pairs(5), tmp_path / "store" / "in"),
        tmp_path,
        "cannot be written|not a folder",
    )


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    refused(lambda: open_store(tmp_path / "no"), tmp_path, "no such store")


def test_what_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lacuna.datastore.decoded_windows.write_shard_files", full)
    with pytest.raises(StoreError, match=r"cannot be written \(No space left on device\)"):
        build_store(NumpyModel(), make_pairs(5), tmp_path / "store")


def test_a_store_of_another_model(small_store: Store) -> None:
    small_store.check_model(NumpyModel())
    other = NumpyModel(fingerprint="a" * 64)
    refused(lambda: small_store.check_model(other), small_store.path, "built with another model")


@pytest.mark.parametrize("name", ["keys.npy", "values.npy", "sentences.jsonl", "sentence_starts.npy", "known.npy"])
def test_a_truncated_file_is_named(name: str, small_store: Store) -> None:
    path = small_store.path / "shards" / "00001" / name
    path.write_bytes(path.read_bytes()[:-1])
    refused(lambda: open_store(small_store.path), small_store.path, f"shards/00001/{name}: has .* bytes, not")
    path.unlink()
    refused(lambda: open_store(small_store.path), small_store.path, f"shards/00001/{name}: missing")


def test_a_shard_lost_from_an_unfinished_build(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with pytest.raises(KeyboardInterrupt):
        build_store(NumpyModel(fail_at=30), make_pairs(400), folder, **SIZES)
    (folder / "shards" / "00000" / "keys.npy").unlink()
    refused(lambda: build_store(NumpyModel(), make_pairs(400), folder, **SIZES), folder, "missing or truncated")


def test_unknown_format(small_store: Store) -> None:
    edit(small_store, format=2)
    for act in (open_store, verify_store, inspect_store):
        refused(lambda act=act: act(small_store.path), small_store.path, "has format 2")  # type: ignore[misc]
    refused(lambda: build_store(NumpyModel(), make_pairs(120), small_store.path), small_store.path, "has format 2")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"entries": "many"}, "entries: Input should be a valid integer"),
        ({"color": "red"}, "color: Extra inputs"),
        ({"entries": 3}, "has 3 entries"),
        ({"dimension": 5}, "has float16 of shape"),
        ({"key": "ffn_in"}, "key: Input should be 'out'"),
    ],
)
def test_manifests_are_read_strictly(change: dict[str, object], words: str, small_store: Store) -> None:
    edit(small_store, **change)
    refused(lambda: open_store(small_store.path), small_store.path, words)


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_manifest_that_is_no_record(text: str, small_store: Store) -> None:
    (small_store.path / MANIFEST).write_text(text)
    refused(lambda: open_store(small_store.path), small_store.path, "manifest.json")


def test_a_broken_progress_file(tmp_path: Path) -> None:
    (tmp_path / UNFINISHED).write_text("{")
    refused(lambda: build_store(NumpyModel(), make_pairs(5), tmp_path), tmp_path, "building.json: not JSON")


def test_a_first_write_killed_halfway_is_no_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / f".{UNFINISHED}.abc.tmp").write_text("{")
    build_store(NumpyModel(), make_pairs(5), tmp_path)
    assert not list(tmp_path.glob(".*"))


def edit(store: Store, **changes: object) -> None:
    path = store.path / MANIFEST
    write_forged(path, json.loads(path.read_text()) | changes)
