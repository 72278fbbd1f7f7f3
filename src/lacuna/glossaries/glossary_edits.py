"""Edits of a glossary in a TSV file: add, remove and undo. Each is one atomic commit, and can be undone by another.

After a kill at any moment the file is as before the edit or as after it. Knows nothing of models.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lacuna.artifacts.files import write_bytes, writing
from lacuna.datastore.log import utc_now
from lacuna.errors import GlossaryError, LockedError, NotFoundError
from lacuna.glossaries.glossary import Glossary, Term
from lacuna.glossaries.glossary_files import read_glossary, to_bytes
from lacuna.glossaries.glossary_log import EditAction, GlossaryCommit, TermChange, append_log, hash_of, read_log
from lacuna.glossaries.problems import summarize

#: How long an edit waits for another one.
WAIT_SECONDS = 10.0


def add_terms(path: str | Path, terms: Iterable[Term]) -> GlossaryCommit | None:
    """Add terms at the end; one with the source of a term that is there replaces it. A missing file is created.

    :returns: ``None`` if all terms were there already.
    :raises GlossaryError: The file or a term has an error; nothing was written.
    :raises LockedError: Another process edits the file.
    """
    with _editing(Path(path)) as edit:
        for term in terms:
            edit.put(term)
        return edit.commit("add")


def remove_term(path: str | Path, source: str, *, case_sensitive: bool = False) -> GlossaryCommit | None:
    """Remove a term.

    :param source: In any capitals.
    :param case_sensitive: Remove only a term with the same capitals.
    :raises NotFoundError: There is no such term, or there are several that differ in capitals.
    """
    with _editing(Path(path)) as edit:
        found = [
            number
            for number, term in enumerate(edit.terms)
            if (term.source == source if case_sensitive else term.source.casefold() == source.casefold())
        ]
        if len(found) != 1:
            count = f"{len(found)} terms that differ in capitals" if found else "no such term"
            raise NotFoundError(f"{path}: source: got {source!r}, {count}; write it as in the glossary")
        edit.change(found[0], None)
        return edit.commit("remove")


def undo_edit(path: str | Path, commit: int) -> GlossaryCommit | None:
    """Undo a commit by another one.

    :raises NotFoundError: There is no such commit.
    :raises GlossaryError: A later edit changed the same terms.
    """
    with _editing(Path(path)) as edit:
        undone = next((each for each in edit.log if each.commit == commit), None)
        if undone is None:
            raise NotFoundError(f"{path}: commit: got {commit}; its log has {len(edit.log)} commits, from 1")
        for change in reversed(undone.changes):
            edit.undo(change, commit)
        return edit.commit("undo")


def read_edits(path: str | Path) -> list[GlossaryCommit]:
    """Return the commits of a glossary, oldest first; none if it was never edited.

    :raises GlossaryError: The log is damaged.
    """
    return read_log(Path(path).resolve())


@contextmanager
def _editing(path: Path) -> Iterator[_Edit]:
    """Hold the lock of a glossary; it is next to the file, and stays there."""
    path = path.resolve()  # a link stays a link
    with writing(path.parent, GlossaryError):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.name}.lock"), thread_local=False)
        try:
            lock.acquire(timeout=WAIT_SECONDS)
        except Timeout as error:
            raise LockedError(
                f"{path}: being edited by another process; wait until it is done, then try again"
            ) from error
    try:
        yield _Edit(path)
    finally:
        lock.release()


class _Edit:
    """The terms of a glossary while its lock is held, and what was done to them."""

    def __init__(self, path: Path) -> None:
        self._path, self._hash = path, hash_of(path)
        self.log = read_log(path)
        self.terms: list[Term] = []
        self._changes: list[TermChange] = []
        if self._hash:
            read = read_glossary(path)
            if read.errors:
                raise GlossaryError(summarize(str(path), read.errors))
            if read.unknown_columns:
                columns = ", ".join(read.unknown_columns)
                raise GlossaryError(f"{path}: an edit would drop the columns {columns}; remove them first")
            self.terms = list(read.glossary)
        self._places: dict[str, list[int]] = {}
        for number, term in enumerate(self.terms):
            self._places.setdefault(term.source.casefold(), []).append(number)

    def put(self, term: Term) -> None:
        """Add a term, or replace the one with the same source."""
        places = self._places.setdefault(term.source.casefold(), [])
        for number in places:
            if term.source == self.terms[number].source or not (
                term.case_sensitive and self.terms[number].case_sensitive
            ):
                if term != self.terms[number]:
                    self._changes.append(TermChange(number, self.terms[number], term))
                    self.terms[number] = term
                return
        places.append(len(self.terms))
        self._changes.append(TermChange(len(self.terms), None, term))
        self.terms.append(term)

    def change(self, position: int, term: Term | None) -> None:
        """Replace a term, or remove it."""
        self._changes.append(TermChange(position, self.terms[position], term))
        self.terms[position : position + 1] = [] if term is None else [term]

    def undo(self, change: TermChange, commit: int) -> None:
        """Undo a change."""
        if change.after is None:
            position = min(change.position, len(self.terms))
            self._changes.append(TermChange(position, None, change.before))
            self.terms[position:position] = [] if change.before is None else [change.before]
        elif change.after in self.terms:
            self.change(self.terms.index(change.after), change.before)
        else:
            raise GlossaryError(
                f"{self._path}: commit {commit} cannot be undone, because {change.after.source!r} was changed later; "
                "undo that edit first"
            )

    def commit(self, action: EditAction) -> GlossaryCommit | None:
        """Write the log, then the file; ``None`` if there is nothing to write."""
        if not self._changes:
            return None
        content = to_bytes(self._path, Glossary(self.terms))
        done = GlossaryCommit(
            commit=self.log[-1].commit + 1 if self.log else 1,
            time=utc_now(),
            action=action,
            changes=tuple(self._changes),
            before=self._hash,
            after=hashlib.sha256(content).hexdigest(),
        )
        with writing(self._path, GlossaryError):
            append_log(self._path, done)
            write_bytes(self._path, content)
        return done
