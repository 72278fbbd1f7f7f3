"""Edits of the glossaries of a server, which replace them by their new states.

Translations use the glossary that they began with. A file that was edited by hand is read again; one that has become
wrong is not used, and the terms stay as they were. Knows nothing of HTTP and queues.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeGuard

from lacuna.errors import GlossaryError, NotFoundError
from lacuna.glossaries import Glossary, Term
from lacuna.glossaries.glossary_edits import add_terms, read_edits, remove_term, undo_edit
from lacuna.glossaries.glossary_files import read_glossary
from lacuna.glossaries.glossary_log import GlossaryCommit
from lacuna.glossaries.problems import summarize
from lacuna.serving.edit_queue import EditQueue
from lacuna.serving.editor import LOOK_SECONDS
from lacuna.serving.engine import Engine
from lacuna.serving.limits import RequestError
from lacuna.translator.memory_words import MemoryWords
from lacuna.translator.term_check import index_terms

_WRITTEN = ".tsv"

_log = logging.getLogger(__name__)

_FileState = tuple[int, int, int]
"""What changes with a file: when it was written, its size, and which file it is."""


@dataclass(frozen=True, slots=True)
class GlossaryEdit:
    """What an edit did; it is on disk, and requests from now on see it.

    :param commit: ``None`` if there was nothing to do.
    :param terms: Number of terms of the glossary.
    """

    glossary: str
    commit: GlossaryCommit | None
    terms: int


class GlossaryEditor:
    """Edits the glossaries of an engine.

    :param queue: Where edits wait for their turn.
    """

    def __init__(self, engine: Engine, queue: EditQueue) -> None:
        self._engine, self._queue = engine, queue
        self._next_look = 0.0
        self._states: dict[str, _FileState | None] = {}
        for glossary in engine.glossaries.values():
            if glossary:
                queue.plan("prepare", f"glossary {glossary.name}", partial(self._prepare, glossary))

    def add(self, name: str, terms: Sequence[Term]) -> Future[GlossaryEdit]:
        """Add terms to a glossary; one with the source of a term that is there replaces it.

        :param terms: Checked.
        """
        return self._submit(name, lambda file: add_terms(file, terms))

    def remove(self, name: str, source: str, target: str | None) -> Future[GlossaryEdit]:
        """Remove a term.

        :param source: In any capitals, unless several terms differ in them only.
        :param target: Remove only this translation; with the last one, the term.
        """
        return self._submit(name, lambda file: self._remove(name, file, source, target))

    def undo(self, name: str, commit: int) -> Future[GlossaryEdit]:
        """Undo a commit by another one."""
        return self._submit(name, lambda file: undo_edit(file, commit))

    def commits(self, name: str) -> list[GlossaryCommit]:
        """Return the commits of a glossary, oldest first; none of a file that cannot be edited."""
        file = self._engine.glossaries[name].file
        if not is_editable(file):
            return []
        try:
            return read_edits(file)
        except GlossaryError as error:
            raise RequestError(_without_folder(str(error), name, file)) from error

    def look(self) -> None:
        """Look whether a file was edited by others, at most once a second; it is then read again later."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        for name, glossary in self._engine.glossaries.items():
            if glossary.file is not None and self._states.get(name, ()) != _state_of(glossary.file):
                self._queue.plan("refresh", f"glossary {name}", partial(self._refresh, name))

    def _remove(self, name: str, file: Path, source: str, target: str | None) -> GlossaryCommit | None:
        term = _find(self._refresh(name), source)
        if target is None:
            return remove_term(file, term.source, case_sensitive=True)
        if target not in (*term.targets, *term.forbidden):
            raise NotFoundError(
                f"target: got {target!r}, which {term.source!r} does not have; write it as in the glossary"
            )
        left = replace(
            term,
            targets=tuple(text for text in term.targets if text != target),
            forbidden=tuple(text for text in term.forbidden if text != target),
        )
        if left.translate and not left.targets and not left.forbidden:
            return remove_term(file, term.source, case_sensitive=True)
        return add_terms(file, [left])

    def _refresh(self, name: str) -> Glossary:
        """Read a file again if it has changed, and let the engine use it."""
        before = self._engine.glossaries[name]
        if before.file is None:
            return before
        state = _state_of(before.file)  # first, so that a later change is seen
        if self._states.get(name, ()) == state:
            return before
        self._states[name] = state
        try:
            terms = self._read(name, before.file) if state is not None else ()
        except GlossaryError as error:
            _log.warning("glossary %s: its former terms are used: %s", name, error)
            return before
        if state is None and before.terms:
            _log.warning("glossary %s: its file is gone, so it has no terms", name)
        if terms == before.terms:
            return before
        glossary = Glossary(terms, name, before.file)
        self._prepare(glossary)
        self._engine.replace_glossary(glossary)
        return glossary

    def _prepare(self, glossary: Glossary) -> None:
        """Compute what takes a while in this thread, and not in the one that translates."""
        languages, memory = self._engine.model.languages, self._engine.memories.get(glossary.name)
        if languages is None:
            return
        index_terms(glossary, languages.source)
        if memory is not None:
            MemoryWords.of(memory, languages.source)

    def _read(self, name: str, file: Path) -> tuple[Term, ...]:
        read = read_glossary(file, languages=self._engine.model.languages)
        if read.errors:
            raise GlossaryError(summarize(str(file), read.errors))
        if read.warnings:
            _log.warning("glossary %s: %s", name, summarize(str(file), read.warnings))
        return read.glossary.terms

    def _submit(self, name: str, edit: Callable[[Path], GlossaryCommit | None]) -> Future[GlossaryEdit]:
        file = self._file_of(name)

        def run() -> GlossaryEdit:
            try:
                commit = edit(file)
            except NotFoundError as error:
                raise NotFoundError(_without_folder(str(error), name, file)) from error
            except GlossaryError as error:
                if isinstance(error.__cause__, OSError):  # no fault of the client
                    raise
                raise RequestError(_without_folder(str(error), name, file)) from error
            return GlossaryEdit(name, commit, len(self._refresh(name)))

        return self._queue.submit(f"glossary {name}", run)

    def _file_of(self, name: str) -> Path:
        """Return the file of a glossary, or refuse one that cannot be edited."""
        glossaries = self._engine.glossaries
        if name not in glossaries:
            raise NotFoundError(f"glossary: got {name!r}; available: {', '.join(glossaries) or 'none'}")
        file = glossaries[name].file
        if not is_editable(file):
            raise RequestError(f"glossary {name}: only a {_WRITTEN} file can be edited; start the server with one")
        return file


def is_editable(file: Path | None) -> TypeGuard[Path]:
    """Tell whether the file of a glossary can be edited."""
    return file is not None and file.suffix.lower() == _WRITTEN


def _find(glossary: Glossary, source: str) -> Term:
    """Return the term with a source: in these capitals, else in any if there is only one."""
    folded = source.casefold()
    found = [term for term in glossary if term.source.casefold() == folded]
    exact = [term for term in found if term.source == source] or found
    if len(exact) != 1:
        count = f"{len(found)} terms that differ in capitals" if found else "no such term"
        raise NotFoundError(f"source: got {source!r}, {count}; write it as in the glossary")
    return exact[0]


def _state_of(file: Path) -> _FileState | None:
    """Return what changes with a file; ``None`` if there is none."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _without_folder(message: str, name: str, file: Path) -> str:
    """Return an error without the folder, which is not for clients."""
    for path in {str(file), str(file.resolve())}:
        message = message.replace(path, f"glossary {name}")
    return message
