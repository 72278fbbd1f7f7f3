"""Edits of the glossaries of a server, which replace them by their new states.

Translations use the glossary that they began with. A file that was edited by hand is read again; one that has become
wrong is not used, and the terms stay as they were. Knows nothing of HTTP and threads.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

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

WRITTEN = ".tsv"  # the suffix of files that can be edited

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
        """Return the commits of a glossary, oldest first."""
        file = self._file_of(name)
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
                self._queue.plan("refresh", f"glossary {name}", lambda name=name: self._refresh(name))  # type: ignore[misc]

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
        hash(glossary)  # not in the thread that answers requests
        self._engine.replace_glossary(glossary)
        return glossary

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
            except (GlossaryError, NotFoundError) as error:
                kind = NotFoundError if isinstance(error, NotFoundError) else RequestError
                raise kind(_without_folder(str(error), name, file)) from error
            return GlossaryEdit(name, commit, len(self._refresh(name)))

        return self._queue.submit(f"glossary {name}", run)

    def _file_of(self, name: str) -> Path:
        """Return the file of a glossary, or refuse one that cannot be edited."""
        glossaries = self._engine.glossaries
        if name not in glossaries:
            raise NotFoundError(f"glossary: got {name!r}; available: {', '.join(glossaries) or 'none'}")
        file = glossaries[name].file
        if file is None or file.suffix.lower() != WRITTEN:
            raise RequestError(f"glossary {name}: only a {WRITTEN} file can be edited; start the server with one")
        return file


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
