"""A pool of Dask workers: the same ordered ``map`` as worker threads have, over processes on one or more machines.

Workers see the same files under the same names; a task and its results are sent, everything large is read from files. A
task that was lost with its worker is computed again by another one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from threading import current_thread, local, main_thread
from typing import Any, NamedTuple

from lacuna.errors import ClusterError, LacunaWarning, SettingError, needs_extra
from lacuna.version import __version__
from lacuna.workers.pool import AHEAD, Item, Result
from lacuna.workers.task_messages import forget_tasks, open_task, pack_task
from lacuna.workers.threads import keep_freed_memory, one_thread

_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://(\[[^\]]+\]|[^\[\]:/]+):[0-9]+")
_SECONDS_TO_CONNECT = 5
# A worker process that was killed is there again after a few seconds.
_SECONDS_WITHOUT_WORKERS = 60.0
_SECONDS_BETWEEN_CHECKS = 2.0
# Dask gives a task up once four workers have died with it, whoever is to blame. It is given to Dask again this often:
# enough for machines that come and go, and an end for a task that kills every worker.
_ATTEMPTS = 8
# Ctrl-C in a terminal reaches the processes of local workers, too. The command ends them itself.
_IGNORE_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
_NOISY = ("distributed", "tornado", "asyncio", "bokeh")


class _Running(NamedTuple):
    """An item, its future, and how often it was given to Dask."""

    item: Any
    future: Any
    attempts: int


class DaskPool:
    """Workers of a Dask cluster.

    :param client: A ``distributed.Client``.
    :param name: The scheduler, for messages.
    :param restart: Called now and then to start workers again that were lost.
    """

    def __init__(self, client: Any, name: str, restart: Callable[[], None] = lambda: None) -> None:  # noqa: ANN401
        self._client, self._name, self._restart = client, name, restart
        self._count, self._counted = 0, -1.0
        self._last_seen = time.monotonic()

    @property
    def workers(self) -> int:
        """Number of threads of all workers, at least 1: each computes a task."""
        if time.monotonic() - self._counted > _SECONDS_BETWEEN_CHECKS:
            self._count, self._counted = self._threads(), time.monotonic()
        return max(1, self._count)

    def map(
        self, task: Callable[[Item], Result], items: Iterable[Item], *, files: Path | None = None
    ) -> Generator[Result, None, None]:
        """Compute all items in the workers, and yield the results in the order of the items.

        :data:`~lacuna.workers.AHEAD` items for each worker are read before their results are taken. The error of a task
        is raised in place of its result. Close the generator to stop early.

        :param files: As in :class:`~lacuna.workers.Pool`.
        :raises ClusterError: The scheduler or all of its workers are gone.
        """
        running: deque[_Running] = deque()
        with ExitStack() as stack:
            folder = None if files is None else stack.enter_context(self._arrays(files))
            message = pack_task(task, folder)
            stack.callback(self._cancel, running)
            for item in items:
                running.append(self._submit(message, item))
                if len(running) >= AHEAD * self.workers:
                    yield self._next(message, running)
            while running:
                yield self._next(message, running)

    def check(self, reads: Sequence[Path], writes: Sequence[Path]) -> None:
        """Check that every worker has this version of Lacuna and sees the same folders.

        :param reads: Folders that tasks read.
        :param writes: Existing folders that tasks write into.
        """
        mark = f".lacuna-{uuid.uuid4().hex}.tmp"
        places = [folder.resolve() for folder in writes]
        try:
            for folder in places:
                (folder / mark).touch()
            seen = [str(folder.resolve()) for folder in reads]  # a worker has another working folder
            reports = self._client.run(look_around, seen, [str(each / mark) for each in places])
        except OSError as error:
            where, why = error.filename or self._name, error.strerror or error
            raise ClusterError(f"{where}: {why}; fix that, then run the same command") from error
        except Exception as error:  # whatever a worker raises that cannot even import this module
            raise ClusterError(
                f"{self._name}: a worker cannot run tasks ({type(error).__name__}: {error}); "
                f'install "lacuna-mt[cluster]" {__version__} for it'
            ) from error
        finally:
            for folder in places:
                (folder / mark).unlink(missing_ok=True)
        for worker, (version, missing) in reports.items():
            if version != __version__:
                raise _other_version(worker, version, __version__)
            if missing:
                raise ClusterError(
                    f"{Path(missing[0]).parent if Path(missing[0]).name == mark else missing[0]}: the worker {worker} "
                    "does not see this folder, or cannot write there; share it under the same name on all machines"
                )

    @contextmanager
    def _arrays(self, files: Path) -> Iterator[Path]:
        """Make a folder for the arrays of a task, and remove it."""
        folder = files / uuid.uuid4().hex
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            with suppress(Exception):  # a file that a worker has open cannot be removed from every file system
                self._client.run(forget_tasks)
            shutil.rmtree(folder, ignore_errors=True)

    def _submit(self, message: bytes, item: Any, attempts: int = 1) -> _Running:  # noqa: ANN401 - any item
        return _Running(item, self._client.submit(run_task, message, __version__, item, pure=False), attempts)

    def _next(self, message: bytes, running: deque[_Running]) -> Any:  # noqa: ANN401 - any result
        """Wait for the result of the first task in the queue, and remove it."""
        from distributed import KilledWorker

        while True:
            first = running[0]
            try:
                result, notes = self._result(first.future)
            except KilledWorker as error:
                running.popleft()
                if first.attempts == _ATTEMPTS:
                    raise ClusterError(
                        f"{self._name}: a task has killed {4 * _ATTEMPTS} workers, memory may be short; see their "
                        "logs, then run the same command: it resumes from what is finished"
                    ) from error
                running.appendleft(self._submit(message, first.item, first.attempts + 1))
                continue
            running.popleft()
            for note in notes:
                warnings.warn(note, LacunaWarning, stacklevel=3)
            return result

    def _result(self, future: Any) -> Any:  # noqa: ANN401 - distributed has no types
        """Wait for the result of a task, or raise its error; also raise if no one is there to compute it.

        A result is lost if its worker dies before it was fetched; the scheduler then has it computed again.
        """
        from distributed import CancelledError

        while True:
            try:
                error = future.exception(timeout=_SECONDS_BETWEEN_CHECKS)
            except TimeoutError:
                self._check_alive()
                continue
            self._last_seen = time.monotonic()
            if error is not None:
                return future.result()  # raises it, with the traceback of the worker
            try:
                return future.result(timeout=_SECONDS_WITHOUT_WORKERS)
            except CancelledError:
                raise self._lost("the scheduler is") from None
            except TimeoutError:
                self._check_alive()

    def _check_alive(self) -> None:
        if self._client.status in ("closed", "closing"):
            raise self._lost("the scheduler is")
        if self._client.status != "running" or self._threads():
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > _SECONDS_WITHOUT_WORKERS:
            raise self._lost("all workers are")

    def _lost(self, what: str) -> ClusterError:
        return ClusterError(
            f"{self._name}: {what} gone in the middle of the work; start it again, then run the same command: it "
            "resumes from what is finished, with or without a cluster"
        )

    def _threads(self) -> int:
        self._restart()
        with suppress(OSError, TimeoutError):
            return sum(self._client.nthreads().values())
        return 0

    def _cancel(self, running: deque[_Running]) -> None:
        """Give up the tasks that no one waits for."""
        if running and self._client.status == "running":
            with suppress(Exception):  # the work has ended, with or without an error of its own
                self._client.cancel([each.future for each in running], force=True)


@contextmanager
def open_pool(
    scheduler: str | None = None, workers: int | None = None, *, reads: Sequence[Path] = (), writes: Sequence[Path] = ()
) -> Iterator[DaskPool]:
    """Connect to a scheduler, or start worker processes on this machine.

    :param scheduler: Its address, such as ``tcp://host:8786``.
    :param workers: Number of worker processes to start instead, with one thread each.
    :param reads: Folders that all workers must see.
    :param writes: Folders that all workers must be able to write into; they or their parents exist.
    """
    if (scheduler is None) == (workers is None):
        raise SettingError("scheduler and workers: exactly one is needed, an address or a number of processes")
    if workers is not None and workers < 1:
        raise SettingError(f"workers: got {workers}; allowed is 1 or more")
    if scheduler is not None and not _ADDRESS.fullmatch(scheduler):
        raise SettingError(f"scheduler: got {scheduler!r}; an address such as tcp://host:8786 is needed")
    with needs_extra("cluster", "a pool of Dask workers"):
        import distributed  # noqa: F401 - only whether it is there
    with _quiet(), _local(workers) if workers is not None else _connected(str(scheduler)) as pool:
        if workers is None:
            pool.check(reads, [next(each for each in (folder, *folder.parents) if each.is_dir()) for folder in writes])
        yield pool


@contextmanager
def _local(workers: int) -> Iterator[DaskPool]:
    import dask
    from distributed import Client, LocalCluster
    from distributed.gc import disable_gc_diagnosis

    with ExitStack() as opened:
        with _without_interrupts():
            opened.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": "3s"}))
            # Stores are mapped into memory, so a limit on the memory of a process would be reached by reading. A worker
            # that is killed is started again at once by its supervisor; if it is killed while it starts, only by the
            # cluster.
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                host="127.0.0.1",
                dashboard_address=None,
                preload=[_IGNORE_CTRL_C],
                silence_logs=logging.CRITICAL,
            )
            client = opened.enter_context(Client(opened.enter_context(cluster), set_as_default=False))
            disable_gc_diagnosis(force=True)  # an interrupt would be lost in its callback, which Python calls anywhere
        yield DaskPool(client, f"{workers} local workers", lambda: cluster.scale(workers))


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block, and keep it from processes that are started there.

    A cluster cannot be closed if it, or one of its workers, is interrupted while it starts.
    """
    if current_thread() is not main_thread():  # only that one has signals
        yield
        return
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: held.append(number))
    try:
        with _interrupts_blocked():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C for this thread, and for the threads and processes that it starts, where the system can."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it would unblock the signal when it starts
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def _connected(address: str) -> Iterator[DaskPool]:
    from distributed import Client

    try:
        asyncio.run(asyncio.wait_for(_ask(address), _SECONDS_TO_CONNECT))
        client = Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"{address}: no Dask scheduler answers there; start one with: dask scheduler, or use `workers` N"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_SECONDS_TO_CONNECT)
        except TimeoutError as error:
            raise ClusterError(
                f"{address}: the scheduler has no workers; start some with: dask worker {address} --nthreads 1"
            ) from error
        yield DaskPool(client, address)


