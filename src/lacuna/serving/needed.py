"""Which words a memory is needed for: pieces put together to words, and counted.

Knows of tokenizers only how they spell that a word begins or goes on. Sentences that pruning left gaps in count as far
as their words are whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lacuna.datastore import Store

_BEGINNINGS = ("▁", "Ġ")
_ENDING, _GOES_ON = "</w>", "@@"
_ENTRIES_AT_ONCE = 1 << 20
_LONGEST = 64  # pieces; what comes later in a word does not tell it from others


@dataclass(frozen=True, slots=True)
class NeededWord:
    """A word that the memory is needed for.

    :param needed: How often it is there with a piece that is needed.
    :param unknown: How often with a piece that the model does not know.
    :param count: How often it is there.
    """

    word: str
    needed: int
    unknown: int
    count: int


@dataclass(frozen=True, eq=False)
class Spelling:
    """How pieces make words: one item for each token.

    :param begins: Whether a word begins with it.
    :param ends: Whether a word ends with it.
    """

    texts: Sequence[str]
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]

    @classmethod
    def of(cls, texts: Sequence[str], eos_id: int) -> Spelling:
        """Find out how a vocabulary marks words. The end, and what has no letters and digits, is a word of its own."""
        signs = np.array([not any(map(str.isalnum, text)) for text in texts], np.bool_)
        signs[eos_id] = True
        begins, ends = signs.copy(), signs.copy()
        if any(text.startswith(_BEGINNINGS) for text in texts):
            begins |= np.array([text.startswith(_BEGINNINGS) for text in texts])
        elif any(text.endswith(_ENDING) for text in texts):
            ends |= np.array([text.endswith(_ENDING) for text in texts])
        else:
            ends |= np.array([not text.endswith(_GOES_ON) for text in texts])
        return cls(texts, begins, ends)

    def join(self, tokens: Sequence[int]) -> str:
        """Write a word."""
        pieces = (self.texts[token].removesuffix(_GOES_ON).removesuffix(_ENDING) for token in tokens)
        text = "".join(pieces)
        for mark in _BEGINNINGS:
            text = text.replace(mark, "")
        return text


def needed_words(store: Store, needed: NDArray[np.bool_], spelling: Spelling, most: int) -> list[NeededWord]:
    """Count words, and give those with most needed occurrences. Loops over different words, not over entries.

    :param needed: Whether each entry is.
    :param most: How many words to give.
    """
    blocks = [_count(store, slice(*edge), needed, spelling) for edge in _edges(store)]
    if not blocks:
        return []
    hashes, firsts, lengths, counts = (np.concatenate(column) for column in zip(*blocks, strict=True))
    _, places, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    totals = np.zeros((len(places), 3), np.int64)
    np.add.at(totals, inverse, counts)
    merged: dict[str, NDArray[np.int64]] = {}  # one word may be written with other pieces elsewhere
    for n in np.argsort(firsts[places], kind="stable").tolist():
        first, length = int(firsts[places[n]]), int(lengths[places[n]])
        word = spelling.join(store.values[first : first + length].tolist())
        # A letter alone is most often what is left of a placeholder.
        if len(word) > 1 and any(map(str.isalnum, word)) and store.values[first] != store.manifest.model.eos_id:
            merged[word] = merged.get(word, np.zeros(3, np.int64)) + totals[n]
    # Of words needed equally often, the one that came first.
    ordered = sorted(merged.items(), key=lambda item: -int(item[1][0]))
    return [NeededWord(word, *counts.tolist()) for word, counts in ordered[:most] if counts[0]]


def _edges(store: Store) -> list[tuple[int, int]]:
    """Cut the entries where sentences end."""
    edges = [0]
    while edges[-1] < store.entries:
        at = min(edges[-1] + _ENTRIES_AT_ONCE, store.entries)
        edges.append(int(np.searchsorted(store.sentence, store.sentence[at - 1], side="right")))
    return list(pairwise(edges))


def _count(
    store: Store, part: slice, needed: NDArray[np.bool_], spelling: Spelling
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count the words of some sentences: a hash of each, its first entry, its length, and the three counts."""
    values = store.values[part]
    follows = np.zeros(len(values), np.bool_)
    same_sentence = store.sentence[part][1:] == store.sentence[part][:-1]
    follows[1:] = same_sentence & (store.position[part][1:] == store.position[part][:-1] + 1)
    begins = ~follows | spelling.begins[values]
    begins[1:] |= spelling.ends[values[:-1]]
    heads = np.flatnonzero(begins)
    # After a gap only a piece that says so is the beginning of a word.
    whole = follows[heads] | (store.position[part][heads] == 0) | spelling.begins[values[heads]]
    lengths = np.diff(heads, append=len(values))
    place = np.minimum(np.arange(len(values)) - np.repeat(heads, lengths), _LONGEST - 1)
    factors = np.random.default_rng(0).integers(1, 2**62, _LONGEST).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = np.add.reduceat((values.astype(np.uint64) + np.uint64(1)) * factors[place], heads)
    of_words = [np.logical_or.reduceat(one, heads) for one in (needed[part], ~store.known[part])]
    counts = np.column_stack([*of_words, np.ones(len(heads), np.bool_)]).astype(np.int64)
    unique, firsts, inverse = np.unique(hashes[whole], return_index=True, return_inverse=True)
    totals = np.zeros((len(unique), 3), np.int64)
    np.add.at(totals, inverse, counts[whole])
    return unique, heads[whole][firsts] + (part.start or 0), lengths[whole][firsts], totals
