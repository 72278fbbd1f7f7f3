"""What all readers share: the unit they yield, opening a file whatever its compression, comparing languages.

Knows nothing of any one format, and nothing of where in the user's words a file was named.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from lacuna.errors import CorpusError

COMPRESSIONS = (".gz", ".xz")

_BROKEN_COMPRESSION = (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError)


class Unit(NamedTuple):
    """One translation as a reader found it, before it is given an origin.

    :param source: Text in the source language.
    :param target: Its translation.
    :param place: Line number, or the unit's own id.
    :param tag: The label the file itself gives the unit, where it gives one.
    """

    source: str
    target: str
    place: str
    tag: str | None = None


def content_suffix(path: Path) -> str:
    """Return the suffix that names the format, in lower case: ``.tsv`` of ``a.tsv`` and of ``a.tsv.gz``."""
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return inner.suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, unpacking ``.gz`` and ``.xz`` on the way.

    Damage to the compression shows up only while reading, so it is caught here, around the whole use.
    """
    try:
        file = _open(path)
    except OSError as error:
        raise CorpusError(f"{path}: cannot be opened ({error.strerror}); check the name and the permissions") from error
    try:
        with file:
            yield file
    except _BROKEN_COMPRESSION as error:
        suffix = path.suffix.lower()
        raise CorpusError(
            f"{path}: damaged or not compressed as {suffix} says ({error}); fetch or compress the file again"
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
    r"""Yield the lines of a UTF-8 file without their ends; a byte order mark is dropped.

    Lines end at ``\n`` or ``\r\n`` and nowhere else: U+2028, U+0085 and form feeds occur inside sentences, and
    splitting there would shift every following line against the other language.
    """
    with open_bytes(path) as file:
        for number, raw in enumerate(file, start=1):
            text = decode(path, number, raw)
            if number == 1:
                text = text.removeprefix("\ufeff")
            yield text.removesuffix("\n").removesuffix("\r")


def decode(path: Path, line: int, raw: bytes, encoding: str = "utf-8") -> str:
    """Decode one line, or say which line of which file is broken."""
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path}:{line}: not {encoding.upper()} (byte 0x{raw[error.start]:02x} at column {error.start + 1}); "
            f"convert the file, for example with: iconv -t UTF-8"
        ) from error


def normalize_language(code: str) -> str:
    """Write a language code one way: ``pt_BR``, ``pt-BR`` and ``PT-br`` become ``pt-br``."""
    return code.strip().replace("_", "-").lower()


def language_matches(wanted: str, found: str) -> bool:
    """Tell whether a language found in a file is the one wanted, or a regional form of it (``de`` takes ``de-AT``)."""
    wanted, found = normalize_language(wanted), normalize_language(found)
    return found == wanted or found.startswith(wanted + "-")
