"""A small store on disk, with index and margins, made without torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lacuna.datastore import Store, build_store
from lacuna.index import build_index
from lacuna.margin.storage import write_margins
from made_up import make_pairs
from unit.datastore.numpy_model import NumpyModel


@pytest.fixture
def unmeasured(tmp_path: Path) -> Store:
    """120 sentences in several shards, and an index."""
    made = build_store(NumpyModel(), make_pairs(120), tmp_path / "store", batch_tokens=64, shard_rows=300)
    build_index(made)
    return made


@pytest.fixture
def store(unmeasured: Store) -> Store:
    """Return a store whose margins are a rule: the number of the entry modulo 40."""
    write_margins(unmeasured, (np.arange(unmeasured.entries) % 40).astype(np.uint16), max_margin=2048)
    return unmeasured
