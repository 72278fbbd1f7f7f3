"""Experiment files: strict YAML with all settings and defaults, and the sentence pairs they name.

This module does not run experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import xxhash
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lacuna.corpora import BILINGUAL_SUFFIXES, CleaningReport, clean, draw_pairs, read_corpus
from lacuna.corpora.fetching import fetch_domain
from lacuna.errors import CorpusError, LacunaError, SettingError
from lacuna.formats.input_files import COMPRESSIONS
from lacuna.progress import SILENT, Progress
from lacuna.pruning import PRUNERS
from lacuna.records import Languages, SentencePair
from lacuna.reproduction.paper import paper_of
from lacuna.steps import Sentences

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
FinetuneMethod = Literal["full", "lora"]
Variant = Literal["vanilla", "kster"]
SizesMethod = Literal["plac", "known", "random"]
CurveMethod = Literal["random", "cluster", "merge", "known", "reverse"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusSection(_Section):
    """Source of the sentence pairs: files in the data folder, or a domain of ``lacuna fetch``.

    :param fetch: Name of the domain.
    :param train: Path with or without its suffix, as in ``koran/train``; ``dev`` and ``test`` too.
    :param clean: Clean the training pairs as ``lacuna build`` does.
    """

    fetch: str | None = None
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    clean: bool = True

    @model_validator(mode="after")
    def _files_or_fetch(self) -> CorpusSection:
        files = (self.train, self.dev, self.test)
        if (self.fetch is None and None in files) or (self.fetch is not None and any(files)):
            raise ValueError("give train, dev and test, or fetch")
        return self


class LimitsSection(_Section):
    """Sample sizes; ``None`` means no limit.

    :param train: Training pairs in the memory, drawn at random.
    :param dev: Dev pairs for fitting combiners.
    :param test: Test pairs.
    :param repeats: Test pairs for the other seeds and the table by k.
    :param curve: Dev pairs translated for the curve over pruning ratios.
    :param accuracy: Dev tokens whose margin is measured.
    """

    train: Count | None = None
    dev: Count | None = None
    test: Count | None = None
    repeats: Count | None = None
    curve: Count = 500
    accuracy: Count = 20_000


class MarginSection(_Section):
    """Measurement of margins; see ``lacuna margin``."""

    max_margin: Count = 2048
    approximate: bool = False


class PruningSection(_Section):
    """Pruning settings.

    :param min_margin: ``min_margin`` of PLAC in the main table.
    :param ratio: Ratio of every method in the main table; less if PLAC cannot drop as much.
    :param min_margins: ``min_margin`` values of PLAC on the curve.
    :param ratios: Ratios of the curve, and of reverse pruning.
    :param curve_methods: Methods on the curve besides PLAC.
    :param more_methods: Further methods in the main table, with their default settings.
    :param more_min_margins: Further values of ``min_margin`` of PLAC in the main table.
    """

    min_margin: Count = 4
    ratio: Share = 0.25
    min_margins: tuple[Count, ...] = (4, 8, 16, 32)
    ratios: tuple[Share, ...] = (0.1, 0.2, 0.3, 0.4)
    curve_methods: tuple[CurveMethod, ...] = ("random", "cluster", "merge", "known", "reverse")
    more_methods: tuple[str, ...] = ()
    more_min_margins: tuple[Count, ...] = ()

    @field_validator("more_methods")
    @classmethod
    def _are_methods(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in names if name not in PRUNERS]:
            raise ValueError(f"got {unknown[0]!r}; allowed: {', '.join(PRUNERS)}")
        return names


class SizesSection(_Section):
    """Pruning of smaller memories: samples of whole sentences of the memory, each with an index and margins of its own.

    :param entries: Sizes of the samples; without any, there is no such table. The whole memory is compared as well.
    :param ratios: Ratios of all methods.
    :param methods: Methods; PLAC has the ``min_margin`` of the main table.
    """

    entries: tuple[Count, ...] = ()
    ratios: tuple[Share, ...] = (0.25, 0.4, 0.55)
    methods: tuple[SizesMethod, ...] = ("plac", "known", "random")


class AdaptiveSection(_Section):
    """Adaptive kNN-MT; without a temperature, several are tried on dev."""

    k: Count = 8
    temperature: Annotated[float, Field(gt=0)] | None = None
    ks: tuple[Count, ...] = (4, 8, 16, 32)


class FinetuneSection(_Section):
    """Fine-tuning; see ``lacuna finetune``.

    :param methods: ``full`` trains all weights, ``lora`` adapters.
    :param hours: Time limit of each method.
    :param learning_rates: By method; the default is that of ``lacuna finetune``.
    """

    methods: tuple[FinetuneMethod, ...] = ("full",)
    hours: Annotated[float, Field(gt=0)] | None = None
    learning_rates: dict[FinetuneMethod, Annotated[float, Field(gt=0)]] = {}


class Experiment(_Section):
    """All settings of an experiment.

    :param title: Heading of the report.
    :param note: A sentence about the data, for the report.
    :param paper: Domain of the paper whose figures are shown next to ours.
    :param model: A folder or a hub name; ``None`` for the bundled model.
    :param index: Kind of index of all memories.
    :param variants: Combiners to compare with adaptive kNN-MT.
    :param comet: COMET model, such as ``wmt20-comet-da``; ``None`` for no COMET.
    :param int8: Translate with 8-bit weights, in about half of the time; see docs/models.md.
    :param seeds: Seeds of pruning and fitting; the main table uses the first.
    """

    title: str
    note: str = ""
    paper: str | None = None
    languages: str
    model: str | None = None
    corpus: CorpusSection
    limits: LimitsSection = LimitsSection()
    index: str = "auto"
    margin: MarginSection = MarginSection()
    pruning: PruningSection = PruningSection()
    adaptive: AdaptiveSection = AdaptiveSection()
    variants: tuple[Variant, ...] = ("vanilla", "kster")
    sizes: SizesSection = SizesSection()
    finetune: FinetuneSection = FinetuneSection()
    comet: str | None = None
    int8: bool = False
    beam: Count = 5
    length_penalty: float = 1.0
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = (1, 2, 3)

    @model_validator(mode="after")
    def _known_names(self) -> Experiment:
        try:
            Languages.parse(self.languages)
            paper_of(self.paper)
        except LacunaError as error:
            raise ValueError(str(error)) from error
        if not self.seeds:
            raise ValueError("seeds: give at least one")
        return self


def read_experiment(path: str | Path) -> Experiment:
    """Read an experiment file.

    :raises SettingError: The file is not YAML, or a setting is missing, unknown or of the wrong type.
    """
    try:
        content: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"{path}: cannot be read ({error.strerror}); name an experiment file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: not YAML ({' '.join(str(error).split())}); fix that line") from error
    if not isinstance(content, dict):
        raise SettingError(f"{path}: got {type(content).__name__}; an experiment is a mapping of settings")
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        got = "" if first["type"] in ("missing", "extra_forbidden", "value_error") else f" (got {first['input']!r})"
        raise SettingError(f"{path}: {name + ': ' if name else ''}{message}{got}; see docs/reproduce.md") from error


PARTS = ("train", "dev", "test")
_SEED = 1  # fixed, so that every seed of an experiment uses the same sentences


@dataclass(frozen=True, slots=True)
class ReadSentences(Sentences):
    """Sentence pairs of a file.

    :param total: Number of pairs in the file, before cleaning and sampling.
    """

    total: int


def read_sentences(
    experiment: Experiment, data: Path, into: Path, progress: Progress = SILENT
) -> dict[str, ReadSentences]:
    """Read training, dev and test pairs.

    :param data: Base folder of the files named in the experiment.
    :param into: Folder for a fetched domain.
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