async def _ask(address: str) -> None:
    """Ask a scheduler for its identity. A client itself would wait forever for a server that says nothing."""
    from distributed import rpc

    async with rpc(address) as scheduler:
        await scheduler.identity()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the logs of Dask in this process: what matters is raised as an error."""
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"distributed\..*")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


# --- In the worker processes -----------------------------------------------------------------------------------------

_heard = local()  # notes of the task that a thread computes


def look_around(reads: list[str], marks: list[str]) -> tuple[str, list[str]]:
    """Return the version of Lacuna, and which folders and marks of the client are missing or cannot be written."""
    missing = [folder for folder in reads if not Path(folder).is_dir()]
    missing += [mark for mark in marks if not (Path(mark).is_file() and os.access(Path(mark).parent, os.W_OK))]
    return __version__, missing


def run_task(message: bytes, version: str, item: Any) -> tuple[Any, list[str]]:  # noqa: ANN401 - any item
    """Compute an item in a worker process; return the result and the texts of our own warnings."""
    if version != __version__:  # a worker that joined later
        raise _other_version("a worker", __version__, version)
    _prepare_process()
    _heard.notes = []
    with one_thread():
        return open_task(message)(item), _heard.notes


def _prepare_process() -> None:
    """Prepare this worker process, once."""
    if warnings.showwarning is _hear:
        return
    keep_freed_memory()
    warnings.showwarning = _hear
    warnings.simplefilter("always", LacunaWarning)


def _hear(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, LacunaWarning):
        _heard.notes.append(str(message))


def _other_version(worker: str, version: str, wanted: str) -> ClusterError:
    return ClusterError(f"{worker}: has Lacuna {version}, not {wanted}; install the same version for all workers")
