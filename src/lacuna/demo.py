"""The demo: corpus, memory, margins, pruned memory, combiners and translations with one model.

Every artifact stays in the folder of the demo. A later run reuses it if ``demo.json`` has the same inputs for it, and
makes it again otherwise. This module does not display the result.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lacuna.combiners import SavedCombiner, Vanilla, load_combiner
from lacuna.corpora import draw_pairs, read_corpus
from lacuna.corpora.fetching import fetch_domain
from lacuna.datastore import Store, build_store, open_store
from lacuna.errors import SettingError
from lacuna.evaluation import SystemScore, evaluate_systems, sentence_gains
from lacuna.files import write_json, write_text
from lacuna.fitting import DevSet, FitAdaptive, fit_combiner, tune
from lacuna.index import build_index
from lacuna.manifests import Record, read_manifest
from lacuna.margin import measure_margin
from lacuna.models import Model
from lacuna.progress import SILENT, Progress
from lacuna.pruning import Plac, prune_store
from lacuna.records import Languages, SentencePair, Translation
from lacuna.reproduction.experiment import as_sentences
from lacuna.step_cache import settings_as_json, step_key
from lacuna.translator import Memory, Translator, open_memory

# Folders that a demo makes.
_ARTIFACTS = ("store", "pruned", "adaptive", "adaptive-pruned")


class DemoRecord(Record):
    """The content of ``demo.json``.

    :param artifacts: By folder, the key of the inputs that the artifact was made from.
    """

    format: int = 1
    kind: Literal["demo"] = "demo"
    artifacts: dict[str, str]


@dataclass(frozen=True)
class DemoSettings:
    """Settings of the demo. The defaults take a few minutes on two cores.

    :param train: Training pairs in the memory, drawn at random.
    :param dev: Dev pairs for fitting the combiners.
    :param test: Test pairs to translate with and without memories.
    :param min_margin: The pruned memory lacks the known entries with this knowledge margin or more.
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
    """The results of the demo.

    :param scores: Scores of every system, compared with the model alone.
    :param p_decline: p-value of a decline of adaptive with the pruned memory against the whole one.
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
        """Return the results as JSON."""
        content = asdict(self)
        content["scores"] = [score.as_json() for score in self.scores]
        return content


def run_demo(model: Model, into: Path, settings: DemoSettings, progress: Progress = SILENT) -> DemoReport:
    """Run the demo; write stores, combiners, translations and the report into ``into``.

    :raises SettingError: ``into`` has artifacts without a record of the inputs they were made from.
    """
    clock, made = _Clock(), _MadeArtifacts(into)
    languages = settings.languages
    fetch_domain(settings.domain, languages, into / "corpus", seed=settings.seed, progress=progress)
    clock.note("fetch")
    train, dev, test = (
        _draw(into / "corpus" / f"{part}.tsv", languages, getattr(settings, part), settings.seed)
        for part in ("train", "dev", "test")
    )
    # The path counts, because the origins of the sentences name it.
    inputs = {"model": model.fingerprint, "languages": str(model.languages), "train": as_sentences(train).key}
    inputs["path"] = str(into)
    built = made.note("store", "store", inputs)
    # Opens or resumes an existing store; fetched text is clean already.
    store = build_store(model, train, into / "store", cleaning=None, progress=progress)
    dev_set = DevSet(dev)
    clock.note("build")
    index = build_index(store, progress=progress)
    clock.note("index")
    pruned, pruned_key = _prune(store, built, made, settings, clock, progress)
    whole, small = open_memory(store.path, settings.domain), open_memory(pruned.path, f"{settings.domain}, pruned")
    vanilla = tune(model, [whole], dev_set, progress=progress)[0].combiner
    clock.note("tune")
    systems = {"model alone": Translator(model), "vanilla": Translator(model, [whole], vanilla)}
    for name, memory, key in (("adaptive", whole, built), ("adaptive, pruned", small, pruned_key)):
        combiner = _adaptive(model, memory, key, dev_set, made, _file_name(name), settings.seed, progress)
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
    """Translate the test set with every system and compare."""
    sources, references = [pair.source for pair in test], [pair.target for pair in test]
    texts, speeds = {}, []
    for name, translator in systems.items():
        started = time.perf_counter()
        results = translator.translate(sources, progress=progress)
        speeds.append(round(sum(result.tokens for result in results) / (time.perf_counter() - started), 1))
        texts[name] = [result.text for result in results]
        write_text(into / f"{_file_name(name)}.txt", "".join(f"{text}\n" for text in texts[name]))
        clock.note(f"translate {name}")
    place = _most_improved(references, texts["model alone"], texts["adaptive"])
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


def _prune(
    store: Store, built: str, made: _MadeArtifacts, settings: DemoSettings, clock: _Clock, progress: Progress
) -> tuple[Store, str]:
    """Measure margins and drop everything that PLAC may drop; return the pruned store and its key."""
    measure_margin(store, progress=progress)
    clock.note("margin")
    pruner, folder = Plac(settings.min_margin), made.folder / "pruned"
    margin = step_key("margin", {"store": built})
    inputs = {"store": built, "margin": margin, "pruner": settings_as_json(pruner), "seed": settings.seed}
    key = made.note("prune", "pruned", inputs)
    if not folder.exists():
        prune_store(store, pruner, folder, ratio=1.0, clamp=True, seed=settings.seed, progress=progress)
    clock.note("prune")
    return open_store(folder), key


def _adaptive(
    model: Model,
    memory: Memory,
    memory_key: str,
    dev: DevSet,
    made: _MadeArtifacts,
    name: str,
    seed: int,
    progress: Progress,
) -> SavedCombiner:
    """Fit adaptive kNN-MT to a memory, unless this was done before."""
    fitter, folder = FitAdaptive(), made.folder / name
    dev_key = as_sentences(dev.pairs).key
    made.note("fit", name, {"memory": memory_key, "fitter": settings_as_json(fitter), "dev": dev_key, "seed": seed})
    if folder.exists():
        return load_combiner(folder)
    return fit_combiner(fitter, model, [memory], dev, folder, seed=seed, progress=progress).combiner


class _MadeArtifacts:
    """The artifacts of a demo folder, with a key of the inputs of each, in ``demo.json``.

    A key covers settings, model, corpus, and the version of the code that makes the artifact; see
    :func:`~lacuna.step_cache.step_key`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._file = folder, folder / "demo.json"
        self._keys: dict[str, str] = {}
        again = f"remove {folder}, or name another folder with --into"
        if self._file.exists():
            record = read_manifest(self._file, DemoRecord, SettingError, missing="", again=again)
            self._keys = dict(record.artifacts)
        for name in _ARTIFACTS:
            if name not in self._keys and (folder / name).exists():
                raise SettingError(f"{folder / name}: exists, but {self._file} does not say how it was made; {again}")

    def note(self, step: str, name: str, inputs: Mapping[str, Any]) -> str:
        """Record the inputs of an artifact before it is made, and remove one that was made from others.

        :param step: The step of :data:`~lacuna.step_cache.STEP_VERSIONS` that makes it.
        :param name: Name of the artifact's folder.
        :return: The key of the inputs.
        """
        key, folder = step_key(step, inputs), self.folder / name
        if self._keys.get(name) != key:
            shutil.rmtree(folder, ignore_errors=True)
            # Written first: artifacts appear complete or not at all, so a key without a folder means "to be made".
            self._keys[name] = key
            write_json(self._file, DemoRecord(artifacts=self._keys).model_dump(mode="json"))
        return key


class _Clock:
    """Measures the time of each part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def note(self, what: str) -> None:
        """Record the time since the last call as that of ``what``."""
        now = time.perf_counter()
        self.seconds[what] = round(now - self._last, 1)
        self._last = now


def _file_name(system: str) -> str:
    return system.replace(",", "").replace(" ", "-")


def _draw(path: Path, languages: Languages, wanted: int, seed: int) -> list[SentencePair]:
    return draw_pairs(list(read_corpus(path, languages=languages)), wanted, seed)


def _most_improved(references: Sequence[str], without: Sequence[str], with_memory: Sequence[str]) -> int:
    """Return the index of the sentence of readable length that the memory improved most, by chrF."""
    gains = sentence_gains(references, without, with_memory)
    readable = [4 <= len(reference.split()) <= 14 for reference in references]
    return int(np.argmax(np.where(readable, gains, -1000.0)))


def _bytes(store: Store) -> int:
    return sum(path.stat().st_size for path in store.path.rglob("*") if path.is_file())
