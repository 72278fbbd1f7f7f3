"""The optional column of weights: in all shards or in none, and verified like other columns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from forging import write_forged
from lacuna.datastore import Store, open_store, verify_store
from lacuna.datastore.columns import record_of
from lacuna.datastore.manifest import MANIFEST
from lacuna.errors import StoreError
from lacuna.pruning import Merge, prune_store


@pytest.fixture
def merged(store: Store, tmp_path: Path) -> Store:
    prune_store(store, Merge(), tmp_path / "merged", ratio=0.2)
    return open_store(tmp_path / "merged")


def test_a_store_that_was_not_merged_has_none(store: Store) -> None:
    assert store.weights is None
    assert not list(store.path.rglob("weights.npy"))


def test_weights_are_float32_and_cannot_be_changed(merged: Store) -> None:
    assert merged.weights is not None
    assert (merged.weights.dtype, merged.weights.shape) == (np.float32, (merged.entries,))
    assert not merged.weights.flags.writeable


def test_a_changed_byte_is_found(merged: Store) -> None:
    path = merged.path / "shards" / "00000" / "weights.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    assert [problem.split(":")[0] for problem in verify_store(merged.path).problems] == [str(path)]


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_numbers_that_are_no_weights_are_found_even_with_matching_hashes(wrong: float, merged: Store) -> None:
    path = merged.path / "shards" / "00000" / "weights.npy"
    weights = np.load(path)
    weights[0] = wrong
    np.save(path, weights)
    manifest = json.loads((merged.path / MANIFEST).read_text())
    manifest["shards"][0]["files"]["weights.npy"] = record_of(path).model_dump()
    write_forged(merged.path / MANIFEST, manifest)
    assert [problem.split(": ")[1] for problem in verify_store(merged.path).problems] == [
        "has weights that are not finite and above 0"
    ]


def test_weights_in_some_shards_only(merged: Store) -> None:
    (merged.path / "shards" / "00000" / "weights.npy").unlink()
    manifest = json.loads((merged.path / MANIFEST).read_text())
    del manifest["shards"][0]["files"]["weights.npy"]
    write_forged(merged.path / MANIFEST, manifest)
    shards = len(manifest["shards"])
    assert any(f"in {shards - 1} of {shards} shards" in problem for problem in verify_store(merged.path).problems)
    with pytest.raises(StoreError, match=r"weights\.npy"):
        _ = open_store(merged.path).weights
