"""Line-based parallel text: two plain files, tab-separated columns, JSON lines.

Knows nothing of suffixes, prefixes or origins; each function is given a path that is known to be of its format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lacuna.corpora.base import Unit, read_lines
from lacuna.errors import CorpusError


def read_plain(source: Path, target: Path) -> Iterator[Unit]:
    """Yield line ``n`` of one file with line ``n`` of the other.

    Blank lines are yielded like any other: dropping one would lose the count that aligns the two files.
    """
    sources, targets = read_lines(source), read_lines(target)
    for number, (left, right) in enumerate(zip_longest(sources, targets), start=1):
        if left is None or right is None:
            longer = number + sum(1 for _ in (targets if left is None else sources))
            counts = (number - 1, longer) if left is None else (longer, number - 1)
            raise CorpusError(
                f"{source} has {counts[0]:,} lines but {target} has {counts[1]:,}; "
                "line n of one must translate line n of the other: align the files again"
            )
        yield Unit(left, right, str(number))


def read_tsv(path: Path) -> Iterator[Unit]:
    """Yield ``source<TAB>target`` or ``source<TAB>target<TAB>tag`` lines; wholly empty lines are passed over."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            continue
        columns = line.split("\t")
        if len(columns) not in (2, 3):
            raise CorpusError(
                f"{path}:{number}: got {len(columns)} {'column' if len(columns) == 1 else 'columns'}; each line holds "
                "source<TAB>target or source<TAB>target<TAB>tag: replace tabs inside the text by spaces"
            )
        tag = columns[2] if len(columns) == 3 else None
        yield Unit(columns[0], columns[1], str(number), tag or None)


def read_jsonl(path: Path) -> Iterator[Unit]:
    """Yield one ``{"source": ..., "target": ..., "tag": ...}`` per line; other keys are the user's own, unread."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        record = _object(where, line)
        source, target = _text(where, record, "source"), _text(where, record, "target")
        tag = None if record.get("tag") is None else _text(where, record, "tag")
        yield Unit(source, target, str(number), tag or None)


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
        found = ", ".join(map(repr, record)) or "none"
        raise CorpusError(f"{where}: no key '{key}', got {found}; each object needs 'source' and 'target'")
    value = record[key]
    if not isinstance(value, str):
        raise CorpusError(f"{where}: '{key}' is a {type(value).__name__}, not a string; put the text in quotes")
    try:
        # JSON can spell half a character ("\ud83d"), which no later step could write out again.
        value.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(f"{where}: '{key}' holds half a surrogate pair; write the file as plain UTF-8") from error
    return value
