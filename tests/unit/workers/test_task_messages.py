"""Tasks that are sent to another process: small messages, arrays in files, objects that are opened again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lacuna.workers import task_messages
from lacuna.workers.task_messages import forget_tasks, open_task, pack_task

LARGE = np.arange(100_000, dtype=np.float32)


@pytest.fixture(autouse=True)
def _nothing_open() -> None:
    forget_tasks()


def pick(array: NDArray[Any] | torch.Tensor, place: int) -> float:
    return float(array[place])


def received(task: Callable[[int], float], files: Path | None) -> tuple[bytes, Any]:
    message = pack_task(task, files)
    return message, open_task(message)


def test_a_large_array_is_in_a_file_and_not_in_the_message(tmp_path: Path) -> None:
    message, task = received(partial(pick, LARGE), tmp_path)
    assert len(message) < 1000
    assert [path.stat().st_size >= LARGE.nbytes for path in tmp_path.iterdir()] == [True]
    assert task(7) == 7
    assert np.array_equal(task.args[0], LARGE)


def test_without_a_folder_all_is_in_the_message() -> None:
    message, task = received(partial(pick, LARGE), None)
    assert len(message) > LARGE.nbytes
    assert task(99_999) == 99_999


def test_a_tensor_stays_a_tensor(tmp_path: Path) -> None:
    message, task = received(partial(pick, torch.from_numpy(LARGE)), tmp_path)
    assert len(message) < 1000
    assert isinstance(task.args[0], torch.Tensor)
    task.args[0][0] = 5  # changes neither the file nor what others see
    assert open_task(pack_task(partial(pick, torch.from_numpy(LARGE)), tmp_path))(0) == 0


def test_an_array_that_occurs_twice_is_written_once(tmp_path: Path) -> None:
    received(partial(max, LARGE, LARGE), tmp_path)  # type: ignore[arg-type]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("part", [slice(None), slice(10, None), slice(3, 90_000)])
def test_a_mapped_array_is_named_by_its_file(part: slice, tmp_path: Path) -> None:
    np.save(tmp_path / "column.npy", LARGE)
    mapped = np.load(tmp_path / "column.npy", mmap_mode="r")
    message, task = received(partial(pick, mapped.view(np.ndarray)[part]), tmp_path)
    assert b"column.npy" in message
    assert [path.name for path in tmp_path.iterdir()] == ["column.npy"]
    assert np.array_equal(task.args[0], LARGE[part])


def test_a_strided_part_of_a_mapped_array_is_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "column.npy", LARGE)
    mapped = np.load(tmp_path / "column.npy", mmap_mode="r")
    message, task = received(partial(pick, mapped.view(np.ndarray)[::2]), tmp_path)
    assert b"column.npy" not in message
    assert np.array_equal(task.args[0], LARGE[::2])


@dataclass
class Opened:
    place: str
    times: int = 0

    def reopening(self) -> tuple[Callable[[str], Opened], tuple[str]]:
        return reopen, (self.place,)

    def find(self, item: int) -> str:
        return f"{self.place}:{item}:{self.times}"


def reopen(place: str) -> Opened:
    return Opened(place, times=1)


def test_an_object_with_files_is_opened_again_and_once() -> None:
    message = pack_task(Opened("here").find, None)
    assert open_task(message)(4) == "here:4:1"
    assert open_task(message) is open_task(message)


def test_only_the_last_tasks_stay_open() -> None:
    first = pack_task(Opened("first").find, None)
    task = open_task(first)
    for name in ("second", "third"):
        open_task(pack_task(Opened(name).find, None))
    assert open_task(first) is not task


def test_a_message_that_is_too_large_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_messages, "_MAX_MESSAGE", 1000)
    with pytest.raises(ValueError, match="large arrays belong into files"):
        pack_task(partial(pick, LARGE), None)
