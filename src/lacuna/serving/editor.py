"""Edits of the memories of a server, which replace them by their new states.

Translations use the state of a memory that they began with. Edits by other processes are noticed as well. Knows nothing
of HTTP and queues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from lacuna.errors import LockedError, NotFoundError
from lacuna.memory import EditReport, Memory, Selection
from lacuna.records import SentencePair
from lacuna.serving.edit_queue import EditQueue
from lacuna.serving.engine import Engine
from lacuna.serving.pairs import check_fit, check_text
from lacuna.serving.worker_model import WorkerModel

LOOK_SECONDS = 1.0  # between two looks for edits by other processes


@dataclass(frozen=True, slots=True)
class Edit:
    """What an edit did; it is on disk, and requests from now on see it.

    :param sentences: The sentence number of each pair that was given, also of those that were there already.
    :param added: Numbers of the new sentences.
    :param forgotten: Numbers of the sentences that were forgotten or replaced.
    :param commit: Number of the commit; ``None`` if there was nothing to do.
    :param entries: Number of entries of the memory.
    """

    memory: str
    sentences: tuple[int, ...]
    added: tuple[int, ...]
    forgotten: tuple[int, ...]
    commit: int | None
    entries: int


class Editor:
    """Edits the memories of an engine.

    :param model: The engine's model, safe for use by the thread of the queue.
    :param queue: Where edits wait for their turn.
    :param writes: Whether edits will come, so that all sentences are hashed in advance.
    """

    def __init__(self, engine: Engine, model: WorkerModel, queue: EditQueue, *, writes: bool) -> None:
        self._engine, self._model, self._queue = engine, model, queue
        self._next_look = 0.0
        for name in engine.memories:
            self._plan("prepare", name, lambda name: engine.memories[name].load(for_edits=writes))

    def add(self, name: str, pairs: Sequence[SentencePair]) -> Future[Edit]:
        """Add pairs to a memory; those that are there already are not added again.

        :param pairs: Normalized.
        """
        return self._submit(name, lambda: self._add(name, list(dict.fromkeys(pairs)), pairs))

    def replace(self, name: str, sentence: int, target: str) -> Future[Edit]:
        """Replace the translation of a sentence, which gets a new number."""
        return self._submit(name, lambda: self._replace(name, sentence, target))

    def forget(self, name: str, sentence: int) -> Future[Edit]:
        """Forget a sentence."""
        return self._submit(name, lambda: self._forget(name, sentence))

    def look(self) -> None:
        """Look whether another process has edited a memory, at most once a second; it is then opened again later."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        for name, memory in self._engine.memories.items():
            if memory.has_changed():
                self._plan("refresh", name, self._refresh)

    def _add(self, name: str, new: list[SentencePair], given: Sequence[SentencePair]) -> Edit:
        self._model.encode_ahead(new)
        check_fit(self._model, new)
        report = self._engine.memories[name].add(new, self._model, cleaning=None, merge=False)
        return self._done(name, report, self._refresh(name).numbers_of(given))

    def _replace(self, name: str, sentence: int, target: str) -> Edit:
        memory = self._refresh(name)
        pair = replace(memory.pair(sentence), target=target)
        check_text(pair, "target")
        self._model.encode_ahead([pair])
        check_fit(self._model, [pair])
        report = memory.replace(sentence, target, self._model)
        self._refresh(name)
        return self._done(name, report, report.added)

    def _forget(self, name: str, sentence: int) -> Edit:
        memory = self._refresh(name)
        memory.pair(sentence)  # refuses one that does not exist
        report = memory.forget(Selection(sentences=(sentence,)))
        self._refresh(name)
        return self._done(name, report, ())

    def _done(self, name: str, report: EditReport, sentences: tuple[int, ...]) -> Edit:
        if report.has_many_segments:
            self._plan("compact", name, self._compact)
        return Edit(name, sentences, report.added, report.forgotten, report.commit, report.entries)

    def _compact(self, name: str) -> None:
        try:
            self._engine.memories[name].merge_segments()
        except LockedError:
            return  # the next addition is soon enough
        self._refresh(name)

    def _refresh(self, name: str) -> Memory:
        """Open the latest state of a memory, and let the engine use it."""
        before = self._engine.memories[name]
        memory = before.latest()
        if memory is not before:
            memory.check_model(self._engine.model)
            self._engine.replace(memory)
        return memory

    def _submit(self, name: str, edit: Callable[[], Edit]) -> Future[Edit]:
        if name not in self._engine.memories:
            available = ", ".join(self._engine.memories) or "none"
            raise NotFoundError(f"memory: got {name!r}; available: {available}")
        return self._queue.submit(f"memory {name}", edit)

    def _plan(self, kind: str, name: str, work: Callable[[str], object]) -> None:
        """Do some work for a memory after all waiting edits."""
        self._queue.plan(kind, f"memory {name}", lambda: work(name))
