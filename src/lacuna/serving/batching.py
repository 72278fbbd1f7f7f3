"""Dynamic batching: one worker thread and a queue, from which texts of many clients are taken in batches.

Requests take turns: a batch has texts of the request that has waited longest, and of others with the same key, one of
each in turn, within the limits of a batch. So a short request does not wait for a long one to end. A batch starts as
soon as the worker is free; it does not wait to be filled. Other threads may also have short functions called in the
worker thread, between two batches. Knows nothing of models, translators and HTTP.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from threading import Condition, Thread
from typing import Any, Generic, TypeVar

from lacuna.errors import LacunaError
from lacuna.serving.limits import Overloaded, byte_size

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")
Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, slots=True)
class _QueuedText(Generic[Result]):
    """A text in the queue, with the future of its result."""

    text: str
    future: Future[Result]


@dataclass(frozen=True, eq=False, slots=True)
class _Request(Generic[Key, Result]):
    """The texts of a request that still wait."""

    key: Key
    texts: deque[_QueuedText[Result]]


class Batcher(Generic[Key, Result]):
    """Passes texts to one worker thread, in batches of equal keys.

    :param work: Called in the worker thread with a key and texts; returns a result or an error for each.
    :param texts: Largest number of texts in a batch.
    :param size: Largest number of bytes in a batch; a longer text is a batch of its own.
    :param waiting: Largest number of texts in the queue.
    :param prepare: Called first in the worker thread.
    """

    def __init__(
        self,
        work: Callable[[Key, list[str]], Sequence[Result | Exception]],
        *,
        texts: int,
        size: int,
        waiting: int,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self._work, self._prepare = work, prepare
        self._texts, self._size, self._most_waiting = texts, size, waiting
        self._requests: list[_Request[Key, Result]] = []  # in the order of their turns
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._changed = Condition()
        self._waiting = 0
        self._closing = False
        self._thread = Thread(target=self._run, name="lacuna-model", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of texts in the queue."""
        return self._waiting

    @property
    def accepts(self) -> bool:
        """Whether the worker takes new texts."""
        return self._thread.is_alive() and not self._closing

    def submit(self, key: Key, texts: Sequence[str]) -> list[Future[Result]]:
        """Add texts to the queue: all of them, or none if it would be too full."""
        with self._changed:
            if not self.accepts:
                raise Overloaded("the server is stopping; try again later")
            if self._waiting + len(texts) > self._most_waiting:
                raise Overloaded(
                    f"{self._waiting:,} sentences are waiting, and the limit is {self._most_waiting:,}; try again later"
                )
            futures: list[Future[Result]] = [Future() for _ in texts]
            if texts:
                self._requests.append(_Request(key, deque(map(_QueuedText, texts, futures))))
            self._waiting += len(texts)
            self._changed.notify()
        return futures

    def call(self, function: Callable[[], Answer]) -> Future[Answer]:
        """Call a function in the worker thread, before the texts that are waiting. It should be short."""
        future: Future[Answer] = Future()
        with self._changed:
            if not self.accepts:
                raise Overloaded("the server is stopping; try again later")
            self._calls.append((function, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Accept no more texts and functions, finish the queue, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        self._prepare()
        while (task := self._take()) is not None:
            task()

    def _take(self) -> Callable[[], None] | None:
        """Wait for a function or texts, and take the next task from the queue; None after closing."""
        with self._changed:
            self._changed.wait_for(lambda: self._calls or self._requests or self._closing)
            if self._calls:
                return partial(_call, *self._calls.popleft())
            if not self._requests:
                return None
            key = self._requests[0].key
            return partial(self._finish, key, self._take_texts(key))

    def _take_texts(self, key: Key) -> list[_QueuedText[Result]]:
        """Take the texts of a batch: one of each request with this key in turn. Those that had a turn go to the end."""
        turns = deque(request for request in self._requests if request.key == key)
        taken: list[_QueuedText[Result]] = []
        served: dict[int, _Request[Key, Result]] = {}
        size = 0
        while turns and len(taken) < self._texts:
            request = turns.popleft()
            size += byte_size(request.texts[0].text)
            if taken and size > self._size:
                break
            taken.append(request.texts.popleft())
            served[id(request)] = request
            if request.texts:
                turns.append(request)
        rest = [request for request in self._requests if id(request) not in served]
        self._requests = [*rest, *(request for request in served.values() if request.texts)]
        self._waiting -= len(taken)
        return taken

    def _finish(self, key: Key, taken: list[_QueuedText[Result]]) -> None:
        # Texts whose clients have given up are cancelled and skipped.
        items = [item for item in taken if item.future.set_running_or_notify_cancel()]
        if not items:
            return
        results: Sequence[Result | Exception]
        try:
            results = self._work(key, [item.text for item in items])
        except Exception as error:  # the worker must survive any error
            if not isinstance(error, LacunaError):
                _log.exception("a batch of %d failed", len(items))
            results = [error] * len(items)
        for item, result in zip(items, results, strict=True):
            if isinstance(result, Exception):
                item.future.set_exception(result)
            else:
                item.future.set_result(result)


def _call(function: Callable[[], Any], future: Future[Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(function())
        except Exception as error:  # for the caller; the worker must survive it
            future.set_exception(error)
