"""Entries one by one, against the columns they come from."""

from pathlib import Path

import numpy as np
import pytest

from lacuna.datastore import Store, build_store, entries_of
from lacuna.errors import SettingError
from made_up import make_pairs
from unit.datastore.numpy_model import NumpyModel

PAIRS = make_pairs(20)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return build_store(NumpyModel(), PAIRS, tmp_path / "store", batch_tokens=64, shard_rows=50)


def test_the_entries_of_a_sentence(store: Store) -> None:
    margins = np.arange(store.entries, dtype=np.uint16)
    entries = entries_of(store, sentence=7, margins=margins)
    assert [entry.position for entry in entries] == list(range(len(entries)))
    assert {entry.pair for entry in entries} == {PAIRS[7]}
    first = int(np.flatnonzero(store.sentence == 7)[0])
    assert [entry.entry for entry in entries] == list(range(first, first + len(entries)))
    assert [entry.margin for entry in entries] == [entry.entry for entry in entries]
    for entry in entries:
        assert entry.known == (entry.value == entry.prediction)
        assert entry.p_gold == pytest.approx(np.exp(store.log_p_gold[entry.entry]))


def test_the_entries_of_a_token(store: Store) -> None:
    token = int(store.values[0])
    expected = [row for row in range(store.entries) if store.values[row] == token]
    assert [entry.entry for entry in entries_of(store, token=token, limit=10**6)] == expected
    assert [entry.entry for entry in entries_of(store, token=token, limit=2)] == expected[:2]
    both = entries_of(store, token=token, sentence=int(store.sentence[0]))
    assert {(entry.value, entry.sentence) for entry in both} == {(token, int(store.sentence[0]))}
    assert both[0].margin is None


@pytest.mark.parametrize(
    ("asked", "says"),
    [({}, "got neither"), ({"sentence": 20}, "sentences 0 to 19"), ({"token": 1, "limit": 0}, "limit: got 0")],
)
def test_what_cannot_be_listed(store: Store, asked: dict[str, int], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        entries_of(store, **asked)
