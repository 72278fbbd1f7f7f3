"""A pool of Dask workers: order, errors, warnings, lost workers, and schedulers that cannot be used."""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cluster.dask_helpers import killing, worker_pids
from commands import Refuse
from lacuna.errors import ClusterError, LacunaWarning, StoreError
from lacuna.workers import AHEAD, dask_pool
from lacuna.workers.dask_pool import DaskPool, open_pool

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def pool() -> Iterator[DaskPool]:
    with open_pool(workers=2) as opened:
        yield opened


def square(item: int) -> int:
    time.sleep(0.01 * (item % 3))
    return item * item


def fail_at_three(item: int) -> int:
    if item == 3:
        raise StoreError("three: not allowed; use another number")
    if item == 4:
        raise ZeroDivisionError
    return item


def note(item: int) -> int:
    warnings.warn(f"item {item}", LacunaWarning, stacklevel=1)
    return item


def describe(item: int) -> tuple[int, int, int]:
    time.sleep(0.2)
    return item, os.getpid(), torch.get_num_threads()


def add_at(array: NDArray[np.float64], item: int) -> float:
    time.sleep(0.05)
    return float(array[item])


def die(item: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_results_come_in_order(pool: DaskPool) -> None:
    assert list(pool.map(square, range(30))) == [item * item for item in range(30)]


def test_no_items(pool: DaskPool) -> None:
    assert list(pool.map(square, [])) == []


def test_all_workers_take_part_with_one_thread_each(pool: DaskPool) -> None:
    found = list(pool.map(describe, range(12)))
    assert [item for item, _, _ in found] == list(range(12))
    assert {pid for _, pid, _ in found} == set(worker_pids(pool))
    assert {threads for _, _, threads in found} == {1}
    assert os.getpid() not in {pid for _, pid, _ in found}


def test_items_are_read_only_some_steps_ahead(pool: DaskPool) -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            read.append(item)
            yield item

    with closing(pool.map(square, items())) as results:
        assert next(results) == 0
        assert len(read) == AHEAD * 2


def test_the_error_of_a_task_is_raised_in_its_place(pool: DaskPool) -> None:
    results = pool.map(fail_at_three, range(10))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(StoreError, match="three: not allowed; use another number"):
        next(results)
    with pytest.raises(ZeroDivisionError):
        list(pool.map(fail_at_three, [4]))
    assert list(pool.map(square, range(3))) == [0, 1, 4]  # the pool is as good as before


def test_warnings_come_through(pool: DaskPool) -> None:
    with pytest.warns(LacunaWarning) as caught:
        assert list(pool.map(note, range(3))) == [0, 1, 2]
    assert [str(each.message) for each in caught] == ["item 0", "item 1", "item 2"]


def test_arrays_are_in_files_for_as_long_as_the_task_runs(pool: DaskPool, tmp_path: Path) -> None:
    array = np.arange(100_000.0)
    with closing(pool.map(partial(add_at, array), range(20), files=tmp_path)) as results:
        assert next(results) == 0
        assert [path.suffix for path in tmp_path.rglob("*.npy")] == [".npy"]
        assert list(results) == list(range(1, 20))
    assert list(tmp_path.iterdir()) == []


def test_killed_workers_lose_only_their_tasks() -> None:
    with open_pool(workers=2) as pool, killing(pool, kills=4) as killed:
        assert list(pool.map(add_to(), range(120))) == [item + 1 for item in range(120)]
        assert killed


def add_to() -> partial[float]:
    return partial(add_at, np.arange(1.0, 200.0))


def test_a_task_that_kills_every_worker_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_pool, "_ATTEMPTS", 1)
    with open_pool(workers=1) as pool, pytest.raises(ClusterError, match="a task has killed 4 workers"):
        list(pool.map(die, [1]))


def test_workers_that_do_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client, LocalCluster

    monkeypatch.setattr(dask_pool, "_SECONDS_WITHOUT_WORKERS", 3.0)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        results = DaskPool(client, "here").map(square, range(10**6))
        next(results)
        cluster.scale(0)
        with pytest.raises(ClusterError, match="here: all workers are gone in the middle of the work"):
            list(results)


class LostOnce:
    """The future of a task whose worker died after it had finished: it is computed again."""

    status = "lost"

    def __init__(self) -> None:
        self._lost = True

    def exception(self, timeout: float) -> None:
        return None

    def result(self, timeout: float) -> tuple[int, list[str]]:
        if self._lost:
            self._lost = False
            raise TimeoutError
        return 9, []


def test_a_result_that_is_lost_before_it_is_fetched() -> None:
    client = SimpleNamespace(status="running", nthreads=lambda: {"one": 1}, submit=lambda *_, **__: LostOnce())
    assert list(DaskPool(client, "here").map(square, [3])) == [9]


def test_a_scheduler_that_goes_away() -> None:
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None)
    with Client(cluster.scheduler_address, timeout=3, set_as_default=False) as client:
        results = DaskPool(client, "here").map(square, range(10**6))
        next(results)
        cluster.close()
        with pytest.raises(ClusterError, match="here: the scheduler is gone in the middle of the work"):
            list(results)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "c.tsv").write_text("ein Haus\ta house\nein Hund\ta dog\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Start a scheduler with one worker."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        yield cluster.scheduler_address


def refused(address: str, folder: Path, refuse: Refuse) -> str:
    return refuse(f"build c.tsv --into s --scheduler {address}".split(), folder).line


def test_no_scheduler(corpus: Path, refuse: Refuse) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        assert f"{address}: no Dask scheduler answers there" in refused(address, corpus, refuse)


def test_something_else_than_a_scheduler(corpus: Path, refuse: Refuse) -> None:
    with socket.socket() as other:  # it accepts connections, and says nothing
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        assert f"{address}: no Dask scheduler answers there" in refused(address, corpus, refuse)


def test_a_scheduler_without_workers(corpus: Path, refuse: Refuse) -> None:
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=None) as cluster:
        line = refused(cluster.scheduler_address, corpus, refuse)
    assert f"the scheduler has no workers; start some with: dask worker {cluster.scheduler_address}" in line


def test_workers_of_another_version(scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_pool, "__version__", "99.0")  # of this process
    with (
        pytest.raises(ClusterError, match=r"has Lacuna [0-9.]+\w*, not 99.0; install the same version"),
        open_pool(scheduler, writes=[tmp_path]),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_workers_do_not_see(scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(ClusterError, match=f"{tmp_path / 'no'}: the worker tcp://.* does not see this folder"),
        open_pool(scheduler, reads=[tmp_path / "no"]),
    ):
        pass
    touch = Path.touch
    monkeypatch.setattr(Path, "touch", lambda path: path.parent != tmp_path and touch(path))  # as if on another disk
    with (
        pytest.raises(ClusterError, match=f"^{tmp_path}: the worker tcp://.* does not see this folder"),
        open_pool(scheduler, writes=[tmp_path / "new" / "store"]),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_that_can_be_used(scheduler: str, tmp_path: Path) -> None:
    with open_pool(scheduler, reads=[tmp_path], writes=[tmp_path]) as pool:
        assert list(pool.map(square, range(5))) == [0, 1, 4, 9, 16]
        assert pool.workers == 1
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_python_calls_in_between_can_swallow_an_interrupt() -> None:
    with open_pool(workers=1) as pool:
        assert list(pool.map(square, [1, 2])) == [1, 4]
        assert not [each for each in gc.callbacks if "distributed" in repr(each)]
