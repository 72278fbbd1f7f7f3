"""The demo: adapt a model to software texts, explain a translation, correct another one, and forget the correction.

Everything is in the folder of the demo; a later run uses what is there. Does not display the result.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lacuna.artifacts.files import write_json
from lacuna.corpora import draw_pairs, read_corpus, write_tsv
from lacuna.corpora.fetching import fetch_domain
from lacuna.datastore import open_store
from lacuna.domain import Domain, adapt
from lacuna.evaluation import SystemScore, evaluate_systems, sentence_gains
from lacuna.memory import Selection, memory_at
from lacuna.memory.segment_pruning import current_margins
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, SentencePair, Translation
from lacuna.translator import System

PARTS = ("train", "dev", "test")
# A part of the packages of the domain: many pairs per megabyte, and texts that are like each other, as those of one
# company are. 19,000 pairs in 65 MB instead of 52,000 in 251. Chosen on dev.
PACKAGES = ("gramps", "mayan-edms", "horizon", "Misago", "wagtail", "django-oscar")
ALONE = "model alone"

_MARKUP = frozenset("%{}<>[]&$_\\|=@#/*~^")  # characters that ordinary sentences do not have


@dataclass(frozen=True)
class DemoSettings:
    """Settings of the demo. The defaults take a few minutes on two cores.

    :param packages: The packages of the domain whose text is used; none for all of them.
    :param train: Training pairs in the memory, drawn at random.
    :param dev: Dev pairs for fitting the combiners.
    :param test: Test pairs to translate with and without the memory.
    """

    domain: str = "it"
    languages: Languages = field(default=Languages("de", "en"))
    packages: tuple[str, ...] = PACKAGES
    train: int = 15_000
    dev: int = 800
    test: int = 400
    seed: int = 1


@dataclass(frozen=True, slots=True)
class DemoCorrection:
    """A translation that was corrected.

    :param before: The translation before the correction.
    :param after: The translation with the correction in the memory.
    :param forgotten: The translation after the correction was forgotten.
    """

    pair: SentencePair
    before: str
    after: str
    forgotten: str


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The results of the demo.

    :param scores: Scores of the model alone and of the domain, compared with the model alone.
    :param example: A sentence that the memory improved, with the evidence of every token.
    """

    domain: Domain
    scores: tuple[SystemScore, ...]
    tokens_per_second: tuple[float, ...]
    example: Translation
    example_reference: str
    example_without: str
    correction: DemoCorrection
    seconds: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return the results as JSON."""
        return {
            "domain": self.domain.manifest.model_dump(mode="json"),
            "scores": [score.as_json() for score in self.scores],
            "tokens_per_second": list(self.tokens_per_second),
            "example": asdict(self.example),
            "example_reference": self.example_reference,
            "example_without": self.example_without,
            "correction": asdict(self.correction),
            "seconds": self.seconds,
        }


def run_demo(model: str | Path | None, into: Path, settings: DemoSettings, progress: Progress = SILENT) -> DemoReport:
    """Run the demo; write the corpus, the domain and the report into ``into``.

    :param model: A folder or a hub name; ``None`` for the bundled model.
    """
    started = time.perf_counter()
    seconds: dict[str, float] = {}

    def note(what: str) -> None:
        seconds[what] = round(time.perf_counter() - started - sum(seconds.values()), 1)

    corpus, sample = into / "corpus", into / "sample"
    fetch_domain(
        settings.domain,
        settings.languages,
        corpus,
        packages=settings.packages,
        dev=settings.dev,
        test=settings.test,
        seed=settings.seed,
        progress=progress,
    )
    pairs = {part: _draw(corpus, part, settings) for part in PARTS}
    for part, some in pairs.items():
        write_tsv(sample / f"{part}.tsv", some)
    note("fetch")
    domain = adapt(
        sample / "train.tsv",
        into / "domain",
        dev=sample / "dev.tsv",
        test=sample / "test.tsv",
        model=model,
        languages=settings.languages,
        seed=settings.seed,
        progress=progress,
    )
    note("adapt")
    test = pairs["test"]
    references = [pair.target for pair in test]
    systems = {ALONE: System(domain.model).open(), domain.name: domain.translator}
    texts, speeds = {}, []
    for name, translator in systems.items():
        before = time.perf_counter()
        results = translator.translate([pair.source for pair in test], progress=progress)
        speeds.append(round(sum(result.tokens for result in results) / (time.perf_counter() - before), 1))
        texts[name] = [result.text for result in results]
        note(f"translate, {name}")
    best = _readable(references, sentence_gains(references, texts[ALONE], texts[domain.name]))
    worst = _readable(references, sentence_gains(references, texts[domain.name], references))
    correction = _correct(domain, test[worst], texts[domain.name][worst])
    note("correct and forget")
    report = DemoReport(
        domain=domain,
        scores=tuple(evaluate_systems(references, texts, target_language=domain.model.target_language)),
        tokens_per_second=tuple(speeds),
        example=domain.translate([test[best].source], evidence=True)[0],
        example_reference=references[best],
        example_without=texts[ALONE][best],
        correction=correction,
        seconds=seconds,
    )
    write_json(into / "report.json", report.as_json())
    return report


def _correct(domain: Domain, pair: SentencePair, before: str) -> DemoCorrection:
    """Add the right translation of a sentence to the memory, translate it again, and forget it."""

    def translate() -> str:
        return domain.open_system().open().translate([pair.source])[0].text

    memory = memory_at(domain.memory)
    added = memory.add([pair], domain.model, cleaning=None).added
    after = translate()
    memory.forget(Selection(sentences=added))
    current_margins(open_store(domain.memory), SILENT)  # brings them up to date
    return DemoCorrection(pair, before, after, translate())


def _draw(corpus: Path, part: str, settings: DemoSettings) -> list[SentencePair]:
    pairs = list(read_corpus(corpus / f"{part}.tsv", languages=settings.languages))
    return draw_pairs(pairs, getattr(settings, part), settings.seed)


def _readable(references: Sequence[str], gains: Sequence[float]) -> int:
    """Return the index of the sentence of readable length, without markup and placeholders, with the largest gain."""
    readable = [4 <= len(reference.split()) <= 14 and not _MARKUP & set(reference) for reference in references]
    return int(np.argmax(np.where(readable, gains, -1000.0)))
