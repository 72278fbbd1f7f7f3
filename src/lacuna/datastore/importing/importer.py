"""Import a store of another toolkit: read keys and values, score them with the model, and write a store.

Keys and values are refused if they cannot come from the model.
"""

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

from lacuna.artifacts.files import atomic_folder, check_unused, writing
from lacuna.artifacts.locks import alone
from lacuna.datastore.building import finish
from lacuna.datastore.columns import pair_to_line, write_mean, write_shard
from lacuna.datastore.importing.formats import KNOWN, PREDICTIONS, WEIGHTS, ForeignStore, open_foreign_store
from lacuna.datastore.importing.sentences import ShardRange, cut_shards
from lacuna.datastore.manifest import BuildSettings, KeyMaker, Manifest, Parent, ShardRecord, describe_model
from lacuna.datastore.windows import CorpusDigest
from lacuna.errors import SettingError, StoreError
from lacuna.progress import SILENT, Progress
from lacuna.records import Origin, SentencePair
from lacuna.version import __version__

OUT, FFN_IN = "out", "ffn_in"

_ROWS_AT_ONCE = 4096
# The mark of a kind of keys is exact to three digits even in float16; a few large keys may miss it.
_MARKED = 0.95
# Smallest Cohen's kappa of values and predictions. Values that do not belong to the keys gave 0.00, a small model in a
# domain that it knows badly gave 0.2.
_AGREEMENT = 0.05
# Largest share of predictions that differ. Keys in float16 change 0.1 %; models that compute in float16 change more.
_DIFFERING = 0.05

_Content = tuple[NDArray[np.float16], dict[str, NDArray[Any]], list[bytes]]  # keys, columns and lines of a shard


class KeyReader(KeyMaker, Protocol):
    """A model that can score keys; :class:`lacuna.models.Model` is one."""

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


