"""Files of all formats: opening compressed ones, decoding lines, and bounds on what a file may hold.

Knows no format and no command line.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from lacuna.errors import CorpusError, FormatError

COMPRESSIONS = (".gz", ".xz")
# Sentences have a few hundred bytes. The bound protects memory: a few kilobytes can unpack to one endless line.
MAX_LINE_BYTES = 2**20
# Bytes of the largest part of a file that is kept in memory at once, such as a unit.
MAX_PART_BYTES = 16_000_000

_DAMAGED_COMPRESSION = (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError)
_PARALLEL_TEXT = "check that the file is parallel text with one sentence per line or unit"


def content_suffix(path: Path) -> str:
    """Return the suffix that names the format, in lower case: ``.tsv`` for ``a.tsv`` and for ``a.tsv.gz``."""
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return inner.suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading and decompress ``.gz`` and ``.xz``.

    Damaged compression shows up only while reading, so it is caught around the whole ``with`` block.
    """
    try:
        file = _open(path)
    except OSError as error:
        raise CorpusError(f"{path}: cannot be opened ({error.strerror}); check the name and the permissions") from error
    try:
        with file:
            yield file
    except _DAMAGED_COMPRESSION as error:
        suffix = path.suffix.lower()
        raise CorpusError(
            f"{path}: damaged, or not compressed as {suffix} ({error}); download or compress the file again"
        ) from error


def _open(path: Path) -> BinaryIO:
    match path.suffix.lower():
        case ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        case ".xz":
            return cast(BinaryIO, lzma.open(path, "rb"))
        case _:
            return path.open("rb")


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file without line ends; a byte order mark is dropped.

    Only ``\n`` and ``\r\n`` end a line. U+2028, U+0085 and form feeds occur inside sentences, and splitting there would
    misalign all following lines with the other language.
    """
    with open_bytes(path) as file:
        for number, text in enumerate(decode_lines(file, path)):
            yield text if number else text.removeprefix("\ufeff")


def decode_lines(file: BinaryIO, name: str | Path) -> Iterator[str]:
    """Yield the lines of an open UTF-8 file without line ends, reading no line beyond :data:`MAX_LINE_BYTES`.

    :param name: The file, for errors.
    """
    number = 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        check_length(f"{name}:{number}", "the line", len(raw))
        yield decode_line(name, number, raw).removesuffix("\n").removesuffix("\r")


def decode_line(name: str | Path, line: int, raw: bytes, encoding: str = "utf-8") -> str:
    """Decode one line.

    :param name: The file, for the error.
    :param line: The line number, for the error.
    """
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{name}:{line}: not {encoding.upper()} (byte 0x{raw[error.start]:02x} at column {error.start + 1}); "
            "convert the file, for example with: iconv -t UTF-8"
        ) from error


def check_length(where: str, what: str, size: int, remedy: str = _PARALLEL_TEXT) -> None:
    """Refuse a line or text of more than :data:`MAX_LINE_BYTES` bytes or characters.

    :param where: File and line, or file and id.
    :param what: The subject of the error, such as ``the line``.
    """
    if size > MAX_LINE_BYTES:
        raise FormatError(f"{where}: {what} is longer than {MAX_LINE_BYTES:,} bytes, the longest allowed; {remedy}")
