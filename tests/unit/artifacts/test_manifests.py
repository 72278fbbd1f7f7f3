"""Manifests: format and kind are looked at before the fields, and every fault is one line of the caller's kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from lacuna.artifacts.manifests import Record, read_manifest
from lacuna.errors import StoreError


class Thing(Record):
    format: int = 2
    kind: Literal["thing"] = "thing"
    size: int


class Plain(Record):
    """Its kind is data, so any is allowed."""

    format: int = 1
    kind: str


def read(path: Path, record: type[Thing] | type[Plain] = Thing) -> Thing | Plain:
    return read_manifest(path, record, StoreError, missing="nothing there", again="make it again")


def test_reads(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(Thing(size=3).model_dump_json())
    assert read(path) == Thing(size=3)
    path.write_text(Plain(kind="any").model_dump_json())
    assert read(path, Plain) == Plain(kind="any")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not JSON"),
        ("[]", "content: got list"),
        ({"format": 2, "size": 1}, "of kind None, not 'thing'"),
        ({"format": 1, "kind": "thing", "weight": 1}, "has format 1, this version of Lacuna knows format 2"),
        ({"format": 2, "kind": "thing"}, "size: Field required"),
        ({"format": 2, "kind": "thing", "size": "3"}, "size: Input should be a valid integer"),
        ({"format": 2, "kind": "thing", "size": 3, "more": 1}, "more: Extra inputs are not permitted"),
    ],
)
def test_faults_are_one_line_with_a_way_out(tmp_path: Path, content: object, says: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(StoreError) as caught:
        read(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert says in line
    assert line.endswith("make it again")
    assert "\n" not in line


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b"\xff")
    with pytest.raises(StoreError, match="not JSON"):
        read(tmp_path / "manifest.json")
    for missing in (tmp_path / "none.json", tmp_path / "manifest.json" / "below"):
        with pytest.raises(StoreError, match=r"^nothing there$"):
            read(missing)
