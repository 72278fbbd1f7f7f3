"""Verify a store: hashes of all files, consistency of all columns, and keys against the model.

Takes a function from keys to predictions instead of a model. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.artifacts.files import reading, sha256_of
from lacuna.artifacts.manifests import read_object, seal_problem
from lacuna.datastore.columns import (
    COLUMNS,
    KEYS,
    MEAN,
    OPTIONAL,
    SENTENCES,
    SHARD_FILES,
    STARTS,
    line_to_pair,
    map_array,
    map_bytes,
    record_of,
    shard_folder,
)
from lacuna.datastore.log import check_log
from lacuna.datastore.manifest import MANIFEST, FileRecord, Manifest, ShardRecord, read_store_manifest
from lacuna.datastore.segments import MEMORY, is_edited, read_memory_manifest
from lacuna.datastore.store import Store, check_size
from lacuna.errors import StoreError
from lacuna.progress import SILENT, Progress

_KEYS_AT_ONCE = 8192
_PREDICTED_AT_ONCE = 4096
# What may be added to a store later, by folder: the fields of its manifest that record a file, and the name of the file
# if the field does not have it.
_PARTS: dict[str, dict[str, str]] = {
    "index": {"data": ""},
    "margin": {"data": "margin.npy", "unknown": "unknown.npy", "rows": "rows.npy"},
}
LINK = "milvus.json"
_AGAIN = "make it again"
# Largest share of predictions that rounding to float16 may change. It was 0.1 % at most for all models measured.
_ROUNDING = 0.01


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Result of a verification.

    :param files: Number of files checked.
    :param bytes: Their size.
    :param problems: One line per problem, with the file.
    """

    path: Path
    entries: int
    files: int
    bytes: int
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON content."""
        return {
            "store": str(self.path),
            "sound": self.sound,
            "entries": self.entries,
            "files": self.files,
            "bytes": self.bytes,
            "problems": list(self.problems),
        }


def verify_store(path: str | Path, progress: Progress = SILENT) -> VerifyReport:
    """Check hashes, row counts and ranges, and that the columns agree with each other, in all segments.

    :raises StoreError: There is no finished store, or its manifest cannot be read.
    """
    folder = Path(path)
    if not is_edited(folder):
        return _verify_folder(folder, progress)
    memory = read_memory_manifest(folder)
    if memory.never_edited:
        return _verify_folder(folder, progress)
    reports, problems = [], [*_check_parts(folder), *check_log(folder, memory)]
    for record in memory.segments:
        reports.append(_verify_folder(folder / record.folder, progress))
        with reading(folder / record.folder / MANIFEST):
            sha256 = sha256_of(folder / record.folder / MANIFEST)
        if sha256 != record.manifest:
            problems.append(f"{folder / record.folder / MANIFEST}: not the segment that {folder / MEMORY} names")
        if record.forgotten is not None:
            problems += _check_file(record.forgotten.path(folder), record.forgotten.file)
    gone = [record.forgotten for record in memory.segments if record.forgotten is not None]
    return VerifyReport(
        folder,
        sum(report.entries for report in reports) - sum(forgotten.entries for forgotten in gone),
        sum(report.files for report in reports) + len(gone),
        sum(report.bytes for report in reports) + sum(forgotten.file.bytes for forgotten in gone),
        (*problems, *(problem for report in reports for problem in report.problems)),
    )


def _verify_folder(folder: Path, progress: Progress) -> VerifyReport:
    manifest = read_store_manifest(folder)
    problems = [*_stray(folder, manifest), *_check_parts(folder)]
    progress.start("verify", len(manifest.shards), "shards")
    total, first_sentence = np.zeros(manifest.dimension, dtype=np.float64), 0
    sums_complete = True
    for number, shard in enumerate(manifest.shards):
        shard_problems = list(_check_files(folder, number, shard))
        if not shard_problems:  # contents are checked only if the bytes are right
            shard_problems = list(_check_contents(folder, number, first_sentence, manifest, total))
        sums_complete &= not shard_problems
        problems += shard_problems
        first_sentence += shard.sentences
        progress.advance(1)
    problems += _check_mean(folder, manifest, total if sums_complete else None)
    progress.finish("no problem" if not problems else f"{len(problems)} problems")
    records = [manifest.mean, *(record for shard in manifest.shards for record in shard.files.values())]
    return VerifyReport(
        folder, manifest.entries, len(records), sum(record.bytes for record in records), tuple(problems)
    )


def _stray(folder: Path, manifest: Manifest) -> Iterator[str]:
    noted = {shard_folder(folder, number).name for number in range(len(manifest.shards))}
    shards = folder / "shards"
    for entry in sorted(shards.iterdir()) if shards.is_dir() else []:
        if entry.name not in noted:
            yield f"{entry}: not in the manifest"
    for name in OPTIONAL:
        having = sum(f"{name}.npy" in shard.files for shard in manifest.shards)
        if 0 < having < len(manifest.shards):
            yield f"{folder / MANIFEST}: {name}.npy is in {having} of {len(manifest.shards)} shards, not in all or none"


def _check_parts(folder: Path) -> Iterator[str]:
    """Check what was added to the store later: index and margins, their manifests and files, and the link to Milvus."""
    for path in sorted([*folder.glob(f"*/{MANIFEST}"), *folder.glob(LINK)]):
        problem = seal_problem(path)
        if problem is not None:
            yield problem
        elif path.parent.name in _PARTS:
            content = read_object(path, StoreError, missing=f"{path}: missing", again=_AGAIN)
            yield from _check_part_files(path.parent, content)


def _check_part_files(folder: Path, content: dict[str, Any]) -> Iterator[str]:
    """Check the files of an index or of margins against the hashes in their manifest."""
    for field, name in _PARTS[folder.name].items():
        record = content.get(field)
        if record is None:
            continue
        try:
            path = folder / (name or str(record["file"]))
            hashed = sha256_of(path) if "sha256" in record else record_of(path).xxh3
            if hashed != record.get("sha256", record.get("xxh3")):
                yield f"{path}: has the hash {hashed}, which is not in its manifest: changed or damaged"
        except OSError as error:
            yield f"{folder / (name or 'data')}: cannot be read ({error.strerror})"
        except (KeyError, TypeError):
            yield f"{folder / MANIFEST}: {field}: is no record of a file"


def _check_files(folder: Path, number: int, shard: ShardRecord) -> Iterator[str]:
    home = shard_folder(folder, number)
    for name in sorted({*SHARD_FILES, *shard.files}):
        if name not in shard.files:
            yield f"{home / name}: has no hash in the manifest"
        else:
            yield from _check_file(home / name, shard.files[name])


def _check_file(path: Path, record: FileRecord) -> Iterator[str]:
    try:
        check_size(path, record)
        xxh3 = record_of(path).xxh3
    except StoreError as error:
        yield str(error)
    except OSError as error:
        yield f"{path}: cannot be read ({error.strerror})"
    else:
        if xxh3 != record.xxh3:
            yield f"{path}: has the hash {xxh3}, not {record.xxh3}: changed or damaged"


def _check_contents(
    folder: Path, number: int, first_sentence: int, manifest: Manifest, total: NDArray[np.float64]
) -> Iterator[str]:
    """Check the contents of a shard with correct hashes, and add its keys to ``total``."""
    home, shard = shard_folder(folder, number), manifest.shards[number]
    try:
        present = COLUMNS | {name: dtype for name, dtype in OPTIONAL.items() if f"{name}.npy" in shard.files}
        columns = {name: map_array(home / f"{name}.npy", dtype, (shard.rows,)) for name, dtype in present.items()}
        keys = map_array(home / f"{KEYS}.npy", np.float16, (shard.rows, manifest.dimension))
        starts = map_array(home / f"{STARTS}.npy", np.int64, (shard.sentences + 1,))
    except StoreError as error:
        yield str(error)
        return
    last_sentence = first_sentence + shard.sentences
    for name, low, high in (
        ("values", 0, manifest.vocabulary_size),
        ("predictions", 0, manifest.vocabulary_size),
        ("sentence", first_sentence, last_sentence),
    ):
        yield from _check_range(home / f"{name}.npy", columns[name], low, high)
    if not np.array_equal(columns["known"], columns["values"] == columns["predictions"]):
        yield f"{home / 'known.npy'}: known differs from prediction == value"
    for name, wrong in (("log_p_gold", columns["log_p_gold"] > 0), ("entropy", columns["entropy"] < 0)):  # type: ignore[operator]
        if wrong.any() or np.isnan(columns[name]).any():
            yield f"{home / f'{name}.npy'}: has numbers that are impossible for probabilities"
    yield from _check_weights(home, columns.get("weights"))
    yield from _check_order(home, columns, shard.sentences, manifest)
    yield from _check_keys(home, keys, total)
    yield from _check_sentences(home, starts, manifest.parent is not None)


def _check_range(path: Path, column: NDArray[np.generic], low: int, high: int) -> Iterator[str]:
    if len(column) and not low <= int(column.min()) <= int(column.max()) < high:
        yield f"{path}: has {column.min()} to {column.max()}, allowed is {low} to {high - 1}"


def _check_weights(home: Path, weights: NDArray[np.generic] | None) -> Iterator[str]:
    if weights is not None and not (np.isfinite(weights) & (weights > 0)).all():  # type: ignore[operator]
        yield f"{home / 'weights.npy'}: has weights that are not finite and above 0"


def _check_order(
    home: Path, columns: dict[str, NDArray[np.generic]], sentences: int, manifest: Manifest
) -> Iterator[str]:
    """Check that entries are in the order of the corpus and, for a store that was not pruned, that none is missing."""
    sentence, position = columns["sentence"].astype(np.int64), columns["position"].astype(np.int64)
    same = np.diff(sentence) == 0
    step = np.diff(position)
    if (np.diff(sentence) < 0).any() or (step[same] <= 0).any() or (position < 0).any():
        yield f"{home / 'position.npy'}: entries are not in the order of the corpus"
    elif manifest.parent is None and len(sentence):
        starts = np.flatnonzero(np.concatenate([[True], ~same]))
        ends = np.append(starts[1:], len(sentence)) - 1
        if position[starts].any() or (step[same] != 1).any():
            yield f"{home / 'position.npy'}: positions of a sentence do not run from 0 without a gap"
        if (columns["values"][ends] != manifest.model.eos_id).any():
            yield f"{home / 'values.npy'}: a sentence does not end with the end token {manifest.model.eos_id}"
        if len(starts) != len(np.unique(sentence)) or len(starts) != sentences:
            yield f"{home / 'sentence.npy'}: a sentence has no entry"


def _check_keys(home: Path, keys: NDArray[np.generic], total: NDArray[np.float64]) -> Iterator[str]:
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        block = keys[start : start + _KEYS_AT_ONCE].astype(np.float32)
        rows_finite = np.isfinite(block).all(axis=1)
        if not rows_finite.all():
            yield f"{home / f'{KEYS}.npy'}: the key of row {start + int(rows_finite.argmin())} is not finite"
            return
        total += block.sum(axis=0, dtype=np.float64)


def _check_sentences(home: Path, starts: NDArray[np.generic], has_parent: bool) -> Iterator[str]:
    text, offsets = map_bytes(home / SENTENCES), starts.astype(np.int64)
    min_length = 0 if has_parent else 1  # compaction leaves empty lines for forgotten sentences
    if offsets[0] != 0 or offsets[-1] != len(text) or (np.diff(offsets) < min_length).any():
        yield f"{home / f'{STARTS}.npy'}: does not match the lines of {SENTENCES}"
        return
    for number in range(len(offsets) - 1):
        line = text[offsets[number] : offsets[number + 1]].tobytes()
        try:
            if line:
                line_to_pair(line)
        except StoreError as error:
            yield f"{home / SENTENCES}:{number + 1}: not a sentence pair ({error.__cause__})"
            return


def _check_mean(folder: Path, manifest: Manifest, total: NDArray[np.float64] | None) -> Iterator[str]:
    """Check the file of the mean, and its numbers if all keys could be summed."""
    problems = list(_check_file(folder / MEAN, manifest.mean))
    yield from problems
    if problems or total is None or not manifest.entries:
        return
    try:
        mean = map_array(folder / MEAN, np.float32, (manifest.dimension,)).astype(np.float64)
    except StoreError as error:
        yield str(error)
        return
    # Sums of blocks and sums of shards differ in the last bits of a float64, and the mean is a float32.
    if not np.allclose(mean, total / manifest.entries, rtol=1e-5, atol=1e-6):
        yield f"{folder / MEAN}: not the mean of the keys"


@dataclass(frozen=True, slots=True)
class PredictionReport:
    """Comparison of stored predictions with those that the model makes from the stored keys.

    :param mismatches: Entries where both differ.
    """

    entries: int
    mismatches: int

    @property
    def sound(self) -> bool:
        """Whether rounding explains the mismatches."""
        return self.mismatches <= max(1, _ROUNDING * self.entries)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON content."""
        return {"entries": self.entries, "mismatches": self.mismatches}


def compare_predictions(
    store: Store, predict: Callable[[NDArray[np.float16]], NDArray[np.int64]], progress: Progress = SILENT
) -> PredictionReport:
    """Check that a store's keys still reproduce the model's predictions.

    :param predict: Returns the most probable token for each key.
    """
    mismatches = 0
    progress.start("predict from keys", store.entries, "entries")
    for first, keys in store.keys.blocks(_PREDICTED_AT_ONCE):
        mismatches += int(np.count_nonzero(predict(keys) != store.predictions[first : first + len(keys)]))
        progress.advance(len(keys))
    progress.finish()
    return PredictionReport(store.entries, mismatches)
