"""Cut a stream of sentence pairs into windows, and windows into batches for the model.

A window becomes one shard and is the unit of resuming. The last bits of a model's output depend on which sentences
share a batch, so a batch never crosses the end of a window and depends only on its window. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import xxhash

from lacuna.datastore.columns import pair_to_line
from lacuna.datastore.manifest import BuildSettings, CorpusRecord
from lacuna.records import SentencePair

_ENCODED_AT_ONCE = 512  # tokenizers are faster with many sentences at a time
_FILES_NAMED = 20


class Encoder(Protocol):
    """Tokenizes text and knows which pairs the model can read; see :class:`lacuna.models.Model`."""

    def fits(self, source: Sequence[int], target: Sequence[int]) -> bool: ...  # noqa: D102

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]: ...  # noqa: D102

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]: ...  # noqa: D102


@dataclass(slots=True)
class TokenizedPair:
    """A sentence pair: its line in the store, and its tokens."""

    line: bytes
    source: list[int]
    target: list[int]


@dataclass(slots=True)
class Window:
    """Consecutive sentences of the corpus.

    :param sentences: The pairs that fit the model, in order.
    :param rows: Number of their target tokens.
    :param corpus: Record of the corpus up to the end of this window.
    """

    sentences: list[TokenizedPair]
    rows: int
    corpus: CorpusRecord


@dataclass(slots=True)
class CorpusDigest:
    """Counts and hashes the pairs read so far."""

    pairs: int = 0
    skipped: int = 0
    files: dict[str, None] = field(default_factory=dict)
    digest: xxhash.xxh3_128 = field(default_factory=xxhash.xxh3_128)

    def add(self, line: bytes, file: str) -> None:
        """Count a pair."""
        self.pairs += 1
        self.digest.update(line)
        if file not in self.files and len(self.files) < _FILES_NAMED:
            self.files[file] = None

    def add_stored(self, pairs: Iterator[SentencePair], count: int | None = None) -> None:
        """Count the next ``count`` pairs, or all, without tokenizing them."""
        for pair in islice(pairs, count):
            self.add(pair_to_line(pair), pair.origin.file)

    def record(self) -> CorpusRecord:
        """Return the record of the pairs so far."""
        return CorpusRecord(
            pairs=self.pairs, skipped=self.skipped, xxh3=self.digest.hexdigest(), files=tuple(self.files)
        )


def cut_windows(
    pairs: Iterable[SentencePair], encoder: Encoder, digest: CorpusDigest, settings: BuildSettings
) -> Iterator[Window]:
    """Cut the corpus into windows of at most ``shard_rows`` target tokens, at the ends of sentences.

    Pairs too long for the model are skipped and counted. A sentence of more than ``shard_rows`` tokens is a window.
    """
    window = Window([], 0, digest.record())
    for pair, source, target in _encoded(pairs, encoder):
        fits = encoder.fits(source, target)
        if fits and window.sentences and window.rows + len(target) > settings.shard_rows:
            window.corpus = digest.record()
            yield window
            window = Window([], 0, window.corpus)
        line = pair_to_line(pair)
        digest.add(line, pair.origin.file)
        if fits:
            window.sentences.append(TokenizedPair(line, source, target))
            window.rows += len(target)
        else:
            digest.skipped += 1
    if window.sentences:
        window.corpus = digest.record()
        yield window


def split_by_fit(pairs: Iterable[SentencePair], encoder: Encoder) -> tuple[list[SentencePair], list[SentencePair]]:
    """Return the pairs that fit the model, and those that are too long for it."""
    fitting: list[SentencePair] = []
    too_long: list[SentencePair] = []
    for pair, source, target in _encoded(pairs, encoder):
        (fitting if encoder.fits(source, target) else too_long).append(pair)
    return fitting, too_long


def make_batches(sentences: Sequence[TokenizedPair], tokens: int) -> Iterator[list[int]]:
    """Put sentences of similar length together: lists of indices, at most ``tokens`` tokens each with padding."""
    size = [max(len(sentence.source), len(sentence.target)) for sentence in sentences]
    # Target before source: most of the work is in the decoder and the projection.
    order = sorted(range(len(sentences)), key=lambda n: (size[n], len(sentences[n].target), n))
    batch: list[int] = []
    for number in order:
        if batch and size[number] * (len(batch) + 1) > tokens:  # the last sentence is the longest
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _encoded(pairs: Iterable[SentencePair], encoder: Encoder) -> Iterator[tuple[SentencePair, list[int], list[int]]]:
    stream = iter(pairs)
    while block := list(islice(stream, _ENCODED_AT_ONCE)):
        sources = encoder.encode_sources([pair.source for pair in block])
        targets = encoder.encode_targets([pair.target for pair in block])
        yield from zip(block, sources, targets, strict=True)
