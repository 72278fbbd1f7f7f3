"""Workers: every task is done once, with one thread, results are in order, and nothing is left changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import faiss
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lacuna.workers import AHEAD, WorkerPool, one_thread, use_threads


@pytest.fixture(autouse=True, scope="module")
def _three_threads() -> Iterator[None]:
    before = torch.get_num_threads(), faiss.omp_get_max_threads()
    use_threads(3)
    yield
    assert torch.get_num_threads() == 3
    torch.set_num_threads(before[0])
    faiss.omp_set_num_threads(before[1])


def running_workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lacuna-worker")]


@given(items=st.lists(st.integers(), max_size=40), workers=st.integers(1, 5))
def test_results_come_in_the_order_of_the_items(items: list[int], workers: int) -> None:
    def task(item: int) -> int:
        time.sleep(0.0002 * (item % 3))
        return item * item

    assert list(WorkerPool(workers).map(task, items)) == [item * item for item in items]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_task_runs_with_one_thread(workers: int) -> None:
    def task(item: int) -> tuple[str, int, int]:
        return threading.current_thread().name, torch.get_num_threads(), faiss.omp_get_max_threads()

    names, *threads = zip(*WorkerPool(workers).map(task, range(12)), strict=True)
    assert set(threads[0]) == set(threads[1]) == {1}
    assert len(set(names)) <= workers
    assert (threading.current_thread().name in names) == (workers == 1)
    assert (torch.get_num_threads(), faiss.omp_get_max_threads()) == (3, 3)


def test_several_workers_run_side_by_side() -> None:
    both = threading.Barrier(2)
    list(WorkerPool(2).map(lambda item: both.wait(20), range(2)))  # no thread passes it alone


def test_a_pool_in_a_task_is_one_worker() -> None:
    assert WorkerPool.of_process().workers == 3
    assert WorkerPool.of_process(torch.device("meta")).workers == 1
    assert set(WorkerPool(2).map(lambda item: WorkerPool.of_process().workers, range(4))) == {1}


def test_the_bytes_of_a_product_do_not_depend_on_the_number_of_workers() -> None:
    left, right = torch.randn(300, 517), torch.randn(517, 200)
    found = {
        product.numpy().tobytes()
        for workers in (1, 2, 3)
        for product in WorkerPool(workers).map(lambda _: left @ right, range(3))
    }
    assert len(found) == 1


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_only_a_few_items_are_read_ahead(workers: int) -> None:
    read = 0

    def items() -> Iterator[int]:
        nonlocal read
        for item in range(100):
            read += 1
            yield item

    for taken, _ in enumerate(WorkerPool(workers).map(lambda item: item, items()), start=1):
        assert read - taken < AHEAD * workers


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_takes_the_place_of_its_result(workers: int) -> None:
    def task(item: int) -> int:
        if item >= 5:
            raise ValueError(f"item {item}")
        return item

    results = WorkerPool(workers).map(task, range(50))
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="item 5"):
        next(results)
    assert not running_workers()


def test_an_error_of_the_items_is_raised() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("unreadable")

    with pytest.raises(OSError, match="unreadable"):
        list(WorkerPool(2).map(lambda item: item, items()))


@pytest.mark.parametrize("workers", [1, 2])
def test_closing_stops_the_tasks_that_wait(workers: int) -> None:
    done: list[int] = []
    with closing(WorkerPool(workers).map(done.append, range(1000))) as results:
        next(results)
    assert len(done) <= AHEAD * workers
    assert not running_workers()


def test_an_interruption_ends_the_threads() -> None:
    def interrupted() -> None:
        with closing(WorkerPool(2).map(lambda item: item, range(1000))) as results:
            for result in results:
                if result == 3:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not running_workers()


def test_one_thread_is_restored_after_an_error() -> None:
    @one_thread()
    def wrong() -> None:
        assert (torch.get_num_threads(), faiss.omp_get_max_threads()) == (1, 1)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        wrong()
    assert (torch.get_num_threads(), faiss.omp_get_max_threads()) == (3, 3)


def test_a_stream_yields_everything_once() -> None:
    both = threading.Barrier(2)

    def work(item: int) -> Iterator[tuple[int, int]]:
        if item < 2:
            both.wait(20)  # no thread passes it alone
        yield item, torch.get_num_threads()

    assert sorted(WorkerPool(2).stream(work, range(9), threading.Event())) == [(item, 1) for item in range(9)]


def test_a_stream_of_one_worker_is_the_calling_thread() -> None:
    names = list(
        WorkerPool().stream(lambda item: iter([threading.current_thread().name]), [1, 2, 3], threading.Event())
    )
    assert names == [threading.current_thread().name] * 3


def test_a_stream_raises_the_error_of_a_worker() -> None:
    def work(item: int) -> Iterator[int]:
        if item == 3:
            raise ValueError("the third")
        yield item

    with pytest.raises(ValueError, match="the third"):
        list(WorkerPool(2).stream(work, range(20), threading.Event()))
