"""The thread of a server that writes: edits of memories and glossaries, one after the other, and upkeep after them.

Translations never wait for it. It runs any edits. Knows nothing of HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from lacuna.errors import LacunaError, LockedError, NotFoundError, UnavailableError
from lacuna.serving.limits import NotSaved, Overloaded, RequestError
from lacuna.workers import one_thread

MAX_WAITING = 64  # edits

Done = TypeVar("Done")

_log = logging.getLogger(__name__)


class EditQueue:
    """Calls functions in a thread of its own, in order."""

    def __init__(self) -> None:
        self._planned: set[tuple[str, str]] = set()
        self._waiting: set[Future[Any]] = set()
        self._thread = ThreadPoolExecutor(1, "lacuna-writer")

    def submit(self, subject: str, edit: Callable[[], Done]) -> Future[Done]:
        """Let an edit wait for its turn.

        :param subject: What is edited, for errors: ``memory it``.
        """
        if len(self._waiting) >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING} edits are waiting, which is the limit; try again later")

        def run() -> Done:
            try:
                with one_thread():
                    return edit()
            except (RequestError, NotFoundError):
                raise
            except LockedError as error:
                raise Overloaded(f"{subject}: another process is editing it; try again later") from error
            except UnavailableError as error:
                _log.warning("an edit of %s failed: %s", subject, error)
                raise Overloaded(f"{subject}: its server does not answer; try again later") from error
            except LacunaError as error:  # it may name folders, which are not for clients
                _log.exception("an edit of %s failed", subject)
                raise NotSaved(f"{subject}: the edit was not saved; see the log of the server") from error

        try:
            future = self._thread.submit(run)
        except RuntimeError as error:
            raise Overloaded("the server is stopping; try again later") from error
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def plan(self, kind: str, subject: str, work: Callable[[], object]) -> None:
        """Do some work after all waiting edits, unless it is planned already; errors are logged.

        :param kind: What the work does.
        """
        if (kind, subject) in self._planned:
            return

        def run() -> None:
            self._planned.discard((kind, subject))
            try:
                with one_thread():
                    work()
            except Exception:
                _log.exception("%s: %s failed; its last state is used", subject, kind)

        self._planned.add((kind, subject))
        try:
            self._thread.submit(run)
        except RuntimeError:
            return  # the server is stopping

    def close(self) -> None:
        """Finish the edit in progress, and end the thread."""
        self._thread.shutdown(cancel_futures=True)
