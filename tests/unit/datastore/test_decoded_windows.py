"""Windows that workers of a pool decode and write: the same store, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from lacuna.datastore import build_store, verify_store
from lacuna.datastore.building import UNFINISHED
from lacuna.errors import StoreError
from lacuna.workers import WorkerPool
from made_up import make_pairs
from unit.datastore.numpy_model import NumpyModel

SIZES = {"batch_tokens": 64, "shard_rows": 50}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TwicePool:
    """Does every task twice, as Dask does if a worker seems to be lost."""

    workers = 1

    def map(
        self, task: Callable[[Any], Any], items: Iterable[Any], *, files: Path | None = None
    ) -> Generator[Any, None, None]:
        for item in items:
            task(item)
            yield task(item)


class FailingPool(WorkerPool):
    """Loses its workers after some tasks."""

    def map(
        self, task: Callable[[Any], Any], items: Iterable[Any], *, files: Path | None = None
    ) -> Generator[Any, None, None]:
        for number, item in enumerate(items):
            if number == 3:
                task(item)  # written, but never reported
                raise StoreError("all workers are gone")
            yield task(item)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("plain") / "store"
    build_store(NumpyModel(), make_pairs(60), folder, **SIZES)
    return contents(folder)


@pytest.mark.parametrize("pool", [WorkerPool(), WorkerPool(3), TwicePool()], ids=["one", "three", "twice"])
def test_the_same_store(pool: Any, plain: dict[str, bytes], tmp_path: Path) -> None:
    build_store(NumpyModel(), make_pairs(60), tmp_path / "store", pool=pool, **SIZES)
    assert contents(tmp_path / "store") == plain
    assert verify_store(tmp_path / "store").sound


@pytest.mark.parametrize("pool", [None, WorkerPool(2)], ids=["without a pool", "with a pool"])
def test_a_lost_pool_leaves_a_build_that_resumes(pool: Any, plain: dict[str, bytes], tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="all workers are gone"):
        build_store(NumpyModel(), make_pairs(60), tmp_path / "store", pool=FailingPool(), **SIZES)
    assert (tmp_path / "store" / UNFINISHED).is_file()
    model = NumpyModel()
    build_store(model, make_pairs(60), tmp_path / "store", pool=pool, **SIZES)
    assert contents(tmp_path / "store") == plain
    whole = NumpyModel()
    build_store(whole, make_pairs(60), tmp_path / "other", **SIZES)
    assert len(model.batches) < len(whole.batches)


def test_a_worker_of_an_earlier_run_writes_nothing_into_a_finished_store(tmp_path: Path) -> None:
    late: list[Callable[[], object]] = []

    class Remembering(WorkerPool):
        def map(
            self, task: Callable[[Any], Any], items: Iterable[Any], *, files: Path | None = None
        ) -> Generator[Any, None, None]:
            for item in items:
                late.append(lambda item=item: task(item))  # type: ignore[misc]
                yield task(item)

    build_store(NumpyModel(), make_pairs(20), tmp_path / "store", pool=Remembering(), **SIZES)
    before = contents(tmp_path / "store")
    with pytest.raises(StoreError, match="cannot be written"):
        late[0]()
    assert contents(tmp_path / "store") == before