def as_sentences(pairs: Sequence[SentencePair], total: int | None = None) -> ReadSentences:
    """Hash the texts of sentence pairs."""
    digest = xxhash.xxh3_128()
    for pair in pairs:
        digest.update(f"{pair.source}\0{pair.target}\0".encode())
    return ReadSentences(list(pairs), digest.hexdigest(), len(pairs) if total is None else total)


def draw(sentences: ReadSentences, most: int | None) -> ReadSentences:
    """Draw at most ``most`` pairs, always the same ones, in their original order."""
    if most is None or len(sentences) <= most:
        return sentences
    return as_sentences(draw_pairs(sentences.pairs, most, _SEED), sentences.total)


def _read(path: Path, languages: Languages, most: int | None, *, cleaned: bool) -> ReadSentences:
    pairs = list(read_corpus(path, languages=languages))
    kept = list(clean(pairs, report=CleaningReport())) if cleaned else pairs
    return draw(as_sentences(kept, len(pairs)), most)


def _find(path: Path, languages: Languages) -> Path:
    """Find a corpus by its name without a suffix: ``train.tsv.xz``, or ``train.de`` and ``train.en``."""
    suffixes = [suffix + packed for suffix in BILINGUAL_SUFFIXES for packed in ("", *COMPRESSIONS)]
    for suffix in ("", *suffixes):
        file = path.with_name(path.name + suffix)
        if file.is_file():
            return file
    if any(path.parent.glob(f"{path.name}.{languages.source}*")):
        return path  # prefix of two plain files, which the reader accepts
    both = f"{path.name}.{languages.source} and {path.name}.{languages.target}"
    raise CorpusError(
        f"{path}: no corpus of that name; expected {path.name}.tsv, or {both}: name the folder with `data`"
    )
