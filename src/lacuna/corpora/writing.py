"""Writing pairs as tab-separated text that :func:`lacuna.corpora.read_corpus` and any other tool can read.

Knows nothing of cleaning; changes only what the format cannot hold.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from lacuna.corpora.base import content_suffix
from lacuna.errors import CorpusError
from lacuna.files import atomic_path
from lacuna.records import SentencePair

_SEPARATORS = re.compile(r"\r\n|[\t\n\r]")


def write_tsv(path: str | Path, pairs: Iterable[SentencePair]) -> int:
    r"""Write ``source<TAB>target``, and ``<TAB>tag`` after pairs that have a tag; return the number of pairs.

    A tab, ``\n``, ``\r`` or ``\r\n`` inside a text becomes one space: escapes would have to be undone by every other
    tool that reads the file. A byte order mark before a text is left out. Equal pairs make equal bytes, compressed too.

    :param path: Ends in ``.tsv``, ``.tsv.gz`` or ``.tsv.xz``; the file is whole or absent, never half.
    :param pairs: Read once. Nothing is written if reading them fails.
    """
    path = Path(path)
    if content_suffix(path) != ".tsv":
        raise CorpusError(f"{path}: write_tsv writes .tsv, .tsv.gz or .tsv.xz; change the name's suffix")
    count = 0
    with atomic_path(path) as temporary, _open(temporary, path.suffix.lower()) as file:
        for pair in pairs:
            try:
                file.write(_line(pair).encode())
            except UnicodeEncodeError as error:
                raise CorpusError(
                    f"{path}: the pair from {pair.origin} holds half a surrogate pair, "
                    "which UTF-8 cannot spell; drop that pair"
                ) from error
            count += 1
    return count


def _line(pair: SentencePair) -> str:
    columns = [_field(pair.source), _field(pair.target)]
    if tag := _field(pair.origin.tag or ""):
        columns.append(tag)
    return "\t".join(columns) + "\n"


def _field(text: str) -> str:
    return _SEPARATORS.sub(" ", text.lstrip("\ufeff"))


@contextmanager
def _open(temporary: Path, compression: str) -> Iterator[BinaryIO]:
    """Open for writing; the compression is that of the final name, which the temporary one does not show."""
    with temporary.open("wb") as raw:
        if compression == ".gz":
            # No name and no time in the header: the same pairs must give the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed, _buffered(packed) as file:
                yield file
        elif compression == ".xz":
            with lzma.LZMAFile(raw, "wb") as packed_xz, _buffered(packed_xz) as file:
                yield file
        else:
            yield raw


def _buffered(file: gzip.GzipFile | lzma.LZMAFile) -> io.BufferedWriter:
    # Compressors are slow at many small writes.
    return io.BufferedWriter(cast(io.RawIOBase, file), buffer_size=1 << 18)
