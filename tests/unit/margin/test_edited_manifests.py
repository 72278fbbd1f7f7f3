"""``verify`` notices edited manifests of indexes and margins; manifests of earlier versions have no checksum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from commands import path_of
from lacuna.cli.commands import add_verb
from lacuna.cli.store import verify
from lacuna.datastore import Store, build_store, verify_store
from lacuna.errors import IndexingError, StoreError
from lacuna.index import build_index, open_index
from lacuna.margin import Approximate, measure_margin, read_margins
from made_up import make_pairs
from unit.datastore.numpy_model import NumpyModel

FOLDERS = ["index", "margin"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with index and margins."""
    made = build_store(NumpyModel(), make_pairs(60), tmp_path / "store", shard_rows=300)
    build_index(made, "IVF8,Flat", nprobe=4)
    measure_margin(made, 64, approximate=Approximate(nprobe=2, lists=4))
    return made


def edited(value: object) -> object:
    """Return another value of the same type, so that only a checksum can tell."""
    if isinstance(value, dict):
        name = next(iter(value))
        return {**value, name: edited(value[name])}
    if isinstance(value, list):
        return [*value, "edited"]
    if value is None or isinstance(value, str):
        return f"{value}x"
    return value + 1  # type: ignore[operator]


def content_of(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_edit_of_any_field_is_noticed(store: Store, folder: str) -> None:
    path = store.path / folder / "manifest.json"
    assert verify_store(store.path).sound
    before = path.read_text()
    for name, value in content_of(path).items():
        path.write_text(json.dumps({**content_of(path), name: edited(value)}))
        (problem,) = verify_store(store.path).problems
        assert str(path) in problem, name
        path.write_text(before)
    path.write_text("{")
    (problem,) = verify_store(store.path).problems
    assert f"{path}: not JSON" in problem


def test_lacuna_verify_names_an_edited_index_manifest(store: Store) -> None:
    path = store.path / "index" / "manifest.json"
    path.write_text(json.dumps({**content_of(path), "probes": 8}))
    app = typer.Typer()
    add_verb(app, path_of(verify))
    result = CliRunner().invoke(app, [str(store.path)])
    assert isinstance(result.exception, StoreError)
    assert f"{path}: edited or damaged" in result.stdout


def test_edited_manifests_are_refused_on_opening(store: Store) -> None:
    for folder, change in (("index", {"probes": 8}), ("margin", {"max_margin": 65})):
        path = store.path / folder / "manifest.json"
        path.write_text(json.dumps({**content_of(path), **change}))
    with pytest.raises(IndexingError, match="does not match its checksum; build the index again with: lacuna index"):
        open_index(store)
    with pytest.raises(StoreError, match="does not match its checksum; measure the margins again with: lacuna margin"):
        read_margins(store)


def test_manifests_of_earlier_versions_open_and_verify(store: Store) -> None:
    values = read_margins(store).values
    for folder in FOLDERS:
        path = store.path / folder / "manifest.json"
        content = content_of(path)
        del content["checksum"]
        path.write_text(json.dumps(content))
    assert verify_store(store.path).sound
    assert open_index(store).kind == "IVF8,Flat"
    assert (read_margins(store).values == values).all()


def test_margins_of_the_first_version_are_read(store: Store) -> None:
    """Field names on disk are those of the first version."""
    path = store.path / "margin" / "manifest.json"
    content = content_of(path)
    assert content["approximate"] == {"probes": 2, "lists": 4, "seed": 1, "sample": 2000}
    assert {"probes", "ef", "rerank"} <= set(content_of(store.path / "index" / "manifest.json"))
