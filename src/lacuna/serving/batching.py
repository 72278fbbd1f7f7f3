"""One thread that does all the work, and a queue before it, from which equal work of many clients is taken together.

What has waited longest goes first, and takes along whatever else is waiting under the same key, as much as the budget
allows. Nobody waits for a batch to fill: while one is being worked on, the next one gathers by itself. Knows nothing of
translation, of models or of HTTP.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Generic, TypeVar

from lacuna.errors import LacunaError
from lacuna.serving.limits import Overloaded

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, slots=True)
class _Waiting(Generic[Result]):
    """A text that waits: its number in the order of arrival, and where its result is to go."""

    number: int
    text: str
    future: Future[Result]


class Batcher(Generic[Key, Result]):
    """Hands texts to one worker thread, those with equal keys together.

    :param work: Called in the worker thread with a key and some texts; gives a result, or an error, for each of them.
    :param texts: The most texts in a batch.
    :param characters: The most characters in a batch; a longer text goes alone.
    :param waiting: The most texts that may wait.
    :param prepare: Called in the worker thread before anything else.
    """

    def __init__(
        self,
        work: Callable[[Key, list[str]], Sequence[Result | Exception]],
        *,
        texts: int,
        characters: int,
        waiting: int,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self._work, self._prepare = work, prepare
        self._texts, self._characters, self._most_waiting = texts, characters, waiting
        self._queues: dict[Key, deque[_Waiting[Result]]] = {}
        self._changed = Condition()
        self._arrived = self._waiting = 0
        self._closing = False
        self._thread = Thread(target=self._run, name="lacuna-model", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Texts that no batch has taken yet."""
        return self._waiting

    @property
    def accepts(self) -> bool:
        """Whether there is someone to do the work."""
        return self._thread.is_alive() and not self._closing

    def submit(self, key: Key, texts: Sequence[str]) -> list[Future[Result]]:
        """Let texts wait for their turn: all of them, or none if there is no room."""
        with self._changed:
            if not self.accepts:
                raise Overloaded("the server is stopping; ask another, or again when it is back")
            if self._waiting + len(texts) > self._most_waiting:
                raise Overloaded(
                    f"{self._waiting:,} sentences are waiting and at most {self._most_waiting:,} may; ask again later"
                )
            futures: list[Future[Result]] = [Future() for _ in texts]
            new = [_Waiting(self._arrived + n, text, futures[n]) for n, text in enumerate(texts)]
            if new:
                self._queues.setdefault(key, deque()).extend(new)
            self._arrived += len(new)
            self._waiting += len(new)
            self._changed.notify()
        return futures

    def close(self) -> None:
        """Take nothing more, finish all that waits, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        self._prepare()
        while (batch := self._take()) is not None:
            key, items = batch
            # Who gave up while waiting has cancelled; nothing is computed for them.
            wanted = [item for item in items if item.future.set_running_or_notify_cancel()]
            if wanted:
                self._finish(key, wanted)

    def _take(self) -> tuple[Key, list[_Waiting[Result]]] | None:
        """Wait for something to do and take it from the queue; None when there will be nothing more."""
        with self._changed:
            self._changed.wait_for(lambda: self._queues or self._closing)
            if not self._queues:
                return None
            key = min(self._queues, key=lambda one: self._queues[one][0].number)
            queue, characters = self._queues[key], 0
            taken: list[_Waiting[Result]] = []
            while queue and len(taken) < self._texts:
                characters += len(queue[0].text)
                if taken and characters > self._characters:
                    break
                taken.append(queue.popleft())
            if not queue:
                del self._queues[key]
            self._waiting -= len(taken)
            return key, taken

    def _finish(self, key: Key, items: list[_Waiting[Result]]) -> None:
        results: Sequence[Result | Exception]
        try:
            results = self._work(key, [item.text for item in items])
        except Exception as error:  # whatever it is, others still want their answers
            if not isinstance(error, LacunaError):
                _log.exception("a batch of %d failed", len(items))
            results = [error] * len(items)
        for item, result in zip(items, results, strict=True):
            if isinstance(result, Exception):
                item.future.set_exception(result)
            else:
                item.future.set_result(result)
