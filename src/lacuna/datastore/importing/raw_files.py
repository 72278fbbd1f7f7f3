"""Columns in the files of others: raw numbers in C order, or true ``.npy`` files with a header.

Files are read a stretch at a time and never mapped, so that memory stays bounded; nothing is ever unpickled. Knows
nothing of what the columns mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lacuna.errors import StoreError

_NPY = b"\x93NUMPY"


@dataclass(frozen=True, slots=True)
class Rows:
    """A table of numbers in a file.

    :param width: Numbers in a row.
    :param offset: Bytes before the first.
    """

    path: Path
    dtype: np.dtype[Any]
    rows: int
    width: int = 1
    offset: int = 0

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Read some rows: ``(last - first, width)``."""
        start, count = self.offset + first * self.width * self.dtype.itemsize, (last - first) * self.width
        try:
            numbers = np.fromfile(self.path, dtype=self.dtype, count=count, offset=start)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be read ({error.strerror}); check the file") from error
        if len(numbers) != count:
            raise StoreError(f"{self.path}: became shorter while it was read; copy it again")
        return numbers.reshape(last - first, self.width)

    def column(self, first: int, last: int) -> NDArray[np.int64]:
        """Read some rows of one whole number each."""
        return self.read(first, last)[:, 0].astype(np.int64)


def size_of(path: Path) -> int:
    """Give the size of a file that must be there."""
    if not path.is_file():
        raise StoreError(f"{path}: missing; copy the store again")
    return path.stat().st_size


def has_header(path: Path) -> bool:
    """Tell a true ``.npy`` file from raw numbers under that name."""
    size_of(path)
    try:
        with path.open("rb") as file:
            return file.read(len(_NPY)) == _NPY
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror}); check the permissions") from error


def with_header(path: Path) -> Rows:
    """Read the header of a ``.npy`` file; pickled objects are refused."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: not an array of numbers that can be read ({error}); copy it again") from error
    if array.ndim not in (1, 2) or not array.flags.c_contiguous:
        raise StoreError(f"{path}: holds shape {array.shape}; allowed is a list or a table of numbers, row by row")
    return Rows(path, array.dtype, len(array), 1 if array.ndim == 1 else array.shape[1], array.offset)


def raw(path: Path, dtype: np.dtype[Any], rows: int, width: int, *, longer: bool = False) -> Rows:
    """Take a file as raw numbers, once it is sure that it holds so many.

    :param longer: Whether the file may hold more than that, as where room was made beforehand.
    """
    size, needed = size_of(path), rows * width * dtype.itemsize
    if size < needed or (size > needed and not longer):
        raise StoreError(
            f"{path}: has {size:,} bytes, not the {needed:,} of {rows:,} x {width} numbers of type {dtype}; "
            "it was cut off or is of another store: copy it again"
        )
    return Rows(path, dtype, rows, width)
