"""The file formats of other toolkits' stores: raw numbers in C order, or ``.npy`` files with a header.

Files are read block by block and never mapped, so that memory is bounded; nothing is unpickled. Knows nothing of
models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import SettingError, StoreError

KNN_BOX, ADAPTIVE, KNN_TRANSFORMERS = "knn-box", "adaptive-knn-mt", "knn-transformers"
LOOKED_FOR = {
    KNN_BOX: "keys.npy, vals.npy and config.json with data_infos",
    ADAPTIVE: "keys.npy and vals.npy",
    KNN_TRANSFORMERS: "dstore_MODEL_ENTRIES_DIMENSION_keys.npy and _vals.npy",
}
KEYS, VALUES, CONFIG = "keys.npy", "vals.npy", "config.json"
PREDICTIONS, KNOWN, WEIGHTS = "mt_preds", "mt_known", "merge_weights"
SENTENCE_IDS, POSITIONS = "sentence_ids", "token_positions"
_EXTRAS = (PREDICTIONS, KNOWN, WEIGHTS, SENTENCE_IDS, POSITIONS)

_HALF, _SINGLE, _LONG, _INT = (np.dtype(name) for name in ("<f2", "<f4", "<i8", "<i4"))
_DSTORE = re.compile(r"dstore_.+_(\d+)_(\d+)_keys\.npy")
_VALUES_TRIED = 4096
_NPY = b"\x93NUMPY"


@dataclass(frozen=True, slots=True)
class NumberTable:
    """A table of numbers in a file.

    :param width: Numbers per row.
    :param offset: Bytes before the first number.
    """

    path: Path
    dtype: np.dtype[Any]
    rows: int
    width: int = 1
    offset: int = 0

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Read rows ``first`` to ``last``: ``(last - first, width)``."""
        start, count = self.offset + first * self.width * self.dtype.itemsize, (last - first) * self.width
        try:
            numbers = np.fromfile(self.path, dtype=self.dtype, count=count, offset=start)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be read ({error.strerror}); check the file") from error
        if len(numbers) != count:
            raise StoreError(f"{self.path}: was truncated while it was read; copy it again")
        return numbers.reshape(last - first, self.width)

    def column(self, first: int, last: int) -> NDArray[np.int64]:
        """Read rows ``first`` to ``last`` of one integer each."""
        return self.read(first, last)[:, 0].astype(np.int64)


