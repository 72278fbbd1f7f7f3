"""The sentence pairs of a store, with their origins: one JSON line each, found by number without reading the rest.

Knows nothing of entries and keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lacuna.records import Origin, SentencePair


def pair_to_line(pair: SentencePair) -> bytes:
    """Write a pair as one line. Lone surrogates, which UTF-8 has no room for, survive as they are."""
    origin = pair.origin
    fields = [pair.source, pair.target, origin.file, origin.place, origin.tag]
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return f"{text}\n".encode("utf-8", "surrogatepass")


def line_to_pair(line: bytes) -> SentencePair:
    """Read what :func:`pair_to_line` wrote."""
    source, target, file, place, tag = json.loads(line.decode("utf-8", "surrogatepass"))
    return SentencePair(source, target, Origin(file, place, tag))


def line_starts(lines: Sequence[bytes]) -> NDArray[np.int64]:
    """Return where each line starts in the joined lines, and where the last one ends."""
    return np.cumsum([0, *map(len, lines)], dtype=np.int64)


class SentenceTable:
    """Sentence pairs by sentence id, read from the mapped files when asked for.

    :param texts: The bytes of each shard's lines.
    :param starts: Where each line of a shard starts, and where the last one ends.
    """

    def __init__(self, texts: Sequence[NDArray[np.uint8]], starts: Sequence[NDArray[np.int64]]) -> None:
        self._texts, self._starts = tuple(texts), tuple(starts)
        self._ends = np.cumsum([len(some) - 1 for some in self._starts], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, sentence: int) -> SentencePair:
        """Give the pair of a sentence id, as the column ``sentence`` holds it."""
        if not 0 <= sentence < len(self):
            raise IndexError(f"sentence {sentence}: this table has sentences 0 to {len(self) - 1}")
        shard = int(np.searchsorted(self._ends, sentence, side="right"))
        local = int(sentence) - (int(self._ends[shard - 1]) if shard else 0)
        first, last = self._starts[shard][local : local + 2]
        return line_to_pair(self._texts[shard][first:last].tobytes())

    def __iter__(self) -> Iterator[SentencePair]:
        return (self[sentence] for sentence in range(len(self)))
