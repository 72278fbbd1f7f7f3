"""Plain text, and the encodings of all formats that are text. Does not split paragraphs into sentences."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import count
from typing import BinaryIO

from lacuna.documents.base import DocumentSegment
from lacuna.documents.inline_markup import (
    _WHITE_RUN,
    cut,
    span_of,
    text_pieces,
)
from lacuna.errors import DocumentError
from lacuna.formats.input_files import MAX_PART_BYTES
from lacuna.records import Languages

MAX_FILE_BYTES = 64_000_000  # bytes of a file that is read whole because its structure is not bound to lines

_BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_LINE_END = re.compile(r"\r\n?|\n")


class TextFormat:
    """Text of which every line is a paragraph, in UTF-8, or UTF-16 with a byte order mark."""

    name = "text"
    suffixes = (".txt", ".text")

    def parts(self, file: BinaryIO, name: str, languages: Languages) -> Iterator[bytes | DocumentSegment]:
        """Yield every line that has a letter as a segment, without the white space around it."""
        start = file.read(3)
        encoding, bom = detect_encoding(start)
        file.seek(len(bom) - len(start), io.SEEK_CUR)
        if bom:
            yield bom
        reader = io.TextIOWrapper(file, encoding, newline="")
        try:
            for number in count(1):
                line = _read_line(reader, encoding, name, number)
                if not line:
                    return
                span = span_of(text_pieces(line), _on_one_line)
                yield from cut(line, encoding, [span] if span else [], number)
        finally:
            reader.detach()  # the file belongs to the caller


def _read_line(reader: io.TextIOWrapper, encoding: str, name: str, number: int) -> str:
    try:
        line = reader.readline(MAX_PART_BYTES + 1)
    except UnicodeDecodeError as error:  # in the block that was read last, of which no line was returned yet
        before = error.object[: error.start].decode(encoding)
        raise _undecodable(error, encoding, name, number + len(_LINE_END.findall(before))) from error
    if len(line.encode(encoding)) > MAX_PART_BYTES:
        raise DocumentError(
            f"{name}:{number}: the line is longer than {MAX_PART_BYTES:,} bytes, the longest allowed; "
            "check that the file is text, or break the line"
        )
    _refuse_nul(line, name, number)
    return line


def _on_one_line(text: str) -> str:
    return _WHITE_RUN.sub(" ", text) if _LINE_END.search(text) else text


# --- encodings -------------------------------------------------------------------------------------------------------


def detect_encoding(start: bytes) -> tuple[str, bytes]:
    """Return the encoding that the byte order mark names, and the mark; UTF-8 without one.

    :param start: At least the first three bytes of the file, if it has as many.
    """
    return next(((encoding, bom) for bom, encoding in _BOMS.items() if start.startswith(bom)), ("utf-8", b""))


def read_whole(file: BinaryIO, name: str) -> bytes:
    """Read a file of at most :data:`MAX_FILE_BYTES` bytes."""
    content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise DocumentError(f"{name}: larger than {MAX_FILE_BYTES:,} bytes, the largest file allowed; split it")
    return content


def decode(content: bytes, encoding: str, name: str) -> str:
    """Decode a file without its byte order mark.

    :raises DocumentError: It is not of this encoding, or binary; the error names the line.
    """
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        before = content[: error.start].decode(encoding)
        raise _undecodable(error, encoding, name, 1 + len(_LINE_END.findall(before))) from error
    _refuse_nul(text, name, 1)
    return text


def _undecodable(error: UnicodeDecodeError, encoding: str, name: str, line: int) -> DocumentError:
    return DocumentError(
        f"{name}:{line}: not {encoding.upper()} (byte 0x{error.object[error.start]:02x}); "
        "convert the file, for example with: iconv -f WINDOWS-1252 -t UTF-8"
    )


def _refuse_nul(text: str, name: str, line: int) -> None:
    """Refuse binary files, and UTF-16 without a byte order mark, which decode as UTF-8 with NUL characters."""
    position = text.find("\0")
    if position >= 0:
        line += len(_LINE_END.findall(text, 0, position))
        raise DocumentError(
            f"{name}:{line}: a NUL character, which text does not have; "
            "if the file is UTF-16, convert it with: iconv -f UTF-16LE -t UTF-8"
        )
