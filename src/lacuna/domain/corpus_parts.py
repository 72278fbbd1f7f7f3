"""The three parts of a domain's text: pairs for the memory, for dev and for test, without shared source sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lacuna.corpora import (
    CleaningReport,
    ReadingReport,
    clean,
    draw_pairs,
    read_corpora,
    read_corpus,
    source_keys,
    split_corpus,
    without_sources,
)
from lacuna.datastore.windows import CorpusDigest
from lacuna.errors import CorpusError
from lacuna.records import Languages, SentencePair

# Dev and test get this share of the source sentences each. Below MIN_PART sentences, a part would say nothing about the
# rest, and the memory needs them more; above the other bounds, more of them would only take time.
SHARE = 0.1
MIN_PART = 50
MAX_DEV = 1000
MAX_TEST = 500
# Largest number of pairs of a given dev set that are used.
MAX_GIVEN_DEV = 2000


@dataclass(frozen=True, slots=True)
class CorpusParts:
    """The parts of a corpus.

    :param train: Pairs for the memory.
    :param dev: May be empty, as ``test``.
    :param cleaning: Counts of pairs that cleaning kept and dropped.
    :param shared: Pairs in no part, because dev or test has their source sentence.
    :param notes: One sentence about the files that were skipped, and about each part that could not be split off.
    """

    train: list[SentencePair]
    dev: list[SentencePair]
    test: list[SentencePair]
    cleaning: CleaningReport
    shared: int
    notes: tuple[str, ...]

    def hashes(self) -> dict[str, str]:
        """Return a hash of texts and origins of each part."""
        return {name: hash_pairs(getattr(self, name)) for name in ("train", "dev", "test")}


def hash_pairs(pairs: Sequence[SentencePair]) -> str:
    """Hash texts and origins of sentence pairs, in order."""
    digest = CorpusDigest()
    digest.add_stored(iter(pairs))
    return digest.record().xxh3


def read_parts(
    corpora: Sequence[str | Path],
    *,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    languages: Languages | None = None,
    seed: int = 1,
) -> CorpusParts:
    """Read and clean corpora, and split off dev and test where they are not given.

    :param dev: A dev corpus; the corpora lose all pairs with its source sentences. The same for ``test``.
    :raises CorpusError: A corpus cannot be read, or nothing remains for the memory.
    """
    cleaning, reading = CleaningReport(), ReadingReport()
    pairs = list(clean(read_corpora(corpora, languages=languages, report=reading), report=cleaning))
    given_dev = [] if dev is None else draw_pairs(list(read_corpus(dev, languages=languages)), MAX_GIVEN_DEV, seed)
    given_test = [] if test is None else list(read_corpus(test, languages=languages))
    rest = without_sources(pairs, [*given_dev, *given_test])
    if not rest:
        raise CorpusError(
            f"nothing for the memory: the source sentences of all {len(pairs):,} pairs are in `dev` or `test` too; "
            "give another corpus, or leave `dev` and `test` out"
        )
    sentences = len(set(source_keys(rest)))
    sizes = {
        "dev": part_size(sentences, MAX_DEV) if dev is None else 0,
        "test": part_size(sentences, MAX_TEST) if test is None else 0,
    }
    split = split_corpus(rest, sizes["dev"], sizes["test"], seed)
    missing = [part for part, given in (("dev", dev), ("test", test)) if given is None and not sizes[part]]
    return CorpusParts(
        train=split.train,
        dev=given_dev or split.dev,
        test=given_test or split.test,
        cleaning=cleaning,
        shared=len(pairs) - len(rest) + split.dropped,
        notes=(*_skipped_notes(reading), *(_missing_note(part, sentences) for part in missing)),
    )


def part_size(sentences: int, most: int) -> int:
    """Return how many of the source sentences a part gets; 0 if there are too few."""
    size = min(most, int(SHARE * sentences))
    return size if size >= MIN_PART else 0


def _skipped_notes(reading: ReadingReport) -> tuple[str, ...]:
    return (f"{reading.summary()}.",) if reading.empty else ()


def _missing_note(part: str, sentences: int) -> str:
    enough = int(MIN_PART / SHARE)
    use = {"dev": "nothing is fitted", "test": "nothing is scored"}[part]
    return (
        f"{use[0].upper()}{use[1:]}: {sentences:,} different source sentences are too few to split off a {part} set "
        f"(from {enough:,} on); --{part} takes one of your own."
    )
