"""Documents that clients have sent: each waits in line, is translated, and is kept for a while.

One document at a time is translated for each direction, in a thread of its own. Files are in a temporary folder, under
names that clients do not know. Knows nothing of routes.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePath
from threading import Lock
from typing import Any, BinaryIO, Literal

from lacuna.artifacts.files import write_json
from lacuna.documents import DocumentSettings, DocumentTranslator, format_of
from lacuna.documents.base import DocumentSegment
from lacuna.errors import LacunaError, NotFoundError
from lacuna.records import Languages
from lacuna.serving.engine import TranslationOptions
from lacuna.serving.limits import Overloaded, RequestError
from lacuna.serving.middleware import error_text
from lacuna.serving.service import Service

MAX_WAITING = 64
MAX_FINISHED = 64
KEPT_SECONDS = 3600.0
PREFIX = "lacuna-documents-"  # of the temporary folder

Status = Literal["waiting", "running", "done", "failed"]
_SOURCE, _TRANSLATED, _REPORT = "source", "translated", "report.json"

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Document:
    """A document of a client.

    :param id: Cannot be guessed; who knows it may have the file.
    :param name: The client's name of the file.
    :param download: The name of the translated file.
    :param sentences: Number of sentences that were translated so far.
    :param error: Why it failed, in one line.
    :param ended: Set when it is done or has failed, and will not change any more.
    """

    id: str
    name: str
    download: str
    folder: Path
    status: Status = "waiting"
    sentences: int = 0
    error: str = ""
    finished: float | None = None
    deleted: bool = False
    ended: Future[None] = field(default_factory=Future)

    @property
    def file(self) -> Path:
        """The translated file."""
        return self.folder / _TRANSLATED

    def report(self) -> dict[str, Any]:
        """Return the report of a document that is done."""
        try:
            content: dict[str, Any] = json.loads((self.folder / _REPORT).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise _unknown() from None
        return content


class Documents:
    """The documents of a server.

    :param clock: Seconds since any moment.
    """

    def __init__(self, services: Sequence[Service], clock: Callable[[], float] = time.monotonic) -> None:
        self._lines = {service: ThreadPoolExecutor(1, "lacuna-documents") for service in services}
        self._clock = clock
        self._lock = Lock()
        self._closing = False
        self._documents: dict[str, Document] = {}
        self.folder: Path | None = None  # until there is a document

    def add(
        self, service: Service, file: BinaryIO, name: str, options: TranslationOptions, settings: DocumentSettings
    ) -> Document:
        """Copy a file and let it wait for its translation.

        :param name: Without folders; its suffix says the format.
        """
        languages = service.engine.model.languages
        if languages is None:
            raise RequestError("the model does not say its languages, which files need; start the server with them")
        if settings.review_below is not None and service.engine.calibration_of(options.memories) is None:
            raise RequestError("review_below: needs a calibration of a selected memory; leave it out")
        self.expire()
        document = self._new(name, service.splitter().languages)
        try:
            document.folder.mkdir()
            with (document.folder / _SOURCE).open("wb") as copy:
                shutil.copyfileobj(file, copy)
            self._lines[service].submit(self._run, document, service, options, settings)
        except RuntimeError as error:
            self.delete(document.id)
            raise Overloaded("the server is stopping; try again later") from error
        except BaseException:
            self.delete(document.id)
            raise
        return document

    def find(self, id: str) -> Document:
        """Return a document by its id."""
        document = self._documents.get(id)
        if document is None:
            raise _unknown()
        return document

    def delete(self, id: str) -> None:
        """Delete a document and its files; its translation stops."""
        with self._lock:
            document = self._documents.pop(id, None)
            if document is None:
                raise _unknown()
            document.deleted = True
            if document.status != "running":
                shutil.rmtree(document.folder, ignore_errors=True)

    def expire(self) -> None:
        """Delete documents that were finished long ago, and the oldest if too many are finished."""
        finished = sorted(
            (document.finished, document.id)
            for document in list(self._documents.values())
            if document.finished is not None
        )
        late = self._clock() - KEPT_SECONDS
        for number, (when, id) in enumerate(finished):
            if when < late or number < len(finished) - MAX_FINISHED:
                try:
                    self.delete(id)
                except NotFoundError:
                    continue  # another thread was faster

    def close(self) -> None:
        """Stop all translations, end the threads, and delete all files."""
        self._closing = True
        for line in self._lines.values():
            line.shutdown(cancel_futures=True)
        for document in self._documents.values():
            document.ended.cancel()  # of those that were still waiting
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _new(self, name: str, languages: Languages) -> Document:
        id = secrets.token_urlsafe(16)
        path = PurePath(name)
        with self._lock:
            waiting = sum(document.finished is None for document in self._documents.values())
            if waiting >= MAX_WAITING:
                raise Overloaded(f"{waiting} documents are waiting, which is the limit; try again later")
            if self.folder is None:
                self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            document = Document(id, name, f"{path.stem}.{languages.target}{path.suffix}", self.folder / id)
            self._documents[id] = document
        return document

    def _run(
        self, document: Document, service: Service, options: TranslationOptions, settings: DocumentSettings
    ) -> None:
        with self._lock:
            if document.deleted:
                document.ended.set_result(None)
                return
            document.status = "running"
        status: Status = "failed"
        try:
            self._translate(document, service, options, settings)
            status = "done"
        except _GivenUp:
            document.error = "the server is stopping; send the file again later"
        except Exception as error:  # the thread must survive any error
            if not isinstance(error, LacunaError):
                _log.exception("a document failed")
            document.error = error_text(error)
        with self._lock:
            (document.folder / _SOURCE).unlink(missing_ok=True)
            if document.deleted or status == "failed":
                shutil.rmtree(document.folder, ignore_errors=True)
            document.finished, document.status = self._clock(), status
        document.ended.set_result(None)

    def _translate(
        self, document: Document, service: Service, options: TranslationOptions, settings: DocumentSettings
    ) -> None:
        counted = 0

        def count(sentences: int) -> None:
            nonlocal counted
            if self._closing or document.deleted:
                raise _GivenUp
            document.sentences, counted = counted, counted + sentences

        # Reports and some formats have a place for the confidence.
        sure = service.engine.calibration_of(options.memories) is not None
        translator = DocumentTranslator(
            lambda groups: service.stream_groups(groups, options, confidence=sure, on_window=count),
            service.splitter(),
            service.matches(options.memories),
            settings,
            check=service.engine.checking(options),
        )
        with (document.folder / _SOURCE).open("rb") as file, document.file.open("wb") as out:
            report = translator.translate_stream(file, out, format_of(document.name), document.name)
        document.sentences = counted
        write_json(document.folder / _REPORT, report.as_json())


def texts_of(file: BinaryIO, name: str, languages: Languages | None) -> list[str]:
    """Return the first texts of a file, to detect their language."""
    parts = format_of(name).parts(file, name, languages or Languages("en", "en"))
    texts = (text for part in parts if isinstance(part, DocumentSegment) for text in part.texts)
    first_texts = list(islice(texts, _SAMPLE))
    del texts, parts  # some formats keep the file until they end
    file.seek(0)
    return first_texts


_SAMPLE = 100  # texts


class _GivenUp(Exception):  # noqa: N818 - not an error
    """A document was deleted, or the server is stopping."""


def _unknown() -> NotFoundError:
    return NotFoundError("document: no such id; documents are deleted after an hour, send the file again")
