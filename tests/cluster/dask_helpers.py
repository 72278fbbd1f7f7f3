"""What the tests with Dask share: killing workers, and comparing folders."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lacuna.artifacts.files import sha256_of
from lacuna.workers.dask_pool import DaskPool


def hashes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): sha256_of(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def worker_pids(pool: DaskPool) -> list[int]:
    return list(pool._client.run(os.getpid).values())


@contextmanager
def killing(pool: DaskPool, kills: int, seed: int = 1) -> Iterator[list[int]]:
    """Kill random workers at random moments while the block runs; yield the list of those that were killed."""
    rng, done, killed = random.Random(seed), threading.Event(), list[int]()

    def kill() -> None:
        while len(killed) < kills and not done.wait(rng.uniform(0.05, 1.0)):
            with suppress(Exception):  # a worker that is just being started again
                pid = rng.choice(worker_pids(pool))
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        done.set()
        thread.join()
