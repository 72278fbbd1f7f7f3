"""What an import asks of a model. Knows keys and tokens; nothing of files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray
from pydantic import JsonValue

from lacuna.datastore.building import finish, writing
from lacuna.datastore.columns import pair_to_line, write_mean, write_shard
from lacuna.datastore.importing.formats import KNOWN, PREDICTIONS, WEIGHTS, Source, open_source
from lacuna.datastore.importing.sentences import FFN_IN, OUT, Evidence, Stretch, cut
from lacuna.datastore.manifest import BuildSettings, KeyMaker, Manifest, Parent, ShardRecord, describe_model
from lacuna.datastore.windows import Meter
from lacuna.errors import SettingError, StoreError
from lacuna.files import atomic_folder, check_unused
from lacuna.progress import SILENT, Progress
from lacuna.records import Origin, SentencePair
from lacuna.version import __version__


class KeyReader(KeyMaker, Protocol):
    """A model, as far as keys are read with it: :class:`lacuna.models.Model` is such."""

    @property
    def max_length(self) -> int: ...  # noqa: D102

    def decode(self, ids: Sequence[int]) -> str:
        """Turn tokens into text."""

    def score_keys(
        self, keys: NDArray[np.float32], gold: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
        """Give prediction, log-probability of the gold token, and entropy for each key of kind ``out``."""

    def matches_key_kind(self, kind: str, keys: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Say of each key whether it bears the mark of its kind."""

    def apply_last_ffn(self, keys: NDArray[np.float32]) -> NDArray[np.float32]:
        """Carry keys of kind ``ffn_in`` to ``out``."""


_ROWS_AT_ONCE = 4096

_Content = tuple[NDArray[np.float16], dict[str, NDArray[Any]], list[bytes]]


