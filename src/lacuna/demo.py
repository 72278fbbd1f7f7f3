"""The whole path on the bundled model: corpus -> memory -> better translation, each step a verb of the library.

Every step leaves its artifact in the demo's folder and is not done again if that is there. Knows nothing of how
the result is shown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from lacuna.combiners import Vanilla
from lacuna.corpora import read_corpus
from lacuna.corpora.fetching import fetch_domain
from lacuna.datastore import Store, build_store
from lacuna.evaluation import SystemScore, evaluate_systems
from lacuna.files import write_json, write_text
from lacuna.index import build_index
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.records import Languages, SentencePair, Translation
from lacuna.translator import Translator, open_memory, tune


@dataclass(frozen=True)
class DemoSettings:
    """How much of everything, so that two cores need a few minutes.

    :param train: Training pairs that go into the memory, drawn at random.
    :param dev: Dev pairs on which k, temperature and knn_weight are chosen.
    :param test: Test pairs that are translated with and without the memory.
    """

    domain: str = "it"
    languages: Languages = field(default=Languages("de", "en"))
    train: int = 15_000
    dev: int = 400
    test: int = 400
    seed: int = 1


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What came out: scores of the model alone and with memory, their speeds, and one sentence in detail."""

    scores: tuple[SystemScore, ...]
    tokens_per_second: tuple[float, ...]
    combiner: Vanilla
    entries: int
    known_ratio: float
    store_bytes: int
    index_kind: str
    example: Translation
    example_reference: str
    example_without: str
    seconds: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return the report for machines."""
        content = asdict(self)
        content["scores"] = [score.as_json() for score in self.scores]
        return content


def run_demo(model: Model, into: Path, settings: DemoSettings, progress: Progress = SILENT) -> DemoReport:
    """Fetch, build, index, tune, translate twice, evaluate; write the translations and the report into ``into``."""
    clock = _Clock()
    languages = settings.languages
    fetch_domain(settings.domain, languages, into / "corpus", seed=settings.seed, progress=progress)
    clock.note("fetch")
    train, dev, test = (
        _draw(into / "corpus" / f"{part}.tsv", languages, getattr(settings, part), settings.seed)
        for part in ("train", "dev", "test")
    )
    store = build_store(model, train, into / "store", progress=progress)
    clock.note("build")
    index = build_index(store, progress=progress)
    clock.note("index")
    memory = open_memory(into / "store", settings.domain)
    combiner = tune(model, [memory], dev, progress=progress)[0].combiner
    clock.note("tune")
    sources, references = [pair.source for pair in test], [pair.target for pair in test]
    results, speeds = [], []
    for name, memories in (("model alone", []), ("with memory", [memory])):
        started = time.perf_counter()
        results.append(Translator(model, memories, combiner).translate(sources, progress=progress))
        speeds.append(sum(result.tokens for result in results[-1]) / (time.perf_counter() - started))
        write_text(into / f"{name.replace(' ', '-')}.txt", "".join(f"{result.text}\n" for result in results[-1]))
        clock.note(f"translate {name}")
    texts = {name: [r.text for r in part] for name, part in zip(("model alone", "with memory"), results, strict=True)}
    scores = evaluate_systems(references, texts, target_language=languages.target)
    place = _most_telling(references, *texts.values())
    translator = Translator(model, [memory], combiner)
    report = DemoReport(
        scores=tuple(scores),
        tokens_per_second=tuple(round(speed, 1) for speed in speeds),
        combiner=combiner,
        entries=store.entries,
        known_ratio=round(float(store.known.mean()), 4),
        store_bytes=_bytes(store),
        index_kind=index.manifest.kind,
        example=translator.translate([sources[place]], evidence=True)[0],
        example_reference=references[place],
        example_without=results[0][place].text,
        seconds=clock.seconds,
    )
    write_json(into / "report.json", report.as_json())
    return report


class _Clock:
    """Notes how long each part took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def note(self, what: str) -> None:
        """Give the time since the last note to ``what``."""
        now = time.perf_counter()
        self.seconds[what] = round(now - self._last, 1)
        self._last = now


def _draw(path: Path, languages: Languages, wanted: int, seed: int) -> list[SentencePair]:
    pairs = list(read_corpus(path, languages=languages))
    chosen = np.random.default_rng(seed).permutation(len(pairs))[:wanted]
    return [pairs[number] for number in sorted(chosen)]


def _most_telling(references: Sequence[str], without: Sequence[str], with_memory: Sequence[str]) -> int:
    """Return the sentence of readable length that the memory improved most, by chrF."""
    chrf = CHRF()
    gains = [
        chrf.sentence_score(better, [reference]).score - chrf.sentence_score(worse, [reference]).score
        if 4 <= len(reference.split()) <= 14
        else -1000.0
        for reference, worse, better in zip(references, without, with_memory, strict=True)
    ]
    return int(np.argmax(gains))


def _bytes(store: Store) -> int:
    return sum(path.stat().st_size for path in store.path.rglob("*") if path.is_file())
