"""The whole path on the bundled model: corpus, memory, margins, pruned memory, combiners, better translations.

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

from lacuna.combiners import SavedCombiner, Vanilla, load_combiner
from lacuna.corpora import draw_pairs, read_corpus
from lacuna.corpora.fetching import fetch_domain
from lacuna.datastore import Store, build_store, open_store
from lacuna.evaluation import SystemScore, evaluate_systems
from lacuna.files import write_json, write_text
from lacuna.fitting import DevSet, FitAdaptive, fit_combiner, tune
from lacuna.index import build_index
from lacuna.margin import measure_margin
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.pruning import Plac, prune_store
from lacuna.records import Languages, SentencePair, Translation
from lacuna.translator import Memory, Translator, open_memory


@dataclass(frozen=True)
class DemoSettings:
    """How much of everything, so that two cores need a few minutes.

    :param train: Training pairs that go into the memory, drawn at random.
    :param dev: Dev pairs to which the combiners are fitted.
    :param test: Test pairs that are translated with and without memories.
    :param min_margin: Known entries with this knowledge margin or more are dropped from the pruned memory.
    """

    domain: str = "it"
    languages: Languages = field(default=Languages("de", "en"))
    train: int = 15_000
    dev: int = 800
    test: int = 400
    min_margin: int = 16
    seed: int = 1


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What came out.

    :param scores: Of every system, compared with the model alone.
    :param p_decline: How likely it is chance that adaptive with the pruned memory is worse than with the whole one.
    :param example: A sentence that the memory improved, with the evidence of every token.
    """

    scores: tuple[SystemScore, ...]
    tokens_per_second: tuple[float, ...]
    p_decline: float
    vanilla: Vanilla
    entries: int
    pruned_entries: int
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
    """Go the whole path; write stores, combiners, translations and the report into ``into``."""
    clock = _Clock()
    languages = settings.languages
    fetch_domain(settings.domain, languages, into / "corpus", seed=settings.seed, progress=progress)
    clock.note("fetch")
    train, dev, test = (
        _draw(into / "corpus" / f"{part}.tsv", languages, getattr(settings, part), settings.seed)
        for part in ("train", "dev", "test")
    )
    dev_set = DevSet(dev)
    store = build_store(model, train, into / "store", progress=progress)
    clock.note("build")
    index = build_index(store, progress=progress)
    clock.note("index")
    pruned = _prune(store, into / "pruned", settings, clock, progress)
    whole, small = open_memory(store.path, settings.domain), open_memory(pruned.path, f"{settings.domain}, pruned")
    vanilla = tune(model, [whole], dev_set, progress=progress)[0].combiner
    clock.note("tune")
    systems = {"model alone": Translator(model), "vanilla": Translator(model, [whole], vanilla)}
    for name, memory in (("adaptive", whole), ("adaptive, pruned", small)):
        combiner = _adaptive(model, memory, dev_set, into / _file_name(name), settings.seed, progress)
        systems[name] = Translator(model, [memory], combiner)
        clock.note(f"fit {name}")
    return _report(systems, vanilla, store, pruned, index.manifest.kind, test, into, clock, progress)


def _report(
    systems: dict[str, Translator],
    vanilla: Vanilla,
    store: Store,
    pruned: Store,
    index_kind: str,
    test: Sequence[SentencePair],
    into: Path,
    clock: _Clock,
    progress: Progress,
) -> DemoReport:
    """Translate test with every system, and compare."""
    sources, references = [pair.source for pair in test], [pair.target for pair in test]
    texts, speeds = {}, []
    for name, translator in systems.items():
        started = time.perf_counter()
        results = translator.translate(sources, progress=progress)
        speeds.append(round(sum(result.tokens for result in results) / (time.perf_counter() - started), 1))
        texts[name] = [result.text for result in results]
        write_text(into / f"{_file_name(name)}.txt", "".join(f"{text}\n" for text in texts[name]))
        clock.note(f"translate {name}")
    place = _most_telling(references, texts["model alone"], texts["adaptive"])
    [_, against_whole] = evaluate_systems(references, {name: texts[name] for name in ("adaptive", "adaptive, pruned")})
    report = DemoReport(
        scores=tuple(evaluate_systems(references, texts)),
        tokens_per_second=tuple(speeds),
        p_decline=1.0 if against_whole.p_decline is None else against_whole.p_decline,
        vanilla=vanilla,
        entries=store.entries,
        pruned_entries=pruned.entries,
        known_ratio=round(float(store.known.mean()), 4),
        store_bytes=_bytes(store),
        index_kind=index_kind,
        example=systems["adaptive"].translate([sources[place]], evidence=True)[0],
        example_reference=references[place],
        example_without=texts["model alone"][place],
        seconds=clock.seconds,
    )
    write_json(into / "report.json", report.as_json())
    return report


def _prune(store: Store, into: Path, settings: DemoSettings, clock: _Clock, progress: Progress) -> Store:
    """Measure margins and drop all that PLAC may drop, unless that was done before."""
    measure_margin(store, progress=progress)
    clock.note("margin")
    if not into.exists():
        pruner = Plac(settings.min_margin)
        prune_store(store, pruner, into, ratio=1.0, clamp=True, seed=settings.seed, progress=progress)
    clock.note("prune")
    return open_store(into)


def _adaptive(model: Model, memory: Memory, dev: DevSet, folder: Path, seed: int, progress: Progress) -> SavedCombiner:
    """Fit adaptive kNN-MT to a memory, unless that was done before."""
    if folder.exists():
        return load_combiner(folder)
    return fit_combiner(FitAdaptive(), model, [memory], dev, folder, seed=seed, progress=progress).combiner


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


def _file_name(system: str) -> str:
    return system.replace(",", "").replace(" ", "-")


def _draw(path: Path, languages: Languages, wanted: int, seed: int) -> list[SentencePair]:
    return draw_pairs(list(read_corpus(path, languages=languages)), wanted, seed)


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
