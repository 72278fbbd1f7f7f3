"""Verifying finds what is wrong, also where the hashes were made to fit; inspecting says what is there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forging import write_forged
from lacuna.datastore import Store, inspect_store, verify_store
from lacuna.datastore.columns import record_of
from lacuna.datastore.inspection import MARGIN, MARGIN_MANIFEST, _folder_size
from lacuna.datastore.manifest import MANIFEST


def test_a_fresh_store_is_sound(small_store: Store) -> None:
    report = verify_store(small_store.path)
    assert report.sound
    assert report.as_json()["files"] == 1 + 11 * len(small_store.manifest.shards)


def test_one_changed_byte_in_any_file_is_found(small_store: Store) -> None:
    files = [path for path in small_store.path.rglob("*") if path.is_file() and path.name != MANIFEST]
    rng = np.random.default_rng(1)
    for path in files:
        content = path.read_bytes()
        place = int(rng.integers(len(content)))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        problems = verify_store(small_store.path).problems
        assert len(problems) == 1
        assert problems[0].startswith(str(path))
        path.write_bytes(content)
    assert verify_store(small_store.path).sound


def test_every_problem_is_reported(small_store: Store) -> None:
    shards = small_store.path / "shards"
    (shards / "00000" / "values.npy").unlink()
    (shards / "00001" / "keys.npy").write_bytes(b"short")
    (shards / "stray").mkdir()
    problems = verify_store(small_store.path).problems
    assert [problem.split(":")[0].removeprefix(f"{shards}/") for problem in problems] == [
        "stray",
        "00000/values.npy",
        "00001/keys.npy",
    ]


def at(row: int, value: float) -> Callable[[np.ndarray], None]:
    def change(array: np.ndarray) -> None:
        array[row] = value

    return change


def gap(position: np.ndarray) -> None:
    position[1:] += position[1:] > 0


WRONG = {
    "value out of range": ("values", at(0, 50), "values.npy: has"),
    "prediction out of range": ("predictions", at(0, -1), "predictions.npy: has"),
    "known": ("known", np.logical_not, "known.npy: known differs"),
    "sentence out of range": ("sentence", at(0, -1), "sentence.npy: has"),
    "sentence order": ("sentence", at(1, 3), "order of the corpus"),
    "gap": ("position", gap, "without a gap"),
    "no end": ("values", at(-1, 7), "does not end with the end token 1"),
    "infinite key": ("keys", at(3, np.inf), "row 3 is not finite"),
    "probability above 1": ("log_p_gold", at(0, 0.5), "impossible for probabilities"),
    "entropy not a number": ("entropy", at(0, np.nan), "impossible for probabilities"),
    "type": ("values", lambda values: values.astype(np.int64), "has int64"),
    "starts": ("sentence_starts", at(1, 0), "does not match the lines"),
    "mean": ("keys", at(0, 100), "not the mean of the keys"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_contents_are_found_even_with_matching_hashes(name: str, small_store: Store) -> None:
    column, change, words = WRONG[name]
    path = small_store.path / "shards" / "00000" / f"{column}.npy"
    array = np.load(path)
    changed = change(array)
    np.save(path, array if changed is None else changed)
    forge(small_store.path, path)
    assert any(words in problem for problem in verify_store(small_store.path).problems)


def test_a_line_that_is_no_pair(small_store: Store) -> None:
    path = small_store.path / "shards" / "00000" / "sentences.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"Wir', b"xWir", 1))
    forge(small_store.path, path)
    assert "sentences.jsonl:1: not a sentence pair" in verify_store(small_store.path).problems[0]


def forge(store: Path, path: Path) -> None:
    manifest = json.loads((store / MANIFEST).read_text())
    manifest["shards"][0]["files"][path.name] = record_of(path).model_dump()
    write_forged(store / MANIFEST, manifest)


def test_inspecting(small_store: Store) -> None:
    content = inspect_store(small_store.path).as_json()
    known = int((small_store.values % 3 == 0).sum())
    assert content["entries"] == small_store.entries
    assert content["sentences"] == 120
    assert content["dimension"] == 4
    assert content["known"] == known
    assert content["known_ratio"] == known / small_store.entries
    assert content["bytes"] == sum(path.stat().st_size for path in small_store.path.rglob("*") if path.is_file())
    assert content["index"] is None
    assert content["margin_histogram"] is None


def test_inspecting_tells_of_index_and_margins(small_store: Store) -> None:
    (small_store.path / "index").mkdir()
    (small_store.path / "index" / "manifest.json").write_text('{"kind": "exact", "store": "old"}')
    margins = np.zeros(small_store.entries, dtype=np.uint16)
    margins[:5] = [1, 2, 3, 4096, 7]
    (small_store.path / MARGIN).parent.mkdir()
    np.save(small_store.path / MARGIN, margins)
    data = record_of(small_store.path / MARGIN).model_dump()
    write_forged(small_store.path / MARGIN_MANIFEST, {"store": small_store.fingerprint, "data": data})
    content = inspect_store(small_store.path).as_json()
    assert content["index"] == {"kind": "exact", "current": False}
    histogram = content["margin_histogram"]
    known = int(small_store.known.sum())
    assert sum(bin["known"] for bin in histogram.values()) == known
    assert sum(bin["unknown"] for bin in histogram.values()) == small_store.entries - known
    assert [sum(histogram[least].values()) for least in ("1", "2", "4", "2048")] == [1, 2, 1, 1]
    write_forged(small_store.path / MARGIN_MANIFEST, {"store": "old", "data": data})
    assert inspect_store(small_store.path).margin_histogram is None


def test_a_folder_that_vanishes_meanwhile_has_no_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stays", "vanishes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"1234567")
    scan = os.scandir

    def scandir(path: str) -> Any:
        if str(path).endswith("vanishes"):
            raise FileNotFoundError(path)
        return scan(path)

    assert _folder_size(tmp_path) == 14
    monkeypatch.setattr(os, "scandir", scandir)
    assert _folder_size(tmp_path) == 7
