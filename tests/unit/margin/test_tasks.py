"""Tasks resume from the results that were saved, and only from those."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from lacuna.margin.tasks import SavedState, TaskRunner
from lacuna.workers import WorkerPool


@dataclass(frozen=True, eq=False)
class Sums:
    sums: NDArray[np.int64]

    def add(self, entries: NDArray[np.int64], part: Sums) -> None:
        self.sums[entries] += part.sums


class Squares:
    """Five tasks of one entry each; the task ``fails`` raises an error."""

    unit: ClassVar[str] = "entries"
    sizes = (1,) * 5

    def __init__(self, fails: int | None = None) -> None:
        self.fails, self.ran = fails, list[int]()

    def run(self, number: int) -> tuple[NDArray[np.int64], Sums]:
        if number == self.fails:
            raise KeyboardInterrupt
        self.ran.append(number)
        return np.array([number]), Sums(np.array([number**2]))


def run(folder: Path, squares: Squares, name: str = "all entries", identity: str = "store") -> list[int]:
    runner = TaskRunner(WorkerPool(1), state=SavedState(folder, identity))
    return list(runner.run(name, lambda: squares, Sums(np.zeros(5, np.int64))).sums.tolist())


@pytest.fixture(autouse=True)
def save_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lacuna.margin.tasks.SECONDS_BETWEEN_SAVES", 0.0)


def test_what_is_done_is_not_run_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, Squares(fails=3))
    resumed, finished = Squares(), Squares()
    assert run(tmp_path, resumed) == run(tmp_path, finished) == [0, 1, 4, 9, 16]
    assert (resumed.ran, finished.ran) == ([3, 4], [])


def test_a_state_of_other_settings_is_deleted(tmp_path: Path) -> None:
    run(tmp_path, Squares())
    other = Squares()
    assert run(tmp_path, other, identity="another store") == [0, 1, 4, 9, 16]
    assert len(other.ran) == 5


def test_finished_results_are_saved_with_later_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = SavedState(tmp_path, "store")
    monkeypatch.setattr("lacuna.margin.tasks.SECONDS_BETWEEN_SAVES", 1e9)
    state.put("near lists", {"sums": np.arange(3)})
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("lacuna.margin.tasks.SECONDS_BETWEEN_SAVES", 0.0)
    state.put("all entries", {"sums": np.arange(2)})
    opened = SavedState(tmp_path, "store")
    saved = [opened.load(name) for name in ("near lists", "all entries", "known entries again")]
    assert [None if arrays is None else arrays["sums"].tolist() for arrays in saved] == [[0, 1, 2], [0, 1], None]
