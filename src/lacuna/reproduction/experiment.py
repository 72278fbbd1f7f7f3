"""An experiment as a file: YAML, read strictly, with every default written once. Knows nothing of how it is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import xxhash
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lacuna.analysis.paper import paper_of
from lacuna.corpora import BILINGUAL_SUFFIXES, CleaningReport, clean, draw_pairs, read_corpus
from lacuna.corpora.base import COMPRESSIONS
from lacuna.corpora.fetching import fetch_domain
from lacuna.errors import CorpusError, LacunaError, SettingError
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, SentencePair

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
FinetuneMethod = Literal["full", "lora"]
PRUNERS = ("random", "cluster", "merge", "known", "plac")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusPart(_Part):
    """Where the sentences come from: files below the data folder, or a domain that ``lacuna fetch`` knows.

    :param train: With or without the suffix, as in ``koran/train``.
    :param clean: Drop training pairs of no use, as ``lacuna build`` does.
    """

    fetch: str | None = None
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    clean: bool = True

    @model_validator(mode="after")
    def _one_way(self) -> CorpusPart:
        files = (self.train, self.dev, self.test)
        if (self.fetch is None and None in files) or (self.fetch is not None and any(files)):
            raise ValueError("give train, dev and test, or fetch")
        return self


class SizeLimits(_Part):
    """How much of everything; without a number, all of it.

    :param train: Training pairs that go into the memory, drawn at random.
    :param dev: Dev pairs that combiners are fitted to.
    :param test: Test pairs.
    :param repeats: Test pairs of what repeats the main comparison: further seeds, other k.
    :param curve: Dev pairs that are translated for the curve over pruning ratios.
    :param accuracy: Dev tokens whose margin is measured.
    """

    train: Count | None = None
    dev: Count | None = None
    test: Count | None = None
    repeats: Count | None = None
    curve: Count = 500
    accuracy: Count = 20_000


class MarginPart(_Part):
    """How margins are measured; see ``lacuna margin``."""

    max_margin: Count = 2048
    approximate: bool = False


class PruningPart(_Part):
    """What is dropped.

    :param min_margin: PLAC's, in the main table.
    :param ratio: Of the main table, for every method; less where PLAC cannot drop so much.
    :param min_margins: PLAC's, on the curve.
    :param ratios: On the curve, and of reverse pruning.
    """

    min_margin: Count = 4
    ratio: Share = 0.25
    min_margins: tuple[Count, ...] = (4, 8, 16, 32)
    ratios: tuple[Share, ...] = (0.1, 0.2, 0.3, 0.4)


class AdaptivePart(_Part):
    """Adaptive kNN-MT; without a temperature, a few are tried on dev."""

    k: Count = 8
    temperature: Annotated[float, Field(gt=0)] | None = None
    ks: tuple[Count, ...] = (4, 8, 16, 32)


class FinetunePart(_Part):
    """Fine-tuning; see ``lacuna finetune``.

    :param methods: ``full`` trains all weights, ``lora`` adapters.
    :param hours: The most that each may take.
    :param learning_rates: By method; one that is not named has the default of ``lacuna finetune``.
    """

    methods: tuple[FinetuneMethod, ...] = ("full",)
    hours: Annotated[float, Field(gt=0)] | None = None
    learning_rates: dict[FinetuneMethod, Annotated[float, Field(gt=0)]] = {}


class ExperimentFile(_Part):
    """Everything that decides an experiment.

    :param title: What the report is called.
    :param note: A sentence about the data, for the report.
    :param paper: The domain of the paper whose figures stand beside ours.
    :param model: A folder or a hub name; without it, the bundled one.
    :param index: Kind of index, of the whole memory and of pruned ones.
    :param comet: COMET model, as ``wmt20-comet-da``; without it, no COMET.
    :param seeds: Of pruning and fitting; the first is the main table's.
    """

    title: str
    note: str = ""
    paper: str | None = None
    languages: str
    model: str | None = None
    corpus: CorpusPart
    limits: SizeLimits = SizeLimits()
    index: str = "auto"
    margin: MarginPart = MarginPart()
    pruning: PruningPart = PruningPart()
    adaptive: AdaptivePart = AdaptivePart()
    finetune: FinetunePart = FinetunePart()
    comet: str | None = None
    beam: Count = 5
    length_penalty: float = 1.0
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = (1, 2, 3)

    @model_validator(mode="after")
    def _known_names(self) -> ExperimentFile:
        try:
            Languages.parse(self.languages)
            paper_of(self.paper)
        except LacunaError as error:
            raise ValueError(str(error)) from error
        if not self.seeds:
            raise ValueError("seeds: give at least one")
        return self


def read_experiment(path: str | Path) -> ExperimentFile:
    """Read an experiment.

    :raises SettingError: The file is not YAML, or has a setting that is missing, unknown or of another kind.
    """
    try:
        content: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"{path}: cannot be read ({error.strerror}); name an experiment file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: not YAML ({' '.join(str(error).split())}); mend that line") from error
    if not isinstance(content, dict):
        raise SettingError(f"{path}: got {type(content).__name__}; an experiment is a mapping of settings")
    try:
        return ExperimentFile.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        got = "" if first["type"] in ("missing", "extra_forbidden", "value_error") else f" (got {first['input']!r})"
        raise SettingError(f"{path}: {place + ': ' if place else ''}{message}{got}; see docs/reproduce.md") from error


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
