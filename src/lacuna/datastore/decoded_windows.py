"""Run a model over windows of a corpus, in batches that workers share, and put the rows in the order of the corpus.

A window becomes the files of a shard, here or in another process.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lacuna.artifacts.files import writing
from lacuna.datastore.columns import WrittenShard, write_shard_files
from lacuna.datastore.manifest import KeyMaker
from lacuna.datastore.windows import Encoder, Window, make_batches
from lacuna.errors import StoreError
from lacuna.workers import WorkerPool

_Advance = Callable[[int, int], None]  # called with the numbers of pairs and target tokens that were processed


class TeacherForcedRows(Protocol):
    """The output of a model for given translations; see :class:`lacuna.models.TeacherForced`."""

    @property
    def keys(self) -> ArrayLike: ...  # noqa: D102

    @property
    def predictions(self) -> ArrayLike: ...  # noqa: D102

    @property
    def log_p_gold(self) -> ArrayLike: ...  # noqa: D102

    @property
    def entropy(self) -> ArrayLike: ...  # noqa: D102


class TeacherForcingModel(Encoder, KeyMaker, Protocol):
    """A model that can build a store; :class:`lacuna.models.Model` is one."""

    def teacher_force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> TeacherForcedRows:
        """Return one row per target token, sentence by sentence."""


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """What the model gives for some sentences of a window; rows run over sentences, then positions.

    :param numbers: Places of the sentences in the window.
    """

    numbers: list[int]
    keys: NDArray[np.float16]  # (rows, dimension)
    predictions: NDArray[np.int32]  # (rows,)
    log_p_gold: NDArray[np.float32]  # (rows,)
    entropy: NDArray[np.float32]  # (rows,)


def decode_batch(model: TeacherForcingModel, window: Window, numbers: list[int]) -> DecodedBatch:
    """Run the model on some sentences of a window: the unit of work of a build.

    :param numbers: From :func:`~lacuna.datastore.windows.make_batches`.
    """
    chosen = [window.sentences[number] for number in numbers]
    forced = model.teacher_force([pair.source for pair in chosen], [pair.target for pair in chosen])
    return DecodedBatch(
        numbers,
        _half(np.asarray(forced.keys), model.name),
        np.asarray(forced.predictions, dtype=np.int32),
        np.asarray(forced.log_p_gold, dtype=np.float32),
        np.asarray(forced.entropy, dtype=np.float32),
    )


class WindowColumns:
    """Collects the batches of a window, which may come in any order, into keys and columns in the order of the corpus.

    :param dimension: Dimension of a key.
    """

    def __init__(self, window: Window, dimension: int) -> None:
        self.window = window
        self._lengths = np.array([len(sentence.target) for sentence in window.sentences])
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._missing = len(window.sentences)
        self.keys = np.empty((window.rows, dimension), dtype=np.float16)
        self._predictions = np.empty(window.rows, dtype=np.int32)
        self._log_p_gold, self._entropy = (np.empty(window.rows, dtype=np.float32) for _ in range(2))

    @property
    def complete(self) -> bool:
        """Whether all sentences are there."""
        return not self._missing

    def add(self, batch: DecodedBatch) -> None:
        """Put the rows of a batch in their places."""
        rows = np.concatenate(
            [np.arange(start, start + length) for start, length in zip(*self._places(batch), strict=True)]
        )
        self.keys[rows], self._predictions[rows] = batch.keys, batch.predictions
        self._log_p_gold[rows], self._entropy[rows] = batch.log_p_gold, batch.entropy
        self._missing -= len(batch.numbers)

    def columns(self, first_sentence: int) -> dict[str, NDArray[np.generic]]:
        """Return the columns of a complete window.

        :param first_sentence: The sentence id of the first pair.
        """
        sentences, rows = self.window.sentences, self.window.rows
        values = np.concatenate([np.asarray(sentence.target, dtype=np.int32) for sentence in sentences])
        return {
            "values": values,
            "predictions": self._predictions,
            "known": values == self._predictions,
            "log_p_gold": self._log_p_gold,
            "entropy": self._entropy,
            "sentence": np.repeat(np.arange(first_sentence, first_sentence + len(sentences)), self._lengths),
            "position": np.arange(rows) - np.repeat(self._starts, self._lengths),
        }

    def _places(self, batch: DecodedBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._starts[batch.numbers], self._lengths[batch.numbers]


def decode_windows(
    model: TeacherForcingModel,
    windows: Iterable[Window],
    batch_tokens: int,
    advance: _Advance = lambda pairs, tokens: None,
) -> Generator[WindowColumns, None, None]:
    """Run the model on windows in batches of similar length, several at once; yield complete windows in order.

    Workers compute the next window while the caller stores one.

    :param advance: Called after each batch with its pairs and target tokens.
    """

    def batches() -> Iterator[tuple[WindowColumns, list[int]]]:
        for window in windows:
            collected = WindowColumns(window, model.dimension)
            for batch in make_batches(window.sentences, batch_tokens):
                yield collected, batch

    def decode(task: tuple[WindowColumns, list[int]]) -> tuple[WindowColumns, DecodedBatch]:
        collected, batch = task
        return collected, decode_batch(model, collected.window, batch)

    pool = WorkerPool.of_process(getattr(model, "device", "cpu"))
    with closing(pool.map(decode, batches())) as decoded:
        for collected, batch in decoded:
            collected.add(batch)
            advance(len(batch.numbers), len(batch.keys))
            if collected.complete:
                yield collected


@dataclass(frozen=True, slots=True)
class NumberedWindow:
    """A window, and the sentence id of its first pair."""

    window: Window
    first_sentence: int


def write_columns(collected: WindowColumns, first_sentence: int, parts: Path) -> WrittenShard:
    """Write the shard of a complete window into a new folder of a unique name.

    :param parts: The parent of that folder, which exists: a folder for unfinished shards, next to finished ones.
    """
    folder = parts / uuid4().hex
    lines = [sentence.line for sentence in collected.window.sentences]
    with writing(parts.parents[1]):  # the store
        record = write_shard_files(folder, collected.keys, collected.columns(first_sentence), lines)
    return WrittenShard(folder, record)


def decode_and_write(
    model: TeacherForcingModel, batch_tokens: int, parts: Path, numbered: NumberedWindow
) -> WrittenShard:
    """Run the model over one window and write its shard: the task of a worker that is another process.

    Two workers may do the same window, if one of them seemed to be lost: each writes a folder of its own.
    """
    [collected] = decode_windows(model, [numbered.window], batch_tokens)
    return write_columns(collected, numbered.first_sentence, parts)


def _half(keys: NDArray[np.float32], name: str) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):
        half = keys.astype(np.float16)
    if not np.isfinite(half).all():
        raise StoreError(
            f"{name}: its keys exceed {np.finfo(np.float16).max}, the largest number of float16; use another model"
        )
    return half
