"""Fixtures: the tiny models, and a small finished store made without torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from lacuna.datastore import Store, build_store
from made_up import make_pairs
from unit.datastore.numpy_model import NumpyModel


@pytest.fixture
def small_store(tmp_path: Path) -> Store:
    """120 sentences in several shards."""
    return build_store(
        NumpyModel(), make_pairs(120), tmp_path / "store", cleaning=None, batch_tokens=64, shard_rows=300
    )
