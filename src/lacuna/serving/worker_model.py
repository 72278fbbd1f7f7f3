"""The model for threads that do not own it: tokenizing and teacher forcing happen in the worker thread.

Implements what building a store needs. Knows nothing of queues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from lacuna.models import Model, TeacherForced
from lacuna.records import Languages, SentencePair
from lacuna.workers import one_thread

Answer = TypeVar("Answer")


class Worker(Protocol):
    """Calls functions in the thread that owns the model; :class:`~lacuna.serving.batching.Batcher` does."""

    def call(self, function: Callable[[], Answer]) -> Future[Answer]:
        """Call a function in the worker thread."""


class WorkerModel:
    """A :class:`~lacuna.datastore.decoded_windows.TeacherForcingModel` for one thread other than the worker."""

    def __init__(self, model: Model, worker: Worker) -> None:
        self._model, self._worker = model, worker
        self._sources: dict[str, list[int]] = {}
        self._targets: dict[str, list[int]] = {}

    @property
    def name(self) -> str:
        """Name or folder of the model."""
        return self._model.name

    @property
    def fingerprint(self) -> str:
        """Hash of the model."""
        return self._model.fingerprint

    @property
    def languages(self) -> Languages | None:
        """The direction."""
        return self._model.languages

    def is_direction(self, languages: Languages) -> bool:
        """Tell whether the model was loaded for this direction."""
        return self._model.is_direction(languages)

    @property
    def dimension(self) -> int:
        """Dimension of a key."""
        return self._model.dimension

    @property
    def vocabulary_size(self) -> int:
        """Rows of the output projection."""
        return self._model.vocabulary_size

    @property
    def mask_placeholders(self) -> bool:
        """Whether placeholders are masked."""
        return self._model.mask_placeholders

    @property
    def precision(self) -> str:
        """Precision of teacher forcing."""
        return self._model.precision

    @property
    def eos_id(self) -> int:
        """The token that ends a sentence."""
        return self._model.eos_id

    def fits(self, source: Sequence[int], target: Sequence[int]) -> bool:
        """Tell whether the model can read a pair."""
        return self._model.fits(source, target)

    def encode_ahead(self, pairs: Sequence[SentencePair]) -> None:
        """Tokenize pairs in one call: each may have to wait for a batch. The tokens are kept until the next call."""
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]

        def encode() -> tuple[list[list[int]], list[list[int]]]:
            return self._model.encode_sources(sources), self._model.encode_targets(targets)

        source_ids, target_ids = self._worker.call(encode).result()
        self._sources = dict(zip(sources, source_ids, strict=True))
        self._targets = dict(zip(targets, target_ids, strict=True))

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize source sentences."""
        if all(text in self._sources for text in texts):
            return [self._sources[text] for text in texts]
        return self._worker.call(lambda: self._model.encode_sources(texts)).result()

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize target sentences."""
        if all(text in self._targets for text in texts):
            return [self._targets[text] for text in texts]
        return self._worker.call(lambda: self._model.encode_targets(texts)).result()

    def teacher_force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> TeacherForced:
        """Return one row per target token, sentence by sentence."""

        def force() -> TeacherForced:
            with one_thread():  # as in every build, so that keys do not depend on who computes them
                return self._model.teacher_force(sources, targets)

        return self._worker.call(force).result()
