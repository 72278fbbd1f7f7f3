"""Margins found through memories follow the one definition of the margin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from lacuna.index import ExactIndex
from lacuna.margin import margin_of
from lacuna.memory import FolderMemory
from lacuna.translator.knowledge import known_margins
from lacuna.translator.retrieval import find_neighbors
from unit.margin.stores import make_store


def test_at_equal_distance_unknown_neighbors_come_first(tmp_path: Path) -> None:
    # The query 0 has a known neighbor at distance 0.25, and a known and an unknown one at distance 1.
    keys = np.array([[0.5], [1.0], [-1.0], [4.0]], np.float16)
    store = make_store(tmp_path / "store", keys, np.array([True, True, False, True]))
    queries = torch.tensor([[0.0], [4.0], [-1.0]])
    memories = [FolderMemory.of(store, "memory", ExactIndex(store))]
    found = find_neighbors(memories, queries, 4)
    assert found.entries[0].tolist() == [0, 1, 2, 3]  # by id, the known one would come first
    assert known_margins(memories, found).tolist() == [1, 3, 0]
    assert margin_of(store, queries.numpy()).tolist() == [1, 3, 0]


def test_missing_neighbors_are_not_counted(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", np.array([[1.0], [2.0]], np.float16), np.array([True, True]))
    memories = [FolderMemory.of(store, "memory", ExactIndex(store))]
    assert known_margins(memories, find_neighbors(memories, torch.zeros(1, 1), 5)).tolist() == [2]
