"""From a stream of sentence pairs to what goes through the model: windows of the corpus, and batches inside them.

A window becomes one shard and is the unit of resumption. Numbers that come out of a model depend, in their last bits,
on which sentences share a batch; so batches never reach over a window, and depend on nothing but the window. Knows
nothing of keys and files.
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

# Tokenizers are quicker with many sentences at a time.
_ENCODED_AT_ONCE = 512
_FILES_NAMED = 20


class Encoder(Protocol):
    """Tokenizes text and knows which pairs the model can read; see :class:`lacuna.models.Model`."""

    def fits(self, source: Sequence[int], target: Sequence[int]) -> bool: ...  # noqa: D102

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]: ...  # noqa: D102

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]: ...  # noqa: D102


@dataclass(slots=True)
class Sentence:
    """A sentence pair, as the line it will be in the store, and in tokens."""

    line: bytes
    source: list[int]
    target: list[int]


@dataclass(slots=True)
class Window:
    """A stretch of the corpus.

    :param sentences: Those the model can take, in order.
    :param rows: Their target tokens.
    :param corpus: What the corpus has shown up to the end of this window.
    """

    sentences: list[Sentence]
    rows: int
    corpus: CorpusRecord


@dataclass(slots=True)
class Meter:
    """Counts and hashes the pairs that went by."""

    pairs: int = 0
    skipped: int = 0
    files: dict[str, None] = field(default_factory=dict)
    digest: xxhash.xxh3_128 = field(default_factory=xxhash.xxh3_128)

    def add(self, line: bytes, file: str) -> None:
        """Take note of a pair."""
        self.pairs += 1
        self.digest.update(line)
        if file not in self.files and len(self.files) < _FILES_NAMED:
            self.files[file] = None

    def pass_over(self, pairs: Iterator[SentencePair], count: int | None = None) -> None:
        """Take note of the next ``count`` pairs, or of all, without looking what the model could do with them."""
        for pair in islice(pairs, count):
            self.add(pair_to_line(pair), pair.origin.file)

    def record(self) -> CorpusRecord:
        """Say what went by so far."""
        return CorpusRecord(
            pairs=self.pairs, skipped=self.skipped, xxh3=self.digest.hexdigest(), files=tuple(self.files)
        )


def cut_windows(
    pairs: Iterable[SentencePair], encoder: Encoder, meter: Meter, settings: BuildSettings
) -> Iterator[Window]:
    """Cut the corpus into windows of at most ``shard_rows`` target tokens, at the ends of sentences.

    A pair too long for the model is left out and counted. A sentence of more tokens than ``shard_rows`` is a window.
    """
    window = Window([], 0, meter.record())
    for pair, source, target in _encoded(pairs, encoder):
        fits = encoder.fits(source, target)
        if fits and window.sentences and window.rows + len(target) > settings.shard_rows:
            window.corpus = meter.record()
            yield window
            window = Window([], 0, window.corpus)
        line = pair_to_line(pair)
        meter.add(line, pair.origin.file)
        if fits:
            window.sentences.append(Sentence(line, source, target))
            window.rows += len(target)
        else:
            meter.skipped += 1
    if window.sentences:
        window.corpus = meter.record()
        yield window


def make_batches(sentences: Sequence[Sentence], tokens: int) -> Iterator[list[int]]:
    """Put sentences of like length together: numbers of sentences, whose longest times their count is ``tokens``."""
    size = [max(len(sentence.source), len(sentence.target)) for sentence in sentences]
    # Target before source: the decoder and the projection are the greater part of the work.
    order = sorted(range(len(sentences)), key=lambda n: (size[n], len(sentences[n].target), n))
    batch: list[int] = []
    for number in order:
        if batch and size[number] * (len(batch) + 1) > tokens:  # the last is the longest
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _encoded(pairs: Iterable[SentencePair], encoder: Encoder) -> Iterator[tuple[SentencePair, list[int], list[int]]]:
    stream = iter(pairs)
    while some := list(islice(stream, _ENCODED_AT_ONCE)):
        sources = encoder.encode_sources([pair.source for pair in some])
        targets = encoder.encode_targets([pair.target for pair in some])
        yield from zip(some, sources, targets, strict=True)
