"""What is written comes back: keys by any ids, columns, sentences."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.datastore import Keys, Store, build_store, open_store
from lacuna.datastore.columns import line_to_pair, pair_to_line
from lacuna.records import Origin, SentencePair
from unit.datastore.numpy_model import NumpyModel

TEXT = st.text(max_size=20)
PAIRS = st.lists(
    st.builds(SentencePair, TEXT, TEXT, st.builds(Origin, TEXT, TEXT, st.none() | TEXT)), min_size=1, max_size=30
)
SHARD_ROWS = st.lists(st.integers(0, 6), min_size=1, max_size=6).filter(any)


def keys_of(rows: list[int]) -> tuple[Keys, np.ndarray]:
    whole = np.arange(sum(rows) * 3, dtype=np.float16).reshape(-1, 3)
    return Keys(np.split(whole, np.cumsum(rows)[:-1]), 3), whole


@given(SHARD_ROWS, st.data())
def test_gather_is_indexing_of_the_whole(rows: list[int], data: st.DataObject) -> None:
    keys, whole = keys_of(rows)
    ids = np.array(data.draw(st.lists(st.integers(0, sum(rows) - 1), max_size=20)), dtype=np.int64)
    assert keys.rows == len(whole)
    assert np.array_equal(keys.gather(ids), whole[ids])


@given(SHARD_ROWS, st.integers(1, 9))
def test_blocks_cover_all_rows_once_and_in_order(rows: list[int], size: int) -> None:
    keys, whole = keys_of(rows)
    blocks = list(keys.blocks(size))
    assert all(1 <= len(block) <= size for _, block in blocks)
    assert [first for first, _ in blocks] == [0, *np.cumsum([len(block) for _, block in blocks])[:-1].tolist()]
    assert np.array_equal(np.concatenate([block for _, block in blocks]), whole)


@pytest.mark.parametrize("ids", [[-1], [0, 5], [2**40]])
def test_ids_outside_the_store(ids: list[int]) -> None:
    with pytest.raises(IndexError, match="entries 0 to 4"):
        keys_of([2, 3])[0].gather(np.array(ids))


@given(st.builds(SentencePair, TEXT, TEXT, st.builds(Origin, TEXT, TEXT, st.none() | TEXT)))
def test_a_pair_comes_back_from_its_line(pair: SentencePair) -> None:
    line = pair_to_line(pair)
    assert line.count(b"\n") == 1
    assert line_to_pair(line) == pair


def test_a_lone_surrogate_comes_back() -> None:
    pair = SentencePair("\ud800", "x", Origin("f", "1"))
    assert line_to_pair(pair_to_line(pair)) == pair


@settings(max_examples=25, deadline=None)
@given(PAIRS, st.integers(1, 40))
def test_saved_and_opened_is_the_same(pairs: list[SentencePair], shard_rows: int) -> None:
    with TemporaryDirectory() as place:
        model = NumpyModel()
        store = build_store(model, pairs, Path(place) / "store", cleaning=None, shard_rows=shard_rows)
        targets = model.encode_targets([pair.target for pair in pairs])
        assert list(store.sentences) == pairs
        assert store.values.tolist() == [token for target in targets for token in target]
        keys = store.keys.gather(np.arange(store.entries))
        assert keys[:, 2].tolist() == store.values.tolist()
        assert keys[:, 1].tolist() == store.position.tolist()


def test_columns_have_their_types_and_cannot_be_changed(small_store: Store) -> None:
    types = {"values": "i4", "predictions": "i4", "known": "?", "log_p_gold": "f4", "entropy": "f4"}
    for name, dtype in (types | {"sentence": "i4", "position": "i4"}).items():
        column = getattr(small_store, name)
        assert column.shape == (small_store.entries,)
        assert column.dtype == np.dtype(dtype)
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0
    assert small_store.mean.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        small_store.mean[0] = 0


def test_the_known_ratio_is_that_of_the_rule(small_store: Store) -> None:
    assert small_store.known.mean() == (small_store.values % 3 == 0).mean()


def test_sentence_ids_outside_the_table(small_store: Store) -> None:
    assert len(small_store.sentences) == 120
    for sentence in (-1, 120):
        with pytest.raises(IndexError, match="0 to 119"):
            small_store.sentences[sentence]


def test_the_fingerprint_is_that_of_the_content(small_store: Store) -> None:
    assert open_store(str(small_store.path)).fingerprint == small_store.fingerprint
    assert len(small_store.fingerprint) == 64