@dataclass(frozen=True, slots=True)
class StoreImport:
    """Result of an import.

    :param kind: The toolkit, such as ``knn-box``.
    :param key: The kind of its keys; in the new store they are of kind ``out``.
    :param ghosts: Empty rows at the end, which were not imported.
    :param without_end: Sentences that do not end with the end token.
    :param differing: Entries whose recorded prediction differs from that of the model, by column.
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
        """Return the report as JSON content."""
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


@alone("into")
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
    """Import a store of knn-box, adaptive-knn-mt or knn-transformers; equal inputs give equal bytes.

    :param source: A folder; see :data:`~lacuna.datastore.importing.formats.LOOKED_FOR`.
    :param into: A folder that does not exist or is empty. It is written atomically.
    :param model: The model that computed the keys.
    :param key: The kind of the keys, ``out`` or ``ffn_in``; by default the one that the toolkit writes.
    :param entries: Number of entries to import, from the first; by default all.
    :param shard_rows: Largest number of entries in a shard.
    :param progress: Shows entries.
    """
    started, foreign, folder = time.monotonic(), Path(source), Path(into)
    check_unused(folder, StoreError)
    if foreign.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise StoreError(f"{folder}: is inside {foreign}, which must not change; name another folder")
    opened = open_foreign_store(foreign, model.dimension, model.vocabulary_size, entries)
    kind = opened.key if key is None else key
    if kind not in (OUT, FFN_IN):
        raise SettingError(f"key: got {kind!r}; allowed are {OUT} and {FFN_IN}")
    ghosts = count_ghosts(opened)
    if ghosts == opened.entries:
        raise StoreError(f"{opened.keys.path}: all {ghosts:,} keys are zero; there is nothing to import")
    work = _Import(opened, model, ImportCheck(model.name, kind, model.vocabulary_size))
    progress.start("import", opened.entries - ghosts, "entries")
    ranges = cut_shards(opened, opened.entries - ghosts, model.eos_id, model.max_length, shard_rows)
    contents: Iterator[_Content] = (work.read(part, progress) for part in ranges)
    # The first shard is read before anything is written: a store that does not fit the model fails there.
    contents = chain([next(contents)], contents)
    with writing(folder), atomic_folder(folder) as temporary:
        shards = [write_shard(temporary, number, *content) for number, content in enumerate(contents)]
        finish(temporary, work.manifest(temporary, shards, shard_rows, ghosts))
    progress.finish(f"({work.check.entries:,} entries)")
    seen = work.check
    return StoreImport(
        kind=opened.format,
        into=folder,
        key=kind,
        entries=seen.entries,
        sentences=work.corpus.pairs,
        known=seen.known,
        ghosts=ghosts,
        without_end=work.without_end,
        differing=dict(seen.differing),
        seconds=time.monotonic() - started,
    )


def count_ghosts(source: ForeignStore) -> int:
    """Count empty rows at the end, with a key of zeros and the value 0: their space was reserved but never used."""
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
    """A running import.

    :param check: Compares keys and values with the model.
    :param corpus: Counts and hashes the sentences.
    :param digest: Hashes the imported keys and values.
    """

    source: ForeignStore
    model: KeyReader
    check: ImportCheck
    corpus: CorpusDigest = field(default_factory=CorpusDigest)
    digest: xxhash.xxh3_128 = field(default_factory=xxhash.xxh3_128)
    without_end: int = 0

    def read(self, part: ShardRange, progress: Progress) -> _Content:
        """Read the entries of a shard and score them: keys, columns and sentence lines."""
        keys, blocks = np.empty((part.rows, self.model.dimension), dtype=np.float16), []
        for start in range(0, part.rows, _ROWS_AT_ONCE):
            end = min(start + _ROWS_AT_ONCE, part.rows)
            keys[start:end], block = self._read_block(part.first + start, part.first + end)
            blocks.append(block)
            progress.advance(end - start)
        self.check.refuse_mismatch()
        columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        first, counts = self.corpus.pairs, np.diff(part.ends, prepend=0)
        columns["sentence"] = np.repeat(np.arange(first, first + len(counts)), counts)
        columns["position"] = part.position
        return keys, columns, self._lines(part, columns["values"])

    def _read_block(self, first: int, last: int) -> tuple[NDArray[np.float16], dict[str, NDArray[Any]]]:
        """Read keys and values of some entries, and score them with the model."""
        stored, values = self.source.keys.read(first, last), self.source.values.column(first, last)
        self.digest.update(stored.tobytes())
        self.digest.update(values.tobytes())
        self._check_values(values, first)
        keys = stored.astype(np.float32)
        for kind in (OUT, FFN_IN):
            self.check.marked[kind] += int(np.count_nonzero(self.model.matches_key_kind(kind, keys)))
        if self.check.kind == FFN_IN:
            keys = self.model.apply_last_ffn(keys)
        half = self._half(keys, first)
        predictions, log_p_gold, entropy = self.model.score_keys(keys, values)
        known = values == predictions
        self.check.add_entries(values, predictions)
        for name, ours in ((PREDICTIONS, predictions), (KNOWN, known)):
            if name in self.source.extras:
                theirs = self.source.extras[name].column(first, last)
                self.check.add_differing(name, int(np.count_nonzero(theirs != ours)))
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
                f"has tokens 0 to {self.model.vocabulary_size - 1}; name the model that the store was built with"
            )

    def _half(self, keys: NDArray[np.float32], first: int) -> NDArray[np.float16]:
        with np.errstate(over="ignore"):
            half = keys.astype(np.float16)
        finite = np.isfinite(half).all(axis=1)
        if not finite.all():
            raise StoreError(
                f"{self.source.keys.path}: the key of entry {first + int(finite.argmin())} is not finite in float16; "
                "copy the store again, or build it again"
            )
        return half

    def _weights(self, first: int, last: int) -> dict[str, NDArray[Any]]:
        """Read how many entries each one represents, if the store was merged."""
        if WEIGHTS not in self.source.extras:
            return {}
        weights = self.source.extras[WEIGHTS].column(first, last)
        if (weights < 1).any():
            row = int((weights < 1).argmax())
            path = self.source.extras[WEIGHTS].path
            raise StoreError(f"{path}: entry {first + row} has the weight {weights[row]}; allowed is 1 or more")
        return {"weights": weights}

    def _lines(self, part: ShardRange, values: NDArray[np.int64]) -> list[bytes]:
        """Decode the sentences of a shard, and count those without end token."""
        lines, file = [], self.source.values.path.name
        for sentence, place in zip(np.split(values, part.ends[:-1]), part.places, strict=True):
            pair = SentencePair("", self.model.decode(sentence.tolist()), Origin(file, place))
            lines.append(pair_to_line(pair))
            self.corpus.add(lines[-1], file)
        self.without_end += int(np.count_nonzero(values[part.ends - 1] != self.model.eos_id))
        return lines

    def manifest(self, folder: Path, shards: list[ShardRecord], shard_rows: int, ghosts: int) -> Manifest:
        """Return the manifest of the new store."""
        source, model = self.source, self.model
        settings: dict[str, JsonValue] = {"format": source.format, "key": self.check.kind, "ghosts": ghosts}
        return Manifest(
            lacuna=__version__,
            entries=self.check.entries,
            sentences=self.corpus.pairs,
            skipped=0,
            dimension=model.dimension,
            vocabulary_size=model.vocabulary_size,
            model=describe_model(model),
            corpus=self.corpus.record().model_copy(update={"files": source.files}),
            settings=BuildSettings(shard_rows=shard_rows),
            mean=write_mean(folder, shards, model.dimension),
            shards=tuple(shards),
            parent=Parent(
                fingerprint=self.digest.hexdigest(), entries=source.entries, made_by="import", settings=settings
            ),
        )


@dataclass(slots=True)
class ImportCheck:
    """Statistics that show whether keys, values and model belong together.

    :param kind: The expected kind of the keys.
    :param marked: For each kind, the number of keys that can be of it.
    :param differing: For each column with recorded predictions, the number of entries where the model differs.
    """

    name: str
    kind: str
    vocabulary_size: int
    entries: int = 0
    known: int = 0
    marked: dict[str, int] = field(default_factory=lambda: {OUT: 0, FFN_IN: 0})
    differing: dict[str, int] = field(default_factory=dict)
    _values: NDArray[np.int64] = field(init=False)
    _predictions: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self._values, self._predictions = (np.zeros(self.vocabulary_size, dtype=np.int64) for _ in range(2))

    def add_entries(self, values: NDArray[np.int64], predictions: NDArray[np.int64]) -> None:
        """Count entries."""
        self.entries += len(values)
        self.known += int(np.count_nonzero(values == predictions))
        self._values += np.bincount(values, minlength=self.vocabulary_size)
        self._predictions += np.bincount(predictions, minlength=self.vocabulary_size)

    def add_differing(self, column: str, count: int) -> None:
        """Count entries whose recorded prediction differs."""
        self.differing[column] = self.differing.get(column, 0) + count

    @property
    def agreement(self) -> float:
        """Cohen's kappa of values and predictions: 0 by chance, 1 if all entries are known."""
        by_chance = float(self._values @ self._predictions) / self.entries**2
        return (self.known / self.entries - by_chance) / (1 - by_chance) if by_chance < 1 else 1.0

    def refuse_mismatch(self) -> None:
        """Raise an error if keys, values and model cannot belong together."""
        likely = [kind for kind, count in self.marked.items() if count >= _MARKED * self.entries]
        if self.kind not in likely:
            way_out = (
                f"they look like {likely[0]}: give `key` {likely[0]}" if likely else "name the model that computed them"
            )
            raise StoreError(
                f"{self.name}: only {self.marked[self.kind]:,} of {self.entries:,} keys can be its keys of kind "
                f"{self.kind}; {way_out}"
            )
        for column, count in self.differing.items():
            if count > max(1, _DIFFERING * self.entries):
                raise StoreError(
                    f"{self.name}: {column} differs from the predictions of the model for {count:,} of "
                    f"{self.entries:,} entries; name the model that computed the keys"
                )
        if self.agreement < _AGREEMENT:
            raise StoreError(
                f"{self.name}: predicts {self.known / self.entries:.1%} of the first {self.entries:,} values, not more "
                "than by chance; name the model of these keys and values, with its own vocabulary"
            )
