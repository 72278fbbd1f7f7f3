from pathlib import Path

import numpy as np
import pytest

from lacuna.errors import IndexingError
from lacuna.index import ExactIndex, Neighborhood, build_index, measure_recall, open_index

from .fakes import FakeStore, clustered

KEYS, QUERIES = clustered(2000, 16)


class Stub:
    """Returns fixed ids."""

    kind = "stub"

    def __init__(self, ids: list[list[int]], size: int) -> None:
        self.ids, self.size = np.array(ids, np.int64), size

    def search(self, queries: np.ndarray, k: int) -> Neighborhood:
        ids = self.ids[: len(queries), :k]
        return Neighborhood(np.zeros(ids.shape, np.float32), ids)


@pytest.fixture
def line(tmp_path: Path) -> FakeStore:
    """Keys 0 1 2 3 4 5 on a line, with 1 twice."""
    return FakeStore(tmp_path / "line", np.array([[0], [1], [2], [3], [4], [1]], np.float16))


def test_by_hand(line: FakeStore) -> None:
    asked = np.array([[0.0], [4.0]], np.float32)  # the truth: 0 1 5 | 4 3 2
    report = measure_recall(line, Stub([[0, 5, 3], [4, 0, -1]], 6), [1, 2, 3], queries=asked)
    # 5 is as near as 1, so both count; -1 counts as nothing.
    assert [one.recall for one in report.results] == [1.0, 0.75, 0.5]
    assert [one.complete for one in report.results] == [1.0, 0.5, 0.0]


def test_the_entry_itself_is_left_out_by_id(line: FakeStore) -> None:
    everything = [[0, 1, 5], [1, 5, 0], [2, 1, 3], [3, 2, 4], [4, 3, 2], [1, 5, 0]]
    assert measure_recall(line, Stub(everything, 6), 2).results[0].recall == 1.0
    # Only itself and one other: half of the two neighbors.
    lazy = [[number, (number + 1) % 6, -1] for number in (0, 1, 2, 3, 4)] + [[5, 1, -1]]
    assert measure_recall(line, Stub(lazy, 6), 2).results[0].recall <= 0.5


def test_exact_search_finds_everything(tmp_path: Path) -> None:
    store = FakeStore(tmp_path / "s", KEYS)
    report = measure_recall(store, ExactIndex(store), [8, 64], sample=100)
    assert [(one.k, one.recall, one.complete, one.distance_error) for one in report.results] == [
        (8, 1.0, 1.0, 0.0),
        (64, 1.0, 1.0, 0.0),
    ]
    assert report.queries == 100


def test_codes_lose_and_reranking_wins_back(tmp_path: Path) -> None:
    store = FakeStore(tmp_path / "s", KEYS)
    build_index(store, "IVF16,PQ4")
    plain = measure_recall(store, open_index(store), 8, sample=200).results[0]
    better = measure_recall(store, open_index(store, rerank=16), 8, sample=200).results[0]
    assert plain.recall < better.recall
    assert plain.distance_error > 0.01
    assert better.distance_error == 0
    assert measure_recall(store, open_index(store), 8, sample=200).results[0] == plain


@pytest.mark.parametrize("k", [0, 6, [2, 7], []])
def test_a_k_that_cannot_be_measured(line: FakeStore, k: int | list[int]) -> None:
    with pytest.raises(IndexingError, match=r"1 to 5|nothing to measure"):
        measure_recall(line, ExactIndex(line), k)


def test_nothing_to_measure(tmp_path: Path) -> None:
    empty = FakeStore(tmp_path / "e", np.zeros((0, 4), np.float16))
    with pytest.raises(IndexingError, match="nothing to measure"):
        measure_recall(empty, ExactIndex(empty), 1)
    with pytest.raises(IndexingError, match="sample: got 0"):
        measure_recall(empty, ExactIndex(empty), 1, sample=0)
