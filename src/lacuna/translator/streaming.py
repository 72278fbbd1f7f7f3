"""Reading lines of text, and gathering a stream of sentences into windows that are translated together.

A window ends when it is full or when the input pauses, so files are translated in large windows and a user at a
terminal gets an answer to every line. Knows nothing of models and translators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import BinaryIO, Generic, NamedTuple, TypeVar

from lacuna.errors import CorpusError
from lacuna.formats.input_files import decode_lines

Item = TypeVar("Item")

# Seconds without a new item after which a window is translated as it is.
PAUSE = 0.1

_MAX_JOIN_SECONDS = 0.5


def open_lines(file: Path | None) -> Iterator[str]:
    """Open a text file, or standard input, and iterate over its lines.

    The file is opened at once, so that a wrong name is an error before slow work; lines are read on demand.
    """
    name = str(file) if file else "standard input"
    try:
        # A file object of our own: a thread that waits for standard input must not hold the lock of sys.stdin at exit.
        stream = file.open("rb") if file else open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
    except OSError as error:
        raise _unreadable(name, error) from error
    return _decoded_lines(stream, name)


def _decoded_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    with stream:
        try:
            yield from decode_lines(stream, name)
        except OSError as error:
            raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError) -> CorpusError:
    return CorpusError(f"{name}: cannot be read ({error.strerror}); name a text file with one sentence per line")


class _End(NamedTuple):
    """Marks the end of the items, or the error that ended them."""

    error: BaseException | None


def gather_windows(
    items: Iterable[Item], size: int, *, weight: Callable[[Item], int] = lambda item: 1, pause: float = PAUSE
) -> Iterator[list[Item]]:
    """Gather items into windows.

    A background thread reads ahead, at most one full window. If reading fails, the error is raised in place of the
    unfinished window.

    :param size: Weight at which a window is full.
    :param weight: Weight of an item; 1 or more.
    :param pause: Seconds without a new item after which a window ends early.
    """
    with _ReadAhead(items, size) as reader:
        while window := reader.take(size, weight, pause):
            yield window


class _ReadAhead(Generic[Item]):
    """Reads items in a background thread.

    :param limit: Maximum number of items that wait to be taken.
    """

    def __init__(self, items: Iterable[Item], limit: int) -> None:
        self._items = items
        self._queue: Queue[Item | _End] = Queue(limit)
        self._stopped = Event()
        self._ended = False
        # A daemon: nothing can interrupt a thread that waits for standard input, and the process must still end.
        self._thread = Thread(target=self._read, name="lacuna-reader", daemon=True)

    def __enter__(self) -> _ReadAhead[Item]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        # If the process ended while the thread is inside a tokenizer, C++ would abort it. A thread that is blocked on
        # standard input is harmless, and gets only a moment.
        self._thread.join(_MAX_JOIN_SECONDS)

    def take(self, size: int, weight: Callable[[Item], int], pause: float) -> list[Item]:
        """Wait for an item, and return it with those that follow without a pause; nothing at the end."""
        taken: list[Item] = []
        total = 0
        while total < size and not self._ended:
            try:
                item = self._queue.get(timeout=pause if taken else None)
            except Empty:
                break
            if not isinstance(item, _End):
                taken.append(item)
                total += weight(item)
                continue
            self._ended = True
            if item.error is not None:
                raise item.error
        return taken

    def _read(self) -> None:
        error = None
        try:
            for item in self._items:
                if not self._put(item):
                    return
        except BaseException as raised:  # raised again in the thread that takes the items
            error = raised
        self._put(_End(error))

    def _put(self, item: Item | _End) -> bool:
        """Wait until there is a free place; return False if no one takes items any more."""
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except Full:
                continue
            return True
        return False


def windows_of(
    groups: Iterable[Sequence[Item]], size: int, weight: Callable[[Sequence[Item]], int]
) -> Iterator[tuple[int, list[Sequence[Item]]]]:
    """Cut a stream of groups into windows, without reading ahead; with each comes the number of items before it.

    :param size: Weight at which a window is full.
    """
    window: list[Sequence[Item]] = []
    offset = total = 0
    for group in groups:
        window.append(group)
        total += weight(group)
        if total >= size:
            yield offset, window
            offset += sum(map(len, window))
            window, total = [], 0
    if window:
        yield offset, window


def merge_groups(size: int, groups: Iterable[list[Item]]) -> Iterator[list[Item]]:
    """Merge groups to ``size`` or more items each; the last may be smaller."""
    merged: list[Item] = []
    for group in groups:
        merged += group
        if len(merged) >= size:
            yield merged
            merged = []
    if merged:
        yield merged
