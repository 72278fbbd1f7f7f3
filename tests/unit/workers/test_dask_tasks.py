"""What a Dask worker runs, and what is refused before any cluster is asked. None of this needs Dask."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from commands import Refuse
from lacuna.errors import ClusterError, LacunaWarning, MissingExtra, SettingError
from lacuna.version import __version__
from lacuna.workers import dask_pool
from lacuna.workers.dask_pool import _without_interrupts, look_around, open_pool, run_task
from lacuna.workers.task_messages import pack_task

pytestmark = pytest.mark.posix

INTERRUPTED = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"  # as a worker is while it starts


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    with warnings.catch_warnings():
        yield


def threads(item: int) -> tuple[int, int]:
    return item, torch.get_num_threads()


def warn(item: int) -> int:
    warnings.warn(f"number {item}", LacunaWarning, stacklevel=1)
    warnings.warn("of some library", UserWarning, stacklevel=1)
    return item


def test_a_task_runs_with_one_thread() -> None:
    assert run_task(pack_task(threads, None), __version__, 3) == ((3, 1), [])


def test_our_own_warnings_are_part_of_the_result() -> None:
    message = pack_task(warn, None)
    assert run_task(message, __version__, 1) == (1, ["number 1"])
    assert run_task(message, __version__, 2) == (2, ["number 2"])


def test_warnings_of_threads_are_kept_apart() -> None:
    found: dict[int, Any] = {}
    message = pack_task(warn, None)

    def run(item: int) -> None:
        found[item] = run_task(message, __version__, item)

    started = [threading.Thread(target=run, args=(item,)) for item in range(8)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert found == {item: (item, [f"number {item}"]) for item in range(8)}


def test_a_worker_of_another_version_refuses_a_task() -> None:
    with pytest.raises(ClusterError, match=f"has Lacuna {__version__}, not 0.0.1"):
        run_task(pack_task(threads, None), "0.0.1", 3)


def test_what_a_worker_does_not_see(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    assert look_around([str(tmp_path)], [str(mark)]) == (__version__, [])
    gone = [str(tmp_path / "a"), str(tmp_path / "b" / "mark")]
    assert look_around(gone[:1], gone[1:]) == (__version__, gone)


@pytest.mark.parametrize("given", [{}, {"scheduler": "tcp://a:1", "workers": 1}])
def test_a_pool_is_one_or_the_other(given: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="exactly one"), open_pool(**given):
        pass


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def failing(name: str, *rest: Any) -> Any:
        if name == "distributed":
            raise ModuleNotFoundError("No module named 'distributed'", name="distributed")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", failing)
    with pytest.raises(MissingExtra, match=r"lacuna-mt\[cluster\]"), open_pool(workers=1):
        pass


REFUSED = {
    "both": ("--scheduler tcp://host:8786 --workers 2", "exactly one"),
    "no workers": ("--workers 0", "--workers: got 0; allowed is 1 or more"),
    "fewer": ("--workers -1", "--workers: got -1; allowed is 1 or more"),
    "no port": ("--scheduler tcp://host", "got 'tcp://host'; an address such as tcp://host:8786 is needed"),
    "no protocol": ("--scheduler host:8786", "an address such as tcp://host:8786 is needed"),
    "other protocol": ("--scheduler http://host:8786", "an address such as tcp://host:8786 is needed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_options_are_refused(case: str, tmp_path: Path, refuse: Refuse) -> None:
    options, says = REFUSED[case]
    (tmp_path / "c.tsv").write_text("ein Haus\ta house\nein Hund\ta dog\n", encoding="utf-8")
    assert says in refuse(f"build c.tsv --into s {options}".split(), tmp_path).line


def test_workers_of_an_index_need_something_to_do(tmp_path: Path, refuse: Refuse) -> None:
    from unit.margin.stores import clustered, make_store

    make_store(tmp_path / "s", *clustered(50, 4, 0.5))
    assert "only --recall" in refuse(["index", "s", "--workers", "2"], tmp_path).line


def test_the_task_of_a_pool_is_small() -> None:
    assert len(pack_task(partial(dask_pool.look_around, []), None)) < 200


def test_an_interrupt_is_held_back_while_a_cluster_starts() -> None:
    done: list[object] = []

    def start() -> None:
        with _without_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("started")
            done.append(subprocess.run([sys.executable, "-c", INTERRUPTED], check=False).returncode)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done == ["started", 0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_an_error_while_a_cluster_starts_is_raised() -> None:
    with pytest.raises(ValueError, match="an error"), _without_interrupts():
        raise ValueError("an error")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
