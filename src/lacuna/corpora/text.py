"""Line-based parallel text: two plain files, TSV and JSON lines are read, TSV is written."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, cast

from lacuna.artifacts.files import atomic_path
from lacuna.corpora.units import Unit
from lacuna.errors import CorpusError
from lacuna.formats.input_files import content_suffix, read_lines
from lacuna.records import SentencePair

_SEPARATORS = re.compile(r"\r\n|[\t\n\r]")


def read_plain(source: Path, target: Path) -> Iterator[Unit]:
    """Yield line ``n`` of one file with line ``n`` of the other.

    Blank lines are yielded too: dropping one would misalign the two files.
    """
    sources, targets = read_lines(source), read_lines(target)
    for number, (left, right) in enumerate(zip_longest(sources, targets), start=1):
        if left is None or right is None:
            longer = number + sum(1 for _ in (targets if left is None else sources))
            counts = (number - 1, longer) if left is None else (longer, number - 1)
            raise CorpusError(
                f"{source} has {counts[0]:,} lines but {target} has {counts[1]:,}; "
                "line n of one file must translate line n of the other: align the files again"
            )
        yield Unit(left, right, str(number))


def read_tsv(path: Path) -> Iterator[Unit]:
    """Yield ``source<TAB>target`` or ``source<TAB>target<TAB>tag`` lines; empty lines are skipped."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            continue
        columns = line.split("\t")
        if len(columns) not in (2, 3):
            raise CorpusError(
                f"{path}:{number}: got {len(columns)} {'column' if len(columns) == 1 else 'columns'}; each line is "
                "source<TAB>target or source<TAB>target<TAB>tag: replace tabs inside the text by spaces"
            )
        tag = columns[2] if len(columns) == 3 else None
        yield Unit(columns[0], columns[1], str(number), tag or None)


def read_jsonl(path: Path) -> Iterator[Unit]:
    """Yield one ``{"source": ..., "target": ..., "tag": ..., "id": ...}`` per line; other keys are ignored."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        record = _object(where, line)
        source, target = _text(where, record, "source"), _text(where, record, "target")
        tag = None if record.get("tag") is None else _text(where, record, "tag")
        own = record.get("id")
        own = own if own is None or type(own) is int else _text(where, record, "id")
        yield Unit(source, target, str(number), tag or None, None if own in (None, "") else str(own))


def _object(where: str, line: str) -> dict[str, Any]:
    shape = '{"source": "...", "target": "..."}'
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{where}: not JSON ({error}); write one object per line: {shape}") from error
    if not isinstance(record, dict):
        raise CorpusError(f"{where}: got a JSON {type(record).__name__}; write one object per line: {shape}")
    return record


def _text(where: str, record: dict[str, Any], key: str) -> str:
    if key not in record:
        keys = ", ".join(map(repr, record)) or "none"
        raise CorpusError(f"{where}: no key '{key}', got {keys}; each object needs 'source' and 'target'")
    value = record[key]
    if not isinstance(value, str):
        raise CorpusError(f"{where}: '{key}' is a {type(value).__name__}, not a string; put the text in quotes")
    try:
        # JSON can spell half a character ("\ud83d"), which cannot be encoded again.
        value.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(f"{where}: '{key}' has half a surrogate pair; write the file as plain UTF-8") from error
    return value


def write_tsv(path: str | Path, pairs: Iterable[SentencePair]) -> int:
    r"""Write ``source<TAB>target``, and ``<TAB>tag`` after pairs that have a tag; return the number of pairs.

    A tab, ``\n``, ``\r`` or ``\r\n`` inside a text becomes one space, because other tools would not undo escapes. A
    byte order mark before a text is dropped. Equal pairs give equal bytes, also when compressed.

    :param path: Ends in ``.tsv``, ``.tsv.gz`` or ``.tsv.xz``. The file is written atomically.
    :param pairs: Read once. If reading them fails, no file is written.
    """
    path = Path(path)
    if content_suffix(path) != ".tsv":
        raise CorpusError(f"{path}: write_tsv writes .tsv, .tsv.gz or .tsv.xz; change the suffix")
    count = 0
    with atomic_path(path) as temporary, _open(temporary, path.suffix.lower()) as file:
        for pair in pairs:
            try:
                file.write(_line(pair).encode())
            except UnicodeEncodeError as error:
                raise CorpusError(
                    f"{path}: the pair from {pair.origin} has half a surrogate pair, "
                    "which UTF-8 cannot encode; drop that pair"
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
    """Open for writing, compressed as the final name says; the temporary name has another suffix."""
    with temporary.open("wb") as raw:
        if compression == ".gz":
            # Without name and time in the header, equal pairs give equal bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed, _buffered(packed) as file:
                yield file
        elif compression == ".xz":
            with lzma.LZMAFile(raw, "wb") as packed_xz, _buffered(packed_xz) as file:
                yield file
        else:
            yield raw


def _buffered(file: gzip.GzipFile | lzma.LZMAFile) -> io.BufferedWriter:
    # Compressors are slow with many small writes.
    return io.BufferedWriter(cast(io.RawIOBase, file), buffer_size=1 << 18)