@dataclass(frozen=True, slots=True)
class StoreImport:
    """What was imported.

    :param kind: Whose store it was, as ``knn-box``.
    :param key: The kind of its keys; in the new store they are of kind ``out``.
    :param ghosts: Rows at the end that were never filled, and left out.
    :param without_end: Sentences that do not end with the end token.
    :param differing: Entries where the source's own note of the model's prediction is another, by column.
    """

    kind: str
    into: Path
    key: str
    entries: int
    sentences: int
    known: int
    ghosts: int
    without_end: int
    differing: dict[str, int]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Give the report as JSON has it."""
        return {
            "kind": self.kind,
            "into": str(self.into),
            "key": self.key,
            "entries": self.entries,
            "sentences": self.sentences,
            "known": self.known,
            "known_ratio": self.known / self.entries,
            "ghosts": self.ghosts,
            "without_end": self.without_end,
            "differing": self.differing,
            "seconds": round(self.seconds, 3),
        }


def import_store(
    source: str | Path,
    into: str | Path,
    model: KeyReader,
    *,
    key: str | None = None,
    entries: int | None = None,
    shard_rows: int = BuildSettings().shard_rows,
    progress: Progress = SILENT,
) -> StoreImport:
    """Write a store of ours from one of knn-box, adaptive-knn-mt or knn-transformers; the same input, the same bytes.

    :param source: A folder; see :data:`~lacuna.datastore.importing.formats.LOOKED_FOR`.
    :param into: A folder that does not exist or is empty. It appears when all is done.
    :param model: The model that the keys come from.
    :param key: The kind of the source's keys, ``out`` or ``ffn_in``; what its toolkit writes by default if not said.
    :param entries: How many entries to take, from the first; all if not said.
    :param shard_rows: Entries in a file of keys.
    """
    started, place, folder = time.monotonic(), Path(source), Path(into)
    check_unused(folder, StoreError)
    if place.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise StoreError(f"{folder}: lies inside {place}, which stays as it is; name another folder")
    opened = open_source(place, model.dimension, model.vocabulary_size, entries)
    kind = opened.key if key is None else key
    if kind not in (OUT, FFN_IN):
        raise SettingError(f"key: got {kind!r}; allowed are {OUT} and {FFN_IN}")
    ghosts = count_ghosts(opened)
    if ghosts == opened.entries:
        raise StoreError(f"{opened.keys.path}: all {ghosts:,} keys are zero; there is nothing to import")
    work = _Import(opened, model, Evidence(model.name, kind, model.vocabulary_size))
    progress.start("import", opened.entries - ghosts, "entries")
    stretches = cut(opened, opened.entries - ghosts, model.eos_id, model.max_length, shard_rows)
    contents: Iterator[_Content] = (work.read(stretch, progress) for stretch in stretches)
    # The first is read before anything is written: what does not fit the model shows there, and leaves no trace.
    contents = chain([next(contents)], contents)
    with writing(folder), atomic_folder(folder) as temporary:
        shards = [write_shard(temporary, number, *content) for number, content in enumerate(contents)]
        finish(temporary, work.manifest(temporary, shards, shard_rows, ghosts))
    progress.finish(f"({work.evidence.entries:,} entries)")
    seen = work.evidence
    return StoreImport(
        kind=opened.format,
        into=folder,
        key=kind,
        entries=seen.entries,
        sentences=work.meter.pairs,
        known=seen.known,
        ghosts=ghosts,
        without_end=work.without_end,
        differing=dict(seen.differing),
        seconds=time.monotonic() - started,
    )


def count_ghosts(source: Source) -> int:
    """Count rows at the end with a key of zeros and the value 0: room that was made and never filled."""
    last = source.entries
    while last > 0:
        first = max(0, last - _ROWS_AT_ONCE)
        filled = source.keys.read(first, last).any(axis=1) | (source.values.column(first, last) != 0)
        if filled.any():
            return source.entries - (first + int(np.flatnonzero(filled)[-1]) + 1)
        last = first
    return source.entries


@dataclass(slots=True)
class _Import:
    """An import on its way.

    :param evidence: What speaks for keys, values and model belonging together.
    :param meter: Counts and hashes the sentences.
    :param digest: Of the source's keys and values.
    """

    source: Source
    model: KeyReader
    evidence: Evidence
    meter: Meter = field(default_factory=Meter)
    digest: xxhash.xxh3_128 = field(default_factory=xxhash.xxh3_128)
    without_end: int = 0

    def read(self, stretch: Stretch, progress: Progress) -> _Content:
        """Read a stretch of entries and ask the model about them: keys, columns and sentences of a shard."""
        keys, blocks = np.empty((stretch.rows, self.model.dimension), dtype=np.float16), []
        for start in range(0, stretch.rows, _ROWS_AT_ONCE):
            end = min(start + _ROWS_AT_ONCE, stretch.rows)
            keys[start:end], block = self._read_block(stretch.first + start, stretch.first + end)
            blocks.append(block)
            progress.advance(end - start)
        self.evidence.check()
        columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        first, counts = self.meter.pairs, np.diff(stretch.ends, prepend=0)
        columns["sentence"] = np.repeat(np.arange(first, first + len(counts)), counts)
        columns["position"] = stretch.position
        return keys, columns, self._lines(stretch, columns["values"])

    def _read_block(self, first: int, last: int) -> tuple[NDArray[np.float16], dict[str, NDArray[Any]]]:
        """Read some entries: their keys, and what the model says of them."""
        stored, values = self.source.keys.read(first, last), self.source.values.column(first, last)
        self.digest.update(stored.tobytes())
        self.digest.update(values.tobytes())
        self._check_values(values, first)
        keys = stored.astype(np.float32)
        for kind in (OUT, FFN_IN):
            self.evidence.marked[kind] += int(np.count_nonzero(self.model.matches_key_kind(kind, keys)))
        if self.evidence.kind == FFN_IN:
            keys = self.model.apply_last_ffn(keys)
        half = self._half(keys, first)
        predictions, log_p_gold, entropy = self.model.score_keys(keys, values)
        known = values == predictions
        self.evidence.add_entries(values, predictions)
        for name, ours in ((PREDICTIONS, predictions), (KNOWN, known)):
            if name in self.source.extras:
                theirs = self.source.extras[name].column(first, last)
                self.evidence.add_differing(name, int(np.count_nonzero(theirs != ours)))
        columns = {
            "values": values,
            "predictions": predictions,
            "known": known,
            "log_p_gold": log_p_gold,
            "entropy": entropy,
        }
        return half, columns | self._weights(first, last)

    def _check_values(self, values: NDArray[np.int64], first: int) -> None:
        wrong = (values < 0) | (values >= self.model.vocabulary_size)
        if wrong.any():
            row = int(wrong.argmax())
            raise StoreError(
                f"{self.source.values.path}: entry {first + row} has the value {values[row]}, but {self.model.name} "
                f"has tokens 0 to {self.model.vocabulary_size - 1}; name the model that the store was made with"
            )

    def _half(self, keys: NDArray[np.float32], first: int) -> NDArray[np.float16]:
        with np.errstate(over="ignore"):
            half = keys.astype(np.float16)
        finite = np.isfinite(half).all(axis=1)
        if not finite.all():
            raise StoreError(
                f"{self.source.keys.path}: the key of entry {first + int(finite.argmin())} is not finite in 16 bits; "
                "copy the store again, or make it anew"
            )
        return half

    def _weights(self, first: int, last: int) -> dict[str, NDArray[Any]]:
        """Read how many entries each one stands for, where the source was merged."""
        if WEIGHTS not in self.source.extras:
            return {}
        weights = self.source.extras[WEIGHTS].column(first, last)
        if (weights < 1).any():
            row = int((weights < 1).argmax())
            path = self.source.extras[WEIGHTS].path
            raise StoreError(f"{path}: entry {first + row} has the weight {weights[row]}; allowed is 1 or more")
        return {"weights": weights}

    def _lines(self, stretch: Stretch, values: NDArray[np.int64]) -> list[bytes]:
        """Spell the sentences of a stretch, and count those that do not end as sentences do."""
        lines, file = [], self.source.values.path.name
        for sentence, place in zip(np.split(values, stretch.ends[:-1]), stretch.places, strict=True):
            pair = SentencePair("", self.model.decode(sentence.tolist()), Origin(file, place))
            lines.append(pair_to_line(pair))
            self.meter.add(lines[-1], file)
        self.without_end += int(np.count_nonzero(values[stretch.ends - 1] != self.model.eos_id))
        return lines

    def manifest(self, folder: Path, shards: list[ShardRecord], shard_rows: int, ghosts: int) -> Manifest:
        """Say what is in the new store, and where it came from."""
        source, model = self.source, self.model
        settings: dict[str, JsonValue] = {"format": source.format, "key": self.evidence.kind, "ghosts": ghosts}
        return Manifest(
            lacuna=__version__,
            entries=self.evidence.entries,
            sentences=self.meter.pairs,
            skipped=0,
            dimension=model.dimension,
            vocabulary_size=model.vocabulary_size,
            model=describe_model(model),
            corpus=self.meter.record().model_copy(update={"files": source.files}),
            settings=BuildSettings(shard_rows=shard_rows),
            mean=write_mean(folder, shards, model.dimension),
            shards=tuple(shards),
            parent=Parent(
                fingerprint=self.digest.hexdigest(), entries=source.entries, made_by="import", settings=settings
            ),
        )
