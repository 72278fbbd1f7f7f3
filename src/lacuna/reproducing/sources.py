"""Finding the sentences of an experiment: files below a data folder, or a fetched domain. Knows no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xxhash

from lacuna.corpora import BILINGUAL_SUFFIXES, CleaningReport, clean, draw_pairs, read_corpus
from lacuna.corpora.base import COMPRESSIONS
from lacuna.corpora.fetching import fetch_domain
from lacuna.errors import CorpusError
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, SentencePair
from lacuna.reproducing.schema import ExperimentFile

PARTS = ("train", "dev", "test")
_SEED = 1  # of draws: the sentences stay the same under every seed of the experiment


@dataclass(frozen=True, slots=True)
class Sentences:
    """Some sentence pairs, known by a hash of their text.

    :param found: Pairs of the file, before cleaning and drawing.
    """

    pairs: list[SentencePair]
    key: str
    found: int

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def sources(self) -> list[str]:
        """The source sides."""
        return [pair.source for pair in self.pairs]

    @property
    def references(self) -> list[str]:
        """The target sides."""
        return [pair.target for pair in self.pairs]


def read_sentences(
    experiment: ExperimentFile, data: Path, into: Path, progress: Progress = SILENT
) -> dict[str, Sentences]:
    """Read training, dev and test pairs.

    :param data: The folder that the file names in the experiment are relative to.
    :param into: Where a domain is fetched to.
    """
    languages, corpus, limits = Languages.parse(experiment.languages), experiment.corpus, experiment.limits
    if corpus.fetch is not None:
        fetch_domain(corpus.fetch, languages, into, progress=progress)
        paths = {part: into / f"{part}.tsv" for part in PARTS}
    else:
        paths = {part: _find(data / str(getattr(corpus, part)), languages) for part in PARTS}
    return {
        part: _read(path, languages, getattr(limits, part), cleaned=corpus.clean and part == "train")
        for part, path in paths.items()
    }


def as_sentences(pairs: Sequence[SentencePair], found: int | None = None) -> Sentences:
    """Hash the texts of some pairs."""
    digest = xxhash.xxh3_128()
    for pair in pairs:
        digest.update(f"{pair.source}\0{pair.target}\0".encode())
    return Sentences(list(pairs), digest.hexdigest(), len(pairs) if found is None else found)


def draw(sentences: Sentences, most: int | None) -> Sentences:
    """Draw at most so many pairs, in their order; always the same ones."""
    if most is None or len(sentences) <= most:
        return sentences
    return as_sentences(draw_pairs(sentences.pairs, most, _SEED), sentences.found)


def _read(path: Path, languages: Languages, most: int | None, *, cleaned: bool) -> Sentences:
    pairs = list(read_corpus(path, languages=languages))
    kept = list(clean(pairs, report=CleaningReport())) if cleaned else pairs
    return draw(as_sentences(kept, len(pairs)), most)


def _find(path: Path, languages: Languages) -> Path:
    """Find a corpus by its name with or without a suffix: ``train.tsv.xz``, or ``train.de`` and ``train.en``."""
    suffixes = [suffix + pressed for suffix in BILINGUAL_SUFFIXES for pressed in ("", *COMPRESSIONS)]
    for suffix in ("", *suffixes):
        file = path.with_name(path.name + suffix)
        if file.is_file():
            return file
    if any(path.parent.glob(f"{path.name}.{languages.source}*")):
        return path  # the prefix of two plain files, which the reader finds
    both = f"{path.name}.{languages.source} and {path.name}.{languages.target}"
    raise CorpusError(
        f"{path}: no corpus of that name; needed is {path.name}.tsv, or {both}: name the folder with --data"
    )
