"""Split a corpus into train, dev and test without shared source sentences, and draw samples from it.

A memory that contains a test sentence repeats it, and the score would mean nothing. Knows nothing of files.
"""

from __future__ import annotations

import heapq
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from lacuna.errors import CorpusError, SettingError
from lacuna.records import SentencePair

_MAX_SEED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Split:
    """The three parts, each in the order of the corpus.

    :param train: All pairs whose source sentence was not drawn.
    :param dev: One pair for each source sentence drawn for dev.
    :param test: One pair for each source sentence drawn for test.
    :param dropped: Number of pairs in no part: the other pairs of the sentences drawn.
    """

    train: list[SentencePair]
    dev: list[SentencePair]
    test: list[SentencePair]
    dropped: int


def split_corpus(pairs: Sequence[SentencePair], dev: int, test: int, seed: int) -> Split:
    """Draw ``dev`` and ``test`` source sentences, one pair each, and leave the rest to train.

    Source sentences that differ only in case, white space or Unicode composition are the same. They are drawn by a
    seeded hash of their text, so the draw depends on the seed and the sentences, but not on their order, on how often
    they occur, or on the version of a random generator.

    :param pairs: The corpus, cleaned or not.
    :param dev: Pairs for dev, 0 or more.
    :param test: Pairs for test, 0 or more.
    :param seed: 0 or more; another seed draws other sentences.
    :raises CorpusError: There are too few different source sentences.
    """
    _check(dev, test, seed)
    groups: dict[bytes, list[int]] = {}
    for index, pair in enumerate(pairs):
        groups.setdefault(_key(pair.source), []).append(index)
    if len(groups) <= dev + test:
        raise CorpusError(
            f"cannot take {dev:,} dev and {test:,} test sentences out of {len(groups):,} different source sentences "
            "and leave any for training; ask for fewer, or add more text"
        )
    drawn = heapq.nsmallest(dev + test, groups, key=lambda key: (xxhash.xxh3_128_digest(key, seed=seed), key))
    chosen = [min(groups[key], key=lambda index: _rank(pairs[index], seed)) for key in drawn]
    taken = {index for key in drawn for index in groups[key]}
    return Split(
        train=[pair for index, pair in enumerate(pairs) if index not in taken],
        dev=[pairs[index] for index in sorted(chosen[:dev])],
        test=[pairs[index] for index in sorted(chosen[dev:])],
        dropped=len(taken) - len(chosen),
    )


def source_keys(pairs: Iterable[SentencePair]) -> list[bytes]:
    """Return the same key for source sentences that differ only in case, white space or Unicode composition."""
    return [_key(pair.source) for pair in pairs]


def without_sources(pairs: Sequence[SentencePair], held_out: Iterable[SentencePair]) -> list[SentencePair]:
    """Return the pairs whose source sentence is in none of the held-out pairs."""
    taken = set(source_keys(held_out))
    return [pair for pair, key in zip(pairs, source_keys(pairs), strict=True) if key not in taken]


def _check(dev: int, test: int, seed: int) -> None:
    for name, value in (("dev", dev), ("test", test)):
        if value < 0:
            raise SettingError(f"{name} must be 0 or more, got {value}")
    if not 0 <= seed <= _MAX_SEED:
        raise SettingError(f"seed must be between 0 and 2**64 - 1, got {seed}")


def _key(source: str) -> bytes:
    # Composed again after casefold, which can decompose a character.
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", source).casefold())
    return xxhash.xxh3_128_digest(" ".join(folded.split()).encode("utf-8", "surrogatepass"))


def _rank(pair: SentencePair, seed: int) -> bytes:
    """Order the pairs of one source sentence by their text, so that their order in the corpus does not matter."""
    return xxhash.xxh3_128_digest(f"{pair.source}\0{pair.target}".encode("utf-8", "surrogatepass"), seed=seed)


def draw_pairs(pairs: Sequence[SentencePair], most: int, seed: int) -> list[SentencePair]:
    """Draw at most ``most`` pairs and keep their order; equal seeds draw the same positions."""
    chosen = np.random.default_rng(seed).permutation(len(pairs))[:most]
    return [pairs[number] for number in sorted(chosen)]