@dataclass(frozen=True, slots=True)
class ForeignStore:
    """An opened store of another toolkit.

    :param key: The kind of keys that the toolkit writes by default: ``out`` or ``ffn_in``.
    :param entries: Number of rows to import, from the first.
    :param extras: Optional columns, by their names in knn-box.
    """

    format: str
    key: str
    entries: int
    keys: NumberTable
    values: NumberTable
    extras: Mapping[str, NumberTable]

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files, without folders."""
        return tuple(rows.path.name for rows in (self.keys, self.values, *self.extras.values()))


def recognize_store(source: Path) -> str | None:
    """Return the toolkit of a store, as a name of :data:`LOOKED_FOR`; None if there is no such store."""
    if not source.is_dir():
        return None
    if any(source.glob("dstore_*_keys.npy")):
        return KNN_TRANSFORMERS
    if not (source / KEYS).is_file():
        return None
    return KNN_BOX if (source / CONFIG).is_file() else ADAPTIVE


def open_foreign_store(folder: Path, dimension: int, vocabulary_size: int, entries: int | None = None) -> ForeignStore:
    """Open a store of another toolkit.

    :param dimension: Dimension of the model's keys.
    :param vocabulary_size: Number of tokens of the model.
    :param entries: Number of entries to import; by default all.
    """
    if entries is not None and entries < 1:
        raise SettingError(f"entries: got {entries}; allowed is 1 or more")
    name = recognize_store(folder)
    if name is None:
        looked_for = "; ".join(f"{each}: {files}" for each, files in LOOKED_FOR.items())
        raise StoreError(f"{folder}: not a store that can be imported; looked for {looked_for}")
    extras: dict[str, NumberTable] = {}
    if name == KNN_BOX:
        keys, values, extras = _open_knn_box(folder)
    elif name == KNN_TRANSFORMERS:
        keys, values = _open_knn_transformers(folder)
    else:
        keys, values = _deduce(folder, dimension, vocabulary_size, entries)
    _check(keys, values, extras, dimension)
    if entries is not None and entries > keys.rows:
        raise SettingError(f"entries: got {entries:,}; {keys.path} has {keys.rows:,}")
    key = "ffn_in" if name == KNN_TRANSFORMERS else "out"
    return ForeignStore(name, key, keys.rows if entries is None else entries, keys, values, extras)


def _check(keys: NumberTable, values: NumberTable, extras: Mapping[str, NumberTable], dimension: int) -> None:
    if keys.width != dimension:
        raise StoreError(
            f"{keys.path}: its keys have dimension {keys.width}, those of the model {dimension}; "
            "name the model that computed them"
        )
    if keys.dtype.kind != "f" or any(rows.dtype.kind not in "iub" for rows in (values, *extras.values())):
        kinds = ", ".join(f"{rows.path.name} {rows.dtype}" for rows in (keys, values, *extras.values()))
        raise StoreError(f"{keys.path.parent}: got {kinds}; keys must be floating-point numbers, all others integers")
    for rows in (values, *extras.values()):
        if (rows.rows, rows.width) != (keys.rows, 1):
            raise StoreError(
                f"{rows.path}: has {rows.rows:,} rows of {rows.width}, not one number for each of the {keys.rows:,} "
                f"keys in {keys.path.name}; copy the store again"
            )


# --- knn-box: config.json has shape and type of every column ---------------------------------------------------------


def _open_knn_box(folder: Path) -> tuple[NumberTable, NumberTable, dict[str, NumberTable]]:
    try:
        infos = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["data_infos"]
        shapes = {name: tuple(map(int, info["shape"])) for name, info in infos.items()}
        types = {name: str(info["dtype"]) for name, info in infos.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{folder / CONFIG}: not the config of a knn-box store ({type(error).__name__}: {error}); copy it again"
        ) from error
    missing = {"keys", "vals"} - set(infos)
    if missing:
        raise StoreError(f"{folder / CONFIG}: has no {' and no '.join(sorted(missing))}; copy the store again")

    def column(name: str) -> NumberTable:
        path = folder / f"{name}.npy"
        return with_header(path) if has_header(path) else _stated(path, shapes[name], types[name])

    # As in knn-box: a column that is listed but has no file was never saved.
    extras = {name: column(name) for name in _EXTRAS if name in infos and (folder / f"{name}.npy").is_file()}
    return column("keys"), column("vals"), extras


def _stated(path: Path, shape: tuple[int, ...], stated: str) -> NumberTable:
    """Open a raw file as described in the config; knn-box writes integers of any type with 64 bits."""
    if len(shape) not in (1, 2) or min(shape) < 1:
        raise StoreError(f"{path}: {CONFIG} gives it the shape {shape}; allowed are one or two numbers above 0")
    width = shape[1] if len(shape) == 2 else 1
    known = {"float16": _HALF, "float32": _SINGLE, "bool": np.dtype(np.bool_), "int": _LONG}
    dtype = next((dtype for name, dtype in known.items() if name in stated), None)
    if dtype is None:
        raise StoreError(f"{path}: {CONFIG} gives it the type {stated!r}; allowed are {', '.join(known)}")
    if "int32" in stated and size_of(path) == shape[0] * width * _INT.itemsize:
        dtype = _INT
    # Files are larger than needed while a store grows, and are not always truncated at the end.
    return raw(path, dtype, shape[0], width, longer=True)


# --- knn-transformers: shapes are in the names of the files ----------------------------------------------------------


def _open_knn_transformers(folder: Path) -> tuple[NumberTable, NumberTable]:
    names = sorted(path.name for path in folder.glob("dstore_*_keys.npy"))
    match = _DSTORE.fullmatch(names[0])
    if len(names) > 1 or match is None:
        raise StoreError(
            f"{folder}: has {', '.join(names)}; there must be one dstore_MODEL_ENTRIES_DIMENSION_keys.npy in the folder"
        )
    rows, width = map(int, match.groups())
    keys, values = folder / names[0], folder / names[0].replace("_keys.npy", "_vals.npy")
    return (
        with_header(keys) if has_header(keys) else raw(keys, _HALF, rows, width),
        with_header(values) if has_header(values) else raw(values, _INT, rows, 1),
    )


# --- adaptive-knn-mt and similar: types are deduced from the sizes of the files --------------------------------------


def _deduce(folder: Path, dimension: int, vocabulary_size: int, entries: int | None) -> tuple[NumberTable, NumberTable]:
    """Find types for which both files have the same number of rows and the values are tokens."""
    keys, values = folder / KEYS, folder / VALUES
    fitting = [
        (some_keys, some_values)
        # 64-bit values first: read as 32-bit values they would be tokens too, with zeros in between.
        for some_values in _readings(values, (_LONG, _INT), 1)
        for some_keys in _readings(keys, (_HALF, _SINGLE), dimension)
        if some_keys.rows == some_values.rows and _are_tokens(some_values, vocabulary_size)
    ]
    chosen = [pair for pair in fitting if pair[0].rows == entries] or fitting
    if not chosen:
        raise StoreError(
            f"{folder}: {KEYS} has {size_of(keys):,} bytes and {VALUES} {size_of(values):,}, which are not keys of "
            f"dimension {dimension} (16 or 32 bits) with as many values (64 or 32 bits, below {vocabulary_size:,}); "
            "a file is truncated, or the keys are from another model"
        )
    return chosen[0]


def _readings(path: Path, dtypes: tuple[np.dtype[Any], ...], width: int) -> Iterator[NumberTable]:
    if has_header(path):
        yield with_header(path)
        return
    for dtype in dtypes:
        rows, rest = divmod(size_of(path), width * dtype.itemsize)
        if rows and not rest:
            yield NumberTable(path, dtype, rows, width)


def _are_tokens(values: NumberTable, vocabulary_size: int) -> bool:
    sample = values.column(0, min(values.rows, _VALUES_TRIED))
    sample = sample[sample != 0]  # empty rows are zero in any type
    # A few wrong values are reported by the import; with the wrong type most of them are wrong.
    return not len(sample) or bool(np.mean((sample > 0) & (sample < vocabulary_size)) > 0.5)


# --- files: raw numbers, or .npy with a header ----------------------------------------------------------------------


def size_of(path: Path) -> int:
    """Return the size of a file, or raise an error if it is missing."""
    if not path.is_file():
        raise StoreError(f"{path}: missing; copy the store again")
    return path.stat().st_size


def has_header(path: Path) -> bool:
    """Tell a ``.npy`` file with a header from raw numbers with that suffix."""
    size_of(path)
    try:
        with path.open("rb") as file:
            return file.read(len(_NPY)) == _NPY
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror}); check the permissions") from error


def with_header(path: Path) -> NumberTable:
    """Open a ``.npy`` file with a header; pickled objects are refused."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: not an array of numbers that can be read ({error}); copy it again") from error
    if array.ndim not in (1, 2) or not array.flags.c_contiguous:
        raise StoreError(f"{path}: has shape {array.shape}; allowed are one or two dimensions, in C order")
    return NumberTable(path, array.dtype, len(array), 1 if array.ndim == 1 else array.shape[1], array.offset)


def raw(path: Path, dtype: np.dtype[Any], rows: int, width: int, *, longer: bool = False) -> NumberTable:
    """Open a file of raw numbers after checking its size.

    :param longer: Whether the file may be larger, because its size was reserved in advance.
    """
    size, needed = size_of(path), rows * width * dtype.itemsize
    if size < needed or (size > needed and not longer):
        raise StoreError(
            f"{path}: has {size:,} bytes, not the {needed:,} of {rows:,} x {width} numbers of type {dtype}; "
            "it is truncated or from another store: copy it again"
        )
    return NumberTable(path, dtype, rows, width)
